%# Rows of a tensor where they lie, or a copy.

/* n of `all` keys or values of a head, from row j on: in place, or, where rows are not whole vectors, do not lie side by side or
 * are fewer, a copy of `all` rows, padded with zeros. */
static const ${CKV} *keys_at(const struct attn_args *a, const struct sequence *s, const ${CKV} *head, const int64_t *stride, int64_t j, int64_t n,
    int64_t all, int64_t width, int64_t padded, int64_t *ld, ${CKV} *copy)
{
    int64_t r = 0;
% if PAGED
    int64_t size = a->features->page_size;
    const int32_t *pages = a->features->pages + s->b * a->features->page_stride;
    int together = j % size + n <= size;
% let ROW = "pages[(j + r) / size] * stride[0] + (j + r) % size * stride[2]"
% else
    int together = 1;
    (void)a, (void)s;
% let ROW = "(j + r) * stride[2]"
% end
    *ld = stride[2];
    if (together && n == all && width == padded)
        return head + ${ROW};
    memset(copy, 0, (size_t)(all * padded) * sizeof *copy);
    for (; r < n; r++)
        memcpy(copy + r * padded, head + ${ROW}, (size_t)width * sizeof *copy);
    *ld = padded;
    return copy;
}
% if not SPLIT

/* W rows of queries, or a copy padded with zeros where there are fewer or they are not whole vectors. */
static const ${CQ} *queries_at(const ${CQ} *from, int64_t *ld, int64_t rows, ${CQ} *copy)
{
% if HD == LDQ*PER
    if (rows >= ${W})
        return from;
% end
    memset(copy, 0, ${W*LDQ*PER} * sizeof *copy);
    for (int64_t r = 0; r < least(rows, ${W}); r++)
        memcpy(copy + r * ${LDQ*PER}, from + r * *ld, ${HD} * sizeof *copy);
    *ld = ${LDQ*PER};
    return copy;
}
% end
