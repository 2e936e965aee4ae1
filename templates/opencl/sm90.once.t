%# Widens narrow keys and values once for a launch: three warps beside the one that copies take tiles of them from a counter, in the
%# order in which they will be wanted, and the copying warps of all groups wait for those that they copy. Whoever has taken a tile
%# waits for nobody, so it does not matter how many groups run at once.
%#
%# Keys are exact in bf16, and their scales multiply scores. Values go to f16 together with their scales, which are divided by a power of
%# two: a number is then off by 2**-11 of itself at most, or by 2**-25 of the largest scale of a row that is not zero; less than
%# probabilities in bf16 would be off.
% let COUNT = 96
%# The loads that a work-item has under way at once, as many as registers allow.
% let FLIGHT = IN_PAGES ? 3 : 4
/* A stored number. */
INLINED float number(uint code)
{
% if DTYPE_KV == "int8"
    return as_float((int)(0x4b000000 | (code ^ 128))) - 8388736.0f; /* 2**23 and the number and 128, less both */
% else
    /* The exponent is 120 more in a float. Numbers with an exponent of 0 are multiples of 2**-9; read as others are, they would be 2**-7 and
     * a fraction of it. */
    const uint size = code & 127;
    const float usual = as_float((int)((size << 20) + 0x3c000000)), x = size == 127 ? as_float(0x7fc00000) : fmin(usual, 2.0f * usual - 0.015625f);
    return code & 128 ? -x : x;
% end
}

/* Widens 16 of them: keys to ${DTYPE}; values, multiplied by a number, to f16. */
INLINED void widen16(__global uint4 *to, uint4 x, const int values, float by)
{
    const uint four[4] = {x.x, x.y, x.z, x.w};
    uint y[8];
    #pragma unroll
    for (int n = 0; n < 8; n++) {
        const uint two = four[n / 2] >> n % 2 * 16;
        const float low = number(two & 255), high = number(two >> 8 & 255);
        y[n] = values ? rounded(low * by, high * by) : (as_uint(high) & 0xffff0000u) | as_uint(low) >> 16;
    }
    to[0] = ${UINT4}(y[0], y[1], y[2], y[3]);
    to[1] = ${UINT4}(y[4], y[5], y[6], y[7]);
}

/* A tile of keys, or of their values, that is being widened. */
struct rows {
    __global const ${TYPE_KV} *from;  /* the KV head's${IN_PAGES ? "" : ", of its sequence"} */
    __global const float *scales;     /* likewise */
    long step${IN_PAGES ? ", page" : ""}, scale_step${IN_PAGES ? ", scale_page" : ""}; /* from row to row${IN_PAGES ? ", and from page to page" : ""} */
    __global ushort *to;              /* its first row */
% if IN_PAGES
    __global const int *pages;        /* of its sequence */
    uint page_size;
% end
    int first, count;                 /* rows: the first key, and how many there are */
};
INLINED __global const uint4 *row16(const struct rows *t, int r, int piece)
{
% if IN_PAGES
    const uint key = (uint)(t->first + r), n = key / t->page_size;
    return (__global const uint4 *)(t->from + t->pages[n] * t->page + (key - n * t->page_size) * t->step) + piece;
% else
    return (__global const uint4 *)(t->from + (t->first + r) * t->step) + piece;
% end
}
INLINED float scale_of_row(const struct rows *t, int r)
{
% if IN_PAGES
    const uint key = (uint)(t->first + r), n = key / t->page_size;
    return t->scales[t->pages[n] * t->scale_page + (key - n * t->page_size) * t->scale_step];
% else
    return t->scales[(t->first + r) * t->scale_step];
% end
}

/* Widens rows of so many columns. Values are multiplied by their scales times \`by\`, unless
 * all of a head have the same. */
INLINED void widen_rows(const struct rows *t, const int columns, const int values, int even, float by, int item)
{
    const int pieces = columns / 16, all = t->count * pieces;
    #pragma unroll 1
    for (int u = item; u < all; u += ${FLIGHT*COUNT}) {
        uint4 x[${FLIGHT}];
        float scale[${FLIGHT}];
        #pragma unroll
        for (int n = 0; n < ${FLIGHT}; n++) {
            const int at = min(u + n * ${COUNT}, all - 1), r = at / pieces;
            x[n] = *row16(t, r, at - r * pieces);
            scale[n] = values && !even ? scale_of_row(t, r) * by : 1.0f;
        }
        #pragma unroll
        for (int n = 0; n < ${FLIGHT}; n++)
            if (u + n * ${COUNT} < all)
                widen16((__global uint4 *)(t->to + 16 * (long)(u + n * ${COUNT})), x[n], values, scale[n]);
    }
}

/* The largest scale of a row that has a number other than 0: a row of zeros may have any. */
INLINED float largest_scale(const struct rows *t, __local volatile float *tops, int item)
{
    const int pieces = ${HDV/16}, all = t->count * pieces;
    float top = 0.0f;
    #pragma unroll ${FLIGHT - 1}
    for (int u = item; u < all; u += ${COUNT}) {
        const int r = u / pieces;
        const uint4 x = *row16(t, r, u - r * pieces);
        const uint some = ${DTYPE_KV == "fp8" ? "(x.x | x.y | x.z | x.w) & 0x7f7f7f7f" : "x.x | x.y | x.z | x.w"};
        top = fmax(top, some ? fabs(scale_of_row(t, r)) : 0.0f);
    }
    #pragma unroll
    for (int n = 1; n < 32; n *= 2)
        top = fmax(top, across(top, n));
    if ((item & 31) == 0)
        tops[item / 32] = top;
    named_sync(WIDENING, ${COUNT});
    return fmax(fmax(tops[0], tops[1]), tops[2]);
}

/* What all tiles have in common. A launch's arguments are read anew for each, for lack of registers. */
struct stored {
    __global const ${TYPE_KV} *k, *v;
    __global const float *k_scales, *v_scales;
% if IN_PAGES
    __global const int *pages; /* of all sequences */
% end
    __global ushort *memory;
    const struct attn_cl_args *a;
    const struct attn_cl_features *y;
};
INLINED struct rows rows_of(const struct stored *x, const int values, int b, int g, int first, int count, __global ushort *to)
{
    const long *const step = values ? x->a->v_stride : x->a->k_stride, *const scale = values ? x->y->v_scales_stride : x->y->k_scales_stride;
    struct rows t = {.from = (__global const ${TYPE_KV} *)here((long)(values ? x->v : x->k)),
        .scales = (__global const float *)here((long)(values ? x->v_scales : x->k_scales)), .step = here(step[2]), .scale_step = here(scale[2]),
        .to = to, .first = first, .count = count};
    t.from += here(values ? x->a->v_at : x->a->k_at) + g * here(step[1]);
    t.scales += here(values ? x->y->v_scales_at : x->y->k_scales_at) + g * here(scale[1]);
% if IN_PAGES
    t.pages = (__global const int *)here((long)x->pages) + here(x->y->pages_at) + b * here(x->y->page_stride), t.page_size = (uint)min(here(x->y->page_size), 1L << 30);
    t.page = here(step[0]), t.scale_page = here(scale[0]);
% else
    t.from += b * here(step[0]), t.scales += b * here(scale[0]);
% end
    return t;
}

/* Tile j of a KV head: keys, values and, where scales are a matter of rows, its record. */
INLINED void widen_tile(const struct stored *x, __global float *record, int even, int b, int g, int j, int keys, __local volatile float *tops, int item)
{
    const int first = j * ${BK}, count = min(keys - first, ${BK});
    float by = 1.0f;
    struct rows t = rows_of(x, 0, b, g, first, count, wide_keys(x->a, x->memory) + row_in(x->a, b, g, first) * ${HD});
    widen_rows(&t, ${HD}, 0, 1, 1.0f, item);
    if (!even)
        for (int r = item; r < ${BK}; r += ${COUNT})
            record[r] = r < count ? scale_of_row(&t, r) : 0.0f;
    t = rows_of(x, 1, b, g, first, count, wide_values(x->a, x->memory) + row_in(x->a, b, g, first) * ${HDV});
    if (!even) {
        const int power = min(max((as_int(largest_scale(&t, tops, item)) >> 23) + 1, 67), 253); /* as a biased exponent */
        by = as_float((254 - power) << 23);
        if (item == 0)
            record[${BK}] = as_float(power << 23);
    }
    widen_rows(&t, ${HDV}, 1, even, by, item);
}

/* Widens tiles until all are taken, with work-items 0 to ${COUNT - 1}. Of as many KV heads as are worked on at once the last keys come
 * first, as tiles of queries want them. */
INLINED void widen_all(const struct source *f, const struct stored *x, __global const long *kv_lens, int near, __global uint *taken, int item)
{
    __local uchar *const memory = f->memory;
    const struct attn_cl_args *a = x->a;
    const int group = (int)(a->heads / a->kv_heads), tiles = f->wide.tiles;
    const int some = min(max(group_count() / (((int)a->q_len + ${BQ - 1}) / ${BQ} * group), near / group) + 1, (int)a->kv_heads);
    for (uint n = 0;; n++) {
        __local volatile int *const job = (__local volatile int *)(memory + ${AT_JOBS}) + n % 2;
        if (item == 0)
            *job = (int)count_up(taken);
        named_sync(WIDENING, ${COUNT});
        const int heads = (int)here(a->kv_heads), of_one = heads * tiles, t = *job, b = t / of_one, of_all = t - b * of_one, first = of_all / (some * tiles) * some;
        if (b >= (int)a->batch)
            break;
        const int rest = of_all - first * tiles, these = min(some, heads - first);
        const int j = tiles - 1 - rest / these, g = first + rest % these, keys = a->has_lens ? (int)kv_lens[a->lens_at + b] : (int)a->kv_len;
        if (j * ${BK} >= max(keys, 1)) /* without keys there is one tile all the same */
            continue;
        const long at = (long)(b * heads + g) * tiles + j;
        widen_tile(x, records_of(a, x->memory) + at * ${RECORD/4}, f->even, b, g, j, keys, (__local volatile float *)(memory + ${AT_JOBS + 8}), item);
        memory_written();
        named_sync(WIDENING, ${COUNT});
        if (item == 0)
            tell((__global uint *)here((long)f->wide.done) + at, f->wide.turn);
    }
    named_arrive(WIDENED_ALL, 128);
}
