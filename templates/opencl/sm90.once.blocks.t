%# Widens blocks of q8_0 and q4_0, for sm90.once.t: what a tile of keys and their values becomes, and its record. Each side of a
%# tile has a unit, a power of two by which all of its numbers are divided. A number is the scale of its block times a whole number,
%# which has up to 18 digits: one number of f16 holds 11, and a second one, the rest, the others. Values beside queries in bf16 are
%# rounded to one.
% let UNIT = type_bytes(DTYPE_KV)
%# The loads that a work-item has under way at once: what it loads of eight numbers takes more than twice as many registers as of
%# rows.
% let FLIGHT = COPY_REGS < 60 ? 2 : 4
/* A tile of keys, or of their values, that is being widened. */
struct rows {
    __global const uchar *from; /* the KV head's${IN_PAGES ? "" : ", from the tile's first row on"} */
    long step${IN_PAGES ? ", page" : ""};             /* bytes from row to row${IN_PAGES ? ", and from page to page" : ""} */
    __global ushort *to;        /* its first row */
    long rest;                  /* from there to where the rests are */
    int count;                  /* how many rows there are */
};
INLINED __global const uchar *row_of_blocks(const struct rows *t, const struct told *told, int r)
{
% if IN_PAGES
    return t->from + ahead(told->places[r].page, t->page) + ahead(told->places[r].row, t->step);
% else
    return t->from + ahead(r, t->step);
% end
}
/* Eight numbers of a row as they are stored: words in which their bytes are, of which the first may begin two bytes before these;
 * what comes behind; and the scale of their block. */
struct eight {
    uint low, high;
    ushort end, scale;
};
/* at: where the bytes are; shift: 16 if they begin in the middle of a word, else 0. */
INLINED struct eight load8(__global const uchar *at, int shift, __global const uchar *block)
{
    __global const uint *const words = (__global const uint *)(at - shift / 8);
    const struct eight y = {words[0], words[1], *(__global const ushort *)(at + 6), *(__global const ushort *)block};
    return y;
}
/* From the beginning of a row to the bytes of its eight numbers from 8 * piece on, and to their block. */
INLINED int bytes_of_eight(int piece)
{
    return piece / 4 * ${UNIT} + 2 + piece % ${DTYPE_KV == "q4_0" ? 2 : 4} * 8;
}
INLINED int block_of_eight(int piece)
{
    return piece / 4 * ${UNIT};
}
INLINED int shift_of(__global const uchar *at)
{
    return ((int)(ulong)at & 2) * 8;
}
/* Its eight whole numbers, as bytes with signs. */
INLINED void bytes8(uint *y, struct eight x, int shift, int piece)
{
    const uint low = (uint)(((ulong)x.high << 32 | x.low) >> shift), high = (uint)(((ulong)x.end << 32 | x.high) >> shift);
% if DTYPE_KV == "q4_0"
    const int upper = piece & 2 ? 4 : 0; /* the last 16 numbers of a block are the upper halves of bytes */
    y[0] = (((low >> upper & 0x0f0f0f0f) | 0x80808080) - 0x08080808) ^ 0x80808080;
    y[1] = (((high >> upper & 0x0f0f0f0f) | 0x80808080) - 0x08080808) ^ 0x80808080;
% else
    y[0] = low, y[1] = high;
% end
}

/* Writes eight numbers times scale, one over their unit included. two: what f16 has no room for becomes a number of its own, so far
 * behind. wild: a block of zeros may have a scale that f16 has no room for, and its products are to be 0. Returns the sum of
 * squares where there are two. */
INLINED float widen8(const uint *bytes, float scale, const int two, const int wild, __global uint4 *to, long rest)
{
    if (wild && fabs(scale) < INFINITY)
        scale = fmin(fmax(scale, -65504.0f), 65504.0f);
    const uint both = rounded(scale, scale);
    uint four[4], y[4], left[4];
    widened(four, bytes[0]), widened(four + 2, bytes[1]);
    #pragma unroll
    for (int m = 0; m < 4; m++) {
        y[m] = times(four[m], both);
        if (two)
            left[m] = left_of_products(four[m], both, y[m]);
    }
    *to = ${UINT4}(y[0], y[1], y[2], y[3]);
    if (!two)
        return 0.0f;
    *(__global uint4 *)((__global ushort *)to + rest) = ${UINT4}(left[0], left[1], left[2], left[3]);
    return ${BOUNDED ? "(float)add_squares_of_bytes(add_squares_of_bytes(0, bytes[0]), bytes[1]) * (scale * scale)" : "0.0f"};
}
/* How many work-items share a row of so many columns: each has eight columns of every 64, two blocks, or eight in all. */
#define SHARING(columns) ((columns) % 64 == 0 ? 8 : (columns) / 8)

/* Widens rows of so many columns. Numbers are multiplied by \`by\`, one over their unit. A work-item has every so many rows; where
 * there are no more it does the last one again, so that nothing stands between loads. Returns the most that the squares of its
 * numbers of a row add up to, where there are two, and inf if that is no number. */
INLINED float widen_rows(const struct rows *t, const struct told *told, const int columns, const int two, float by, const int wild,
    const int items, int item)
{
    const int sharing = SHARING(columns), parts = columns / 8 / sharing, rows = items / sharing;
    const int most = (${BK} + rows - 1) / rows, together = max(${FLIGHT} / parts, 1); /* most: rows of a work-item */
    const int trips = (most + together - 1) / together, flight = (most + trips - 1) / trips;
    const int first = item / sharing, piece = item - first * sharing;
    const int bytes_at = bytes_of_eight(piece), block_at = block_of_eight(piece);
    int squares = 0; /* the bits of a float: those from 0 on have the order of these, and a NaN is above all */
    if (first >= rows)
        return 0.0f;
    #pragma unroll 1
    for (int r = first; r < t->count; r += flight * rows) {
        struct eight x[${max(FLIGHT, max(HD, HDV)/64)}];
        int shift[${FLIGHT}];
        #pragma unroll
        for (int n = 0; n < flight; n++) {
            __global const uchar *const row = row_of_blocks(t, told, min(r + n * rows, t->count - 1)), *const at = row + bytes_at;
            shift[n] = shift_of(at);
            #pragma unroll
            for (int m = 0; m < parts; m++)
                x[n * parts + m] = load8(at + m * ${2*UNIT}, shift[n], row + block_at + m * ${2*UNIT});
        }
        #pragma unroll
        for (int n = 0; n < flight; n++) {
            __global uint4 *const to = (__global uint4 *)t->to + min(r + n * rows, t->count - 1) * (columns / 8) + piece;
            float sum = 0.0f;
            #pragma unroll
            for (int m = 0; m < parts; m++) {
                uint bytes[2];
                bytes8(bytes, x[n * parts + m], shift[n], piece);
                sum += widen8(bytes, of_f16(x[n * parts + m].scale) * by, two, wild, to + 8 * m, t->rest);
            }
            squares = max(squares, as_int(sum));
        }
    }
    const float y = as_float(squares);
    return y >= 0.0f ? y : INFINITY;
}

/* The largest scale of a block, and one over the least. */
INLINED void look_at_scales(const struct rows *t, const struct told *told, const int columns, float *top, const int items, int item)
{
    const int blocks = columns / 32, all = t->count * blocks;
    #pragma unroll ${COPY_REGS < 60 ? 2 : 4}
    for (int u = item; u < all; u += items) {
        const int r = u / blocks;
        const float y = fabs(of_f16(*(__global const ushort *)(row_of_blocks(t, told, r) + (u - r * blocks) * ${UNIT})));
        top[0] = fmax(top[0], y), top[1] = fmax(top[1], reciprocal(y));
    }
}
/* The largest scale of a block that has a number other than 0: one of zeros may have any. */
INLINED float largest_scale(const struct rows *t, const struct told *told, const int columns, const int items, int item)
{
    const int pieces = columns / 8, all = t->count * pieces;
    float top = 0.0f;
    #pragma unroll 1
    for (int u = item; u < all; u += items) {
        const int r = u / pieces;
        __global const uchar *const row = row_of_blocks(t, told, r), *const at = row + bytes_of_eight(u - r * pieces);
        const struct eight x = load8(at, shift_of(at), row + block_of_eight(u - r * pieces));
        uint bytes[2];
        bytes8(bytes, x, shift_of(at), u - r * pieces);
        top = fmax(top, bytes[0] | bytes[1] ? fabs(of_f16(x.scale)) : 0.0f);
    }
    return top;
}
/* The unit of numbers whose scales are at most that, as a biased exponent: every eighth, so that few tiles have another than the
 * tile before. The largest numbers are then at least 64, if a block uses the range of its type, and below 2**15. */
INLINED int unit_of_scales(float top)
{
    return min(max(as_int(top) >> 23 & ~7, 96), 136)${DTYPE_KV == "q4_0" ? " - 4" : ""};
}
/* The rows of a side; boxes find the rests of a KV head's as another head's, behind it. */
INLINED struct rows rows_of(const struct stored *x, const int values, const struct part *p)
{
    const long *const step = values ? x->a->v_stride : x->a->k_stride;
    struct rows t = {.from = (__global const uchar *)here((long)(values ? x->v : x->k)), .step = ${UNIT} * here(step[2]), .count = p->count};
    t.from += ${UNIT} * (here(values ? x->a->v_at : x->a->k_at) + p->g * here(step[1]));
    if (values)
        t.to = wide_values(x->a, x->memory) + (${1 + V_TWO} * row_in(x->a, p->b, p->g, 0) + p->first) * ${HDV};
    else
        t.to = wide_keys(x->a, x->memory) + (2 * row_in(x->a, p->b, p->g, 0) + p->first) * ${HD};
    t.rest = here(x->a->kv_len) * (values ? ${HDV} : ${HD});
% if IN_PAGES
    t.page = ${UNIT} * here(step[0]);
% else
    t.from += ${UNIT} * (p->kb * here(step[0])) + ahead(p->from + p->first, t.step);
% end
    return t;
}

% if BOUNDED
/* Squares of all work-items that share a row, added up: no row is longer. */
INLINED float square_of(float y)
{
% let SHARED_BY = HD % 64 == 0 ? 8 : HD/8
% if SHARED_BY == 8 or SHARED_BY == 4
    #pragma unroll
    for (int n = 1; n < ${SHARED_BY}; n *= 2)
        y += across(y, n);
    return y;
% else
    return y * ${SHARED_BY}; /* work-items that share a row need not lie beside each other */
% end
}

% end
/* Keys, values and the record of a tile: the unit of values, ${BOUNDED ? "a bound of the length of keys as they are written" : "a number that is not read"}, and the unit
 * of keys. */
INLINED void widen_tile(const struct stored *x, const struct told *told, __global float *record, const struct part *p,
    const int items, int item)
{
    const struct rows k = rows_of(x, 0, p), v = rows_of(x, 1, p);
    float top[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    look_at_scales(&v, told, ${HDV}, top, items, item);
    look_at_scales(&k, told, ${HD}, top + 2, items, item);
    most_of_all(top, told, items, item);
    const int wild = !(top[0] * top[1] <= 64.0f && top[2] * top[3] <= 64.0f);
    if (wild) { /* a block of zeros may have any scale, and could lower the others */
        top[0] = largest_scale(&v, told, ${HDV}, items, item), top[2] = largest_scale(&k, told, ${HD}, items, item);
        named_sync(WIDENING, items);
        most_of_all(top, told, items, item);
    }
    const int of_values = unit_of_scales(top[0]), of_keys = unit_of_scales(top[2]);
% if BOUNDED
    float longest[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    longest[3] = square_of(widen_rows(&k, told, ${HD}, 1, as_float((254 - of_keys) << 23), wild, items, item));
% else
    widen_rows(&k, told, ${HD}, 1, as_float((254 - of_keys) << 23), wild, items, item);
% end
    widen_rows(&v, told, ${HDV}, ${V_TWO}, as_float((254 - of_values) << 23), wild, items, item);
% if BOUNDED
    const struct told later = {.tops = told->tops + ${2*ITEMS/32}${IN_PAGES ? ", .places = told->places" : ""}};
    most_of_all(longest, &later, items, item);
% end
    if (item == 0)
        *(__global float4 *)record = ${FLOAT4}(as_float(of_values << 23), ${BOUNDED ? "root(longest[3]) * 1.001f" : "0.0f"}, as_float(of_keys << 23), 0.0f);
}
