%# Narrow rows that begin anywhere, or that all warps widen together, and blocks: they come to shared memory as they lie, 16 bytes at a
%# time, from the last multiple of 16 before them, and are put into boxes from there.

% if COPY == "any"
/* Copies a tile's rows of so many bytes, n of which exist, and notes how far behind a multiple of 16 bytes each begins. */
% else
/* Copies a tile's rows of so many bytes, n of which exist. */
% end
INLINED void raw_rows(const struct worker *p, uint to, uint shifts, __global const ${TYPE_KV} *from, ${OF_ROWS}, int n, const int chunks,
    int bytes)
{
    for (int t = p->item; t < ${BK} * chunks; t += ${ITEMS}) {
        const int row = t / chunks, chunk = t - row * chunks;
% if PAGED
        const struct place at = PLACES(tile)[row];
% end
        __global const ${TYPE_KV} *const begin = from + (row < n ? (${ROW_AT})${IN_BYTES}${OF_UNIT} : 0);
% if COPY == "any"
        const int shift = (int)(ulong)begin & 15, behind = 16 * chunk - shift;
        copy16_async(p->shared + to + 16 * t, begin + behind, row < n ? max(min(bytes - behind, 16), 0) : 0);
        if (chunk == 0)
            p->memory[shifts + row] = (uchar)shift;
% else
        copy16(p->shared + to + 16 * t, begin + 16 * chunk, row < n && 16 * chunk < bytes);
% end
    }
}

% if COPY == "any"
/* The 16 bytes of shared memory from any place on. */
INLINED uint4 bytes_at(__local const uchar *memory, uint at)
{
    __local const uint *const words = (__local const uint *)(memory + (at & ~3u));
    const uint by = 8 * (at & 3);
    uint y[5];
    #pragma unroll
    for (int i = 0; i < 5; i++)
        y[i] = words[i];
    #pragma unroll
    for (int i = 0; i < 4; i++)
        y[i] = (uint)(((ulong)y[i + 1] << 32 | y[i]) >> by);
    return ${UINT4}(y[0], y[1], y[2], y[3]);
}
% else
INLINED uint4 bytes_at(__local const uchar *memory, uint at)
{
    return *(__local const uint4 *)(memory + at);
}
% end
% if DTYPE_KV == "q4_0"
INLINED uint less8(uint four) /* four halves of bytes, less 8 each, as signed bytes */
{
    return ((four & 0x0f0f0f0f) + 0x78787878) ^ 0x80808080;
}
% end

/* Puts columns 16*c to 16*c + 15 of a row into boxes${WIDENS ? ", as f16" : ""}. */
INLINED void put_columns(__local uchar *boxes, const int count, const int last, int row, int c, uint4 x)
{
% if WIDENS
    uint y[8];
    widened(y, x.x), widened(y + 2, x.y), widened(y + 4, x.z), widened(y + 6, x.w);
    const int width = c / 4 < count - 1 ? 128 : last;
    __local uchar *const box = boxes + c / 4 * ${BK*128};
    *(__local uint4 *)(box + place(row, c % 4 * 2, width)) = ${UINT4}(y[0], y[1], y[2], y[3]);
    *(__local uint4 *)(box + place(row, c % 4 * 2 + 1, width)) = ${UINT4}(y[4], y[5], y[6], y[7]);
% else
    *(__local uint4 *)(boxes + c / 8 * ${BK*128} + place(row, c % 8, c / 8 < count - 1 ? 128 : last)) = x;
% end
}

/* Puts a tile's rows into boxes${BLOCKS ? ", and the scales of their blocks beside each other, block by block" : ""}; pieces: of a row. */
INLINED void settle_rows(const struct worker *p, uint from, uint shifts, uint to, ${BLOCKS ? "uint scales, " : ""}const int pieces, const int raw, const int boxes, const int last)
{
    for (int t = p->item; t < ${BK} * pieces; t += ${ITEMS}) {
        const int row = t / pieces, c = t - row * pieces;
        const uint row_at = from + row * raw${COPY == "any" ? " + p->memory[shifts + row]" : ""};
% if BLOCKS
        const uint block = row_at + ${UNIT} * ${DTYPE_KV == "q4_0" ? "c" : "(c / 2)"};
        const uint4 x = bytes_at(p->memory, block + 2${DTYPE_KV == "q4_0" ? "" : " + 16 * (c % 2)"});
        if (${DTYPE_KV == "q4_0" ? "1" : "c % 2 == 0"})
            *(__local float *)(p->memory + scales + 4 * (${DTYPE_KV == "q4_0" ? "c" : "c / 2"} * ${BK} + row)) = of_f16(*(__local const ushort *)(p->memory + block));
% else
        const uint4 x = bytes_at(p->memory, row_at + 16 * c);
% end
% if DTYPE_KV == "q4_0"
        put_columns(p->memory + to, boxes, last, row, 2 * c, ${UINT4}(less8(x.x), less8(x.y), less8(x.z), less8(x.w)));
        put_columns(p->memory + to, boxes, last, row, 2 * c + 1, ${UINT4}(less8(x.x >> 4), less8(x.y >> 4), less8(x.z >> 4), less8(x.w >> 4)));
% else
        put_columns(p->memory + to, boxes, last, row, c, x);
% end
    }
}
% let PER_BLOCK = DTYPE_KV == "q4_0" ? 32 : 16

enum { SETTLED = ${AT_SETTLED}, SETTLED_V = ${AT_SETTLED + K_TILE} }; /* where that is */
/* Puts the n-th tile of keys and values where products read it. */
INLINED void settle(const struct worker *p, int n)
{
    const uint from = ${AT_STAGES} + n % ${ST} * ${STAGE};
    settle_rows(p, from, from + ${AT_SHIFTS}, ${AT_SETTLED}, ${BLOCKS ? AT_SETTLED + K_TILE + V_TILE : ""}${BLOCKS ? ", " : ""}${ceil_div(HD, PER_BLOCK)}, ${K_RAW}, ${K_BOXES}, ${K_LAST});
    settle_rows(p, from + ${BK*K_RAW}, from + ${AT_SHIFTS + BK}, ${AT_SETTLED + K_TILE}, ${BLOCKS ? AT_SETTLED + K_TILE + V_TILE + 4*BK*K_BLOCKS : ""}${BLOCKS ? ", " : ""}${ceil_div(DV, PER_BLOCK)}, ${V_RAW}, ${V_BOXES}, ${V_LAST});
}
% if BLOCKS
#define K_SCALES(p) ((__local const float *)((p)->memory + ${AT_SETTLED + K_TILE + V_TILE}))
#define V_SCALES(p) (K_SCALES(p) + ${BK*K_BLOCKS})

% if INVARIANT
/* What fit_row says of a fragment's two rows, by the scales of all blocks of the values that they see. */
INLINED void fit_blocks(const float *s, const struct worker *p, float *unit, float *inverse, float *by)
{
    float top[2] = {0.0f, 0.0f};
    #pragma unroll
    for (int n = 0; n < ${NS}; n += 4) {
        float2 y = ${FLOAT2}(0.0f, 0.0f);
        #pragma unroll
        for (int c = 0; c < ${V_BLOCKS}; c++) {
            const float2 z = *(__local const float2 *)(V_SCALES(p) + c * ${BK} + 2 * n + 2 * (p->lane & 3));
            y.x = fmax(y.x, fabs(z.x)), y.y = fmax(y.y, fabs(z.y));
        }
        #pragma unroll
        for (int r = 0; r < 2; r++)
            top[r] = fmax(top[r], fmax(s[n + 2 * r] > 0.0f ? y.x : 0.0f, s[n + 2 * r + 1] > 0.0f ? y.y : 0.0f));
    }
    #pragma unroll
    for (int r = 0; r < 2; r++)
        by[r] = fit_row(top[r], unit + r, inverse + r);
}
% else
/* What fit_scales says of the scales of all blocks of a tile's values. */
INLINED float fit_blocks(struct worker *p, float *inverse)
{
    float top = 0.0f;
    for (int n = p->lane; n < ${BK*V_BLOCKS}; n += 32)
        top = fmax(top, fabs(V_SCALES(p)[n]));
    #pragma unroll
    for (int n = 1; n < 32; n *= 2)
        top = fmax(top, across(top, n));
    return fit_scales(top, &p->unit, inverse);
}
% end
% end
