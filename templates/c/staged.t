%# Rows of a bias or mask, which are read where they lie; where whole vectors would reach past them, or keys do not lie side by
%# side, from a copy.
% if BIAS != "none" or MASK
/* ${STAGED_ROWS} rows of [rows][keys] elements: in place, or what there is of them in ${STAGED_ROWS} rows of ${STAGED_KEYS}, and zeros. */
static const void *table(const void *from, const int64_t *stride, int64_t *ld, int64_t rows, int64_t keys, int64_t padded, size_t element,
    void *stage)
{
    *ld = stride[2];
    if (stride[3] == 1 && (rows >= ${STAGED_ROWS} || *ld == 0) && keys >= padded)
        return from;
    memset(stage, 0, ${STAGED_ROWS*STAGED_KEYS} * element);
    for (int64_t r = 0; r < least(rows, ${STAGED_ROWS}); r++) {
        const char *in = (const char *)from + r * *ld * (int64_t)element;
        char *out = (char *)stage + (size_t)r * ${STAGED_KEYS} * element;
        if (stride[3] == 1)
            memcpy(out, in, (size_t)least(keys, padded) * element);
        else
            for (int64_t c = 0; c < least(keys, padded); c++)
                memcpy(out + (size_t)c * element, in + c * stride[3] * (int64_t)element, element);
    }
    *ld = ${STAGED_KEYS};
    return stage;
}
% end
