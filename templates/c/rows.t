%# Where the rows are that a vector at a time is packed from.

/* The rows themselves, or a copy padded with zeros where whole vectors would reach past their end. */
static const void *staged(const void *from, int64_t *ld, int64_t rows, int64_t width, int64_t padded, int64_t element, void *stage)
{
    if (rows >= ${W} && width == padded)
        return from;
    memset(stage, 0, ${W} * padded * element);
    for (int64_t r = 0; r < least(rows, ${W}); r++)
        memcpy((char *)stage + r * padded * element, (const char *)from + r * *ld * element, width * element);
    *ld = padded;
    return stage;
}

/* W keys or values of a head from row j on, of those before `end`. */
static const ${CKV} *keys_from(const struct attn_args *a, const struct sequence *s, const ${CKV} *head, const int64_t *stride, int64_t j, int64_t end,
    int64_t width, int64_t padded, int64_t *ld, ${CKV} *stage)
{
    *ld = stride[2];
% if PAGED
    int64_t size = a->features->page_size;
    const int32_t *pages = a->features->pages + s->b * a->features->page_stride;
    if (j < end && j % size + least(${W}, end - j) <= size)
        return staged(head + pages[j / size] * stride[0] + j % size * stride[2], ld, end - j, width, padded, sizeof *head, stage);
    memset(stage, 0, ${W} * padded * sizeof *stage);
    for (int64_t r = 0; r < least(end - j, ${W}); r++)
        memcpy(stage + r * padded, head + pages[(j + r) / size] * stride[0] + (j + r) % size * stride[2], width * sizeof *stage);
    *ld = padded;
    return stage;
% else
    (void)a, (void)s;
    return staged(j < end ? head + j * stride[2] : head, ld, end - j, width, padded, sizeof *head, stage);
% end
}
