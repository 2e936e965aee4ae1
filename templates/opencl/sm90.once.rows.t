%# Widens rows of int8 and fp8 with scales of their own, for sm90.once.t: what a tile of keys and their values becomes, and its record.
%# Keys are exact in ${DTYPE}, and their scales multiply scores. Beside queries in f16 values are exact, too, and their scales multiply
%# probabilities, since there the error bound has no room for what else is lost. Beside queries in bf16 values go to f16 together with
%# their scales, which are divided by a power of two: a number is then off by 2**-11 of itself at most, or by 2**-25 of the largest scale
%# of a row that is not zero; less than probabilities in bf16 would be off.
%# The loads that a work-item has under way at once, as many as registers allow.
% let FLIGHT = COPY_REGS < 60 ? 5 : 11
/* Widens eight numbers: keys to ${DTYPE}; values, multiplied by a number if they are not even, to f16. */
INLINED uint4 widen8(uint2 x, const int values, int even, float by)
{
    uint y[4];
% if RESTS
    widened(y, x.x), widened(y + 2, x.y);
% else
    if (values)
        widened(y, x.x), widened(y + 2, x.y);
    else
        widened_keys(y, x.x), widened_keys(y + 2, x.y);
% end
    if (values && !even)
        #pragma unroll
        for (int n = 0; n < 4; n++) {
            float two[2];
            wide_floats(two, y[n]);
            y[n] = rounded(two[0] * by, two[1] * by);
        }
    return ${UINT4}(y[0], y[1], y[2], y[3]);
}

/* A tile of keys, or of their values, that is being widened. */
struct rows {
    __global const ${TYPE_KV} *from;  /* the KV head's${IN_PAGES ? "" : ", from the tile's first row on"} */
    __global const float *scales;     /* likewise */
    long step${IN_PAGES ? ", page" : ""}, scale_step${IN_PAGES ? ", scale_page" : ""}; /* from row to row${IN_PAGES ? ", and from page to page" : ""} */
    __global ushort *to;              /* its first row */
    int count;                        /* how many there are */
};
INLINED __global const uint2 *row8(const struct rows *t, const struct told *told, int r, int piece)
{
% if IN_PAGES
    return (__global const uint2 *)(t->from + ahead(told->places[r].page, t->page) + ahead(told->places[r].row, t->step)) + piece;
% else
    return (__global const uint2 *)(t->from + ahead(r, t->step)) + piece;
% end
}
INLINED float scale_of_row(const struct rows *t, const struct told *told, int r)
{
% if IN_PAGES
    return t->scales[told->places[r].page * t->scale_page + told->places[r].row * t->scale_step];
% else
    return t->scales[ahead(r, t->scale_step)];
% end
}

/* Widens rows of so many columns. Values are multiplied by their scales times \`by\`, unless all of a head have the same. A work-item has
 * eight columns of every so many rows; where there are no more rows it does the last one again, so that nothing stands between loads.
 * whole: there are ${BK} rows, so that most places are sure to be rows. */
INLINED void widen_rows(const struct rows *t, const struct told *told, const int columns, const int values, const int even, float by,
    const int whole${BOUNDED ? ", uint *squares" : ""}, const int items, int item)
{
    const int pieces = columns / 8, rows = items / pieces, most = (${BK} + rows - 1) / rows; /* most: rows of a work-item */
    const int trips = (most + ${FLIGHT - 1}) / ${FLIGHT}, flight = (most + trips - 1) / trips;
    const int first = item / pieces, piece = item - first * pieces;
    if (first >= rows)
        return;
    #pragma unroll 1
    for (int r = first; r < t->count; r += flight * rows) {
        uint2 x[${FLIGHT}];
        #pragma unroll
        for (int n = 0; n < flight; n++) {
            const int sure = whole && (n + (trips - 1) * flight) * rows + rows <= ${BK};
            x[n] = *row8(t, told, sure ? r + n * rows : min(r + n * rows, t->count - 1), piece);
        }
        #pragma unroll
        for (int n = 0; n < flight; n++) {
            const int sure = whole && (n + (trips - 1) * flight) * rows + rows <= ${BK};
            const int at = sure ? r + n * rows : min(r + n * rows, t->count - 1);
% if BOUNDED
            const uint4 y = widen8(x[n], values, even, values && !even ? told->scales[at] * by : 1.0f);
            const uint four[4] = {y.x, y.y, y.z, y.w};
            if (!values)
                *squares = larger_squares(*squares, four);
            ((__global uint4 *)t->to)[at * pieces + piece] = y;
% else
            ((__global uint4 *)t->to)[at * pieces + piece] = widen8(x[n], values, even, values && !even ? told->scales[at] * by : 1.0f);
% end
        }
    }
}
/* The same, whole or not; all work-items of a group together do no tile often enough for that to matter. */
INLINED void widen_side(const struct rows *t, const struct told *told, const int columns, const int values, const int even, float by,
    ${BOUNDED ? "uint *squares, " : ""}const int items, int item)
{
    if (items == ${COUNT} && t->count == ${BK})
        widen_rows(t, told, columns, values, even, by, 1${BOUNDED ? ", squares" : ""}, items, item);
    else
        widen_rows(t, told, columns, values, even, by, 0${BOUNDED ? ", squares" : ""}, items, item);
}

% if not RESTS
/* The largest scale of a row that has a number other than 0: a row of zeros may have any. */
INLINED float largest_scale(const struct rows *t, const struct told *told, const int items, int item)
{
    const int pieces = ${HDV/8}, all = t->count * pieces;
    float top = 0.0f;
    #pragma unroll ${COPY_REGS < 60 ? 1 : 4}
    for (int u = item; u < all; u += items) {
        const int r = u / pieces;
        const uint2 x = *row8(t, told, r, u - r * pieces);
        const uint some = ${DTYPE_KV == "fp8" ? "(x.x | x.y) & 0x7f7f7f7f" : "x.x | x.y"};
        top = fmax(top, some ? fabs(told->scales[r]) : 0.0f);
    }
    return top;
}
% end
% if BOUNDED
/* What larger_squares has found in all rows of a work-item; of work-items that share rows it is added up. No row is longer. */
INLINED float square_of(uint squares)
{
% if DTYPE == "bf16"
    float y = (as_float((int)(squares << 16)) + as_float((int)(squares & 0xffff0000u))) * 1.03f; /* rounding lost some */
% else
    float two[2];
    wide_floats(two, squares);
    float y = fma(two[0] + two[1], 256.0f * 1.01f, 0.01f);
% end
% if HD == 16 or HD == 32 or HD == 64 or HD == 128 or HD == 256
    #pragma unroll
    for (int n = 1; n < ${HD/8}; n *= 2)
        y += across(y, n);
    return y;
% else
    return y * ${HD/8}; /* work-items that share a row need not lie beside each other */
% end
}

% end
INLINED struct rows rows_of(const struct stored *x, const int values, const struct part *p, __global ushort *to)
{
    const long *const step = values ? x->a->v_stride : x->a->k_stride, *const scale = values ? x->y->v_scales_stride : x->y->k_scales_stride;
    struct rows t = {.from = (__global const ${TYPE_KV} *)here((long)(values ? x->v : x->k)),
        .scales = (__global const float *)here((long)(values ? x->v_scales : x->k_scales)), .step = here(step[2]), .scale_step = here(scale[2]),
        .to = to, .count = p->count};
    t.from += here(values ? x->a->v_at : x->a->k_at) + p->g * here(step[1]);
    t.scales += here(values ? x->y->v_scales_at : x->y->k_scales_at) + p->g * here(scale[1]);
% if IN_PAGES
    t.page = here(step[0]), t.scale_page = here(scale[0]);
% else
    t.from += p->kb * here(step[0]) + ahead(p->from + p->first, t.step);
    t.scales += p->kb * here(scale[0]) + ahead(p->from + p->first, t.scale_step);
% end
    return t;
}

/* Keys, values and, where scales are a matter of rows, the record of a tile. */
INLINED void widen_tile(const struct stored *x, const struct told *told, __global float *record, int even, const struct part *p,
    const int items, int item)
{
    float by = 1.0f, of_row[${ceil_div(BK, COUNT)}], of_keys[${ceil_div(BK, COUNT)}]; /* its scales, which are on their way while keys are widened */
    if (!even) {
        const struct rows k = rows_of(x, 0, p, 0), v = rows_of(x, 1, p, 0);
        #pragma unroll
        for (int n = 0; n * items < ${BK}; n++) {
            const int r = item + n * items, is = r < p->count;
            of_row[n] = is ? scale_of_row(&v, told, r) : 0.0f, of_keys[n] = is ? scale_of_row(&k, told, r) : 0.0f;
        }
    }
% if BOUNDED
    uint squares = 0;
    struct rows t = rows_of(x, 0, p, wide_keys(x->a, x->memory) + row_in(x->a, p->b, p->g, p->first) * ${HD});
    widen_side(&t, told, ${HD}, 0, 1, 1.0f, &squares, items, item);
    const float square = square_of(squares);
    if (even) {
        float top[4] = {0.0f, 0.0f, 0.0f, square};
        most_of_all(top, told, items, item);
        if (item == 0)
            record[${BK + 1}] = root(top[3]);
    }
% end
    if (!even) {
        const struct rows v = rows_of(x, 1, p, 0);
% if BOUNDED
        /* The largest, and ${RESTS ? "whether they differ" : "one over the least"}; the largest of keys, or inf if one is negative or no number; and the square of the longest key, as it is stored. */
        float top[4] = {0.0f, 0.0f, 0.0f, square};
% else
        float top[3] = {0.0f, 0.0f, 0.0f}; /* the largest, and ${RESTS ? "whether they differ" : "one over the least"}; and the largest of keys, or inf if one is negative or no number */
% end
% if BOUNDED
        const float scale = fmax(fabs(x->a->scale)${BY_LOG2E}, FLT_MIN); /* so that exponentials are powers of two */
% end
        #pragma unroll
        for (int n = 0; n * items < ${BK}; n++) {
            const int r = anew(item) + n * items, is = r < p->count;
            const float y = of_row[n], of_key = of_keys[n]${BOUNDED ? " * scale" : ""};
            if (r >= ${BK})
                break;
            told->scales[r] = y;
% if RESTS
            if (is)
                top[0] = fmax(top[0], fabs(y)), top[1] = y != scale_of_row(&v, told, 0) ? 1.0f : top[1];
% else
            if (is)
                top[0] = fmax(top[0], fabs(y)), top[1] = fmax(top[1], reciprocal(fabs(y)));
% end
            top[2] = fmax(top[2], of_key >= 0.0f ? of_key : INFINITY);
            record[place_of_scale(r)] = of_key;
        }
        most_of_all(top, told, items, item);
% if RESTS
        /* Those of values are divided by a power of two, as a biased exponent, that none of them exceeds, so that f16 has room for their
         * products with probabilities; unless all are the same. */
        const float first = told->scales[0];
        const int some = top[1] != 0.0f || !(fabs(first) > 1e-18f && fabs(first) < 1e18f);
        const int power = min(max((as_int(top[0]) >> 23) + 1, 67), 253);
        by = as_float((254 - power) << 23);
        for (int r = anew(item); r < ${BK}; r += items)
            record[${BK + 4} + place_of_scale(r)] = told->scales[r] * by;
        if (item == 0)
            record[${BK}] = some ? as_float(power << 23) : first, record[${BK + 1}] = top[2]${BOUNDED ? " * root(top[3])" : ""}, record[${BK + 2}] = some ? 1.0f : 0.0f;
% else
        if (!(top[0] * top[1] <= 16.0f)) { /* a row of zeros, which may have any scale, could lower the others */
            top[0] = largest_scale(&v, told, items, item);
            named_sync(WIDENING, items);
            most_of_all(top, told, items, item);
        }
        /* As a biased exponent, every eighth, so that few tiles have another than the tile before: the largest numbers are then 1/2 to 128
         * times as large as stored ones, or 1 to 256 times, which f16 has room for. */
        const int power = min(max((((as_int(top[0]) >> 23) + 3) & ~7) - ${DTYPE_KV == "fp8" ? 2 : 3}, 67), 253);
        by = as_float((254 - power) << 23);
        if (item == 0)
            record[${BK}] = as_float(power << 23), record[${BK + 1}] = top[2]${BOUNDED ? " * root(top[3])" : ""};
% end
    }
% if not BOUNDED
    struct rows t = rows_of(x, 0, p, wide_keys(x->a, x->memory) + row_in(x->a, p->b, p->g, p->first) * ${HD});
    widen_side(&t, told, ${HD}, 0, 1, 1.0f, items, item);
% end
    t = rows_of(x, 1, p, wide_values(x->a, x->memory) + row_in(x->a, p->b, p->g, p->first) * ${HDV});
% if RESTS
    widen_side(&t, told, ${HDV}, 1, 1, 1.0f${BOUNDED ? ", 0" : ""}, items, item);
% else
    if (even)
        widen_side(&t, told, ${HDV}, 1, 1, 1.0f${BOUNDED ? ", 0" : ""}, items, item);
    else
        widen_side(&t, told, ${HDV}, 1, 0, by${BOUNDED ? ", 0" : ""}, items, item);
% end
}
