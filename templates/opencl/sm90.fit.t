%# Queries in bf16 become f16, where keys are numbers that bf16 has no room for.
% if K_TWO
/* Turns queries from bf16 into f16. A row whose largest number is at least 1, and below 2**15, stays as it is: what is lost is then
 * at most 2**-25 of that number. Others are multiplied by a power of two that brings it to at least 2**14, and below 2**15.
 * x->units receives the inverse powers, for this work-item's two rows of scores. */
INLINED void fit_queries(struct worker *x)
% else
/* Turns queries from bf16 into f16. Each row is multiplied by a power of two that brings its largest number to at least 2**14, and
 * below 2**15, so that only what is smaller than 2**-38 of the largest is lost. unit receives the inverse powers, for this
 * work-item's two rows of scores. */
INLINED void fit_queries(const struct worker *x, float *unit)
% end
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    __local uchar *const mine = memory + (Q_AT(x->w, x->nq) - shared) + (16 * x->warp + x->lane / 4) * 128 + (x->lane & 3) * 32;
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        __local uint4 *const row = (__local uint4 *)(mine + 1024 * r);
        int top = 0;
        #pragma unroll
        for (int c = 0; c < ${2*HB}; c++) {
            const uint4 y = row[c / 2 * ${Q_BOX/16} + c % 2];
            top = larger(larger(larger(larger(top, y.x), y.y), y.z), y.w);
        }
        top = max(top, as_int(across(as_float(top), 1)));
        top = max(top, as_int(across(as_float(top), 2)));
% if K_TWO
        const int stays = top == 0 || (top >= 127 << 7 && top < 142 << 7), power = stays ? 0 : min(141 - (top >> 7), 120);
        x->units = (r == 0 ? 0 : x->units) | (127 - power) << 8 * r;
% else
        const int power = min(141 - (top >> 7), 120);
        unit[r] = as_float((127 - power) << 23);
% end
        const float by = as_float((127 + power) << 23);
        #pragma unroll
        for (int c = 0; c < ${2*HB}; c++) {
            const uint4 y = row[c / 2 * ${Q_BOX/16} + c % 2];
            row[c / 2 * ${Q_BOX/16} + c % 2] = ${UINT4}(fitted(y.x, by), fitted(y.y, by), fitted(y.z, by), fitted(y.w, by));
        }
    }
    shared_written();
    named_sync(3 + x->w, 128);
}
