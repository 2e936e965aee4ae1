%# Widens narrow keys and values once for a launch: three warps beside the one that copies take tiles of them from a counter, in the
%# order in which they will be wanted, and the copying warps of all groups wait for those that they copy. A group's first tile is
%# widened by all of its warps. Whoever has taken a tile waits for nobody, so it does not matter how many groups run at once.
%#
%# Keys are exact in ${DTYPE}, and their scales multiply scores. Beside queries in f16 values are exact, too, and their scales multiply
%# probabilities, since there the error bound has no room for what else is lost. Beside queries in bf16 values go to f16 together with their scales, which are divided by a power of
%# two: a number is then off by 2**-11 of itself at most, or by 2**-25 of the largest scale of a row that is not zero; less than
%# probabilities in bf16 would be off.
% let COUNT = 96
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

% if IN_PAGES
/* Where a key is. */
struct place {
    int page, row;
};
% end
/* A tile of keys, or of their values, that is being widened. */
struct rows {
    __global const ${TYPE_KV} *from;  /* the KV head's${IN_PAGES ? "" : ", from the tile's first row on"} */
    __global const float *scales;     /* likewise */
    long step${IN_PAGES ? ", page" : ""}, scale_step${IN_PAGES ? ", scale_page" : ""}; /* from row to row${IN_PAGES ? ", and from page to page" : ""} */
    __global ushort *to;              /* its first row */
    int count;                        /* how many there are */
};
/* What those who widen a tile tell each other: the largest and the least scales that each warp has found; the scales of values; and where
 * rows are. */
struct told {
    __local volatile float *tops;
    __local volatile float *scales;
% if IN_PAGES
    __local volatile struct place *places;
% end
};
INLINED long ahead(int rows, long step) /* rows, 0 or more, times a step */
{
    return (long)((ulong)(uint)rows * (ulong)step);
}
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
% let TOPS = BOUNDED ? 4 : 3
% if BOUNDED
/* The most of all work-items', of four numbers from 0 on. Of each only 7 bits behind the leading one are kept, for lack of room; the last two
 * are rounded up. */
% else
/* The most of all work-items', of three numbers from 0 on. Of the first two only 7 bits behind the leading one are kept, for lack of room. */
% end
INLINED void most_of_all(float *x, const struct told *told, const int items, int item)
{
    #pragma unroll
    for (int i = 0; i < ${TOPS}; i++)
        #pragma unroll
        for (int n = 1; n < 32; n *= 2)
            x[i] = fmax(x[i], across(x[i], n));
    if ((item & 31) == 0) {
        told->tops[item / 32] = as_float((as_int(x[0]) & 0x7fff0000) | as_int(x[1]) >> 16);
% if BOUNDED
        told->tops[${ITEMS/32} + item / 32] = as_float(((as_int(x[2]) + 0xffff) & 0x7fff0000) | (as_int(x[3]) + 0xffff) >> 16);
% else
        told->tops[${ITEMS/32} + item / 32] = x[2];
% end
    }
    named_sync(WIDENING, items);
    x[0] = x[1] = 0.0f; /* as all work-items see them */
    #pragma unroll
    for (int n = 0; n < items / 32; n++) {
        const int two = as_int(told->tops[n]);
        x[0] = fmax(x[0], as_float(two & 0x7fff0000)), x[1] = fmax(x[1], as_float(two << 16));
% if BOUNDED
        const int others = as_int(told->tops[${ITEMS/32} + n]);
        x[2] = fmax(x[2], as_float(others & 0x7fff0000)), x[3] = fmax(x[3], as_float(others << 16));
% else
        x[2] = fmax(x[2], told->tops[${ITEMS/32} + n]);
% end
    }
}

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
/* A tile of keys of a sequence and a KV head. */
struct part {
    int b, g, first, count;  /* the first key, and how many there are */
    int kb, from;            /* the batch of keys that are not in pages, and the rows before the sequence's${PACKED ? "" : "; none"} */
};
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
    float by = 1.0f;
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
        const struct rows k = rows_of(x, 0, p, 0), v = rows_of(x, 1, p, 0);
% if BOUNDED
        /* The largest, and ${RESTS ? "whether they differ" : "one over the least"}; the largest of keys, or inf if one is negative or no number; and the square of the longest key, as it is stored. */
        float top[4] = {0.0f, 0.0f, 0.0f, square};
% else
        float top[3] = {0.0f, 0.0f, 0.0f}; /* the largest, and ${RESTS ? "whether they differ" : "one over the least"}; and the largest of keys, or inf if one is negative or no number */
% end
% if BOUNDED
        const float scale = fmax(fabs(x->a->scale)${BY_LOG2E}, FLT_MIN); /* so that exponentials are powers of two */
% end
        #pragma unroll ${COPY_REGS < 60 ? 1 : 2}
        for (int r = anew(item); r < ${BK}; r += items) {
            const int is = r < p->count;
            const float y = is ? scale_of_row(&v, told, r) : 0.0f, of_key = is ? scale_of_row(&k, told, r)${BOUNDED ? " * scale" : ""} : 0.0f;
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

% if IN_PAGES
/* Notes in which pages the rows of a tile are. */
INLINED void find_rows(const struct stored *x, const struct told *told, const struct part *p, const int items, int item)
{
    __global const int *const pages = (__global const int *)here((long)x->pages) + here(x->y->pages_at) + p->b * here(x->y->page_stride);
    const uint size = (uint)min(here(x->y->page_size), 1L << 30);
    for (int r = item; r < p->count; r += items) {
        const uint key = (uint)(p->first + r), n = key / size;
        told->places[r].page = pages[n], told->places[r].row = (int)(key - n * size);
    }
    named_sync(WIDENING, items);
}

% end
/* How those who widen go from tile to tile. */
struct job {
    int number${PACKED ? ", b" : ""}; /* ${PACKED ? "among the tiles of a sequence; negative: there are no more */" : "of all tiles */"}
};
struct widener {
    const struct source *f;
    const struct stored *x;
    __global const long *kv_lens;
    __global uint *taken;
% if PACKED
    const struct starts *starts;
    struct walk walk;        /* of the first warp */
% else
    int some;                /* KV heads whose tiles are widened together: see heads_together */
% end
};
%# Three places for tiles that were taken, and then what struct told has.
% let JOB_INTS = PACKED ? 2 : 1
% let AT_TOPS = AT_JOBS + 16 + 16*PACKED
% let AT_ITS_SCALES = AT_TOPS + 2*ITEMS/8
% let AT_PLACES = AT_ITS_SCALES + 4*BK
#define JOB_AT(n) ((__local volatile int *)(memory + ${AT_JOBS}) + (n) * ${JOB_INTS})
INLINED struct told told_of(__local uchar *memory)
{
    struct told y = {.tops = (__local volatile float *)(memory + ${AT_TOPS}), .scales = (__local volatile float *)(memory + ${AT_ITS_SCALES})};
% if IN_PAGES
    y.places = (__local volatile struct place *)(memory + ${AT_PLACES});
% end
    return y;
}
/* Takes a tile, whose number the first work-item has. */
INLINED struct job take_job(struct widener *w, int item)
{
% if PACKED
    struct job y = {-1, 0};
    if (item < 32)
        y.number = walk_to(uniform(item == 0 ? (int)count_up(w->taken) : 0), &y.b, &w->walk, item, w->f->a, w->kv_lens, w->f->features, w->starts, 1);
% else
    const struct job y = {item == 0 ? (int)count_up(w->taken) : 0};
% end
    return y;
}
INLINED void leave_job(__local volatile int *at, struct job y, int item)
{
    if (item == 0)
        at[0] = y.number${PACKED ? ", at[1] = y.b" : ""};
}
INLINED struct job job_left(__local volatile int *at)
{
    const struct job y = {at[0]${PACKED ? ", at[1]" : ""}};
    return y;
}

% if not PACKED
/* Of how many KV heads tiles of queries are worked on at once, where those of so many heads are done together. */
INLINED int heads_together(const struct attn_cl_args *a, int near)
{
    const int heads = (int)a->kv_heads, group = (int)a->heads / heads;
    return min(max(group_count() / (((int)a->q_len + ${BQ - 1}) / ${BQ} * group), near / group) + 1, heads);
}
% end
/* Which keys these are; none if the sequence is shorter. Returns 0 if there are no more tiles. Of as many KV heads as are worked on at
 * once the last keys come first, as tiles of queries want them. */
INLINED int part_of(const struct widener *w, struct job job, struct part *p)
{
    const struct attn_cl_args *const a = w->f->a;
    const int heads = (int)here(a->kv_heads);
% if PACKED
    const int b = job.b, of_all = job.number, group = (int)a->heads / heads;
    if (of_all < 0)
        return 0;
    const struct sequence s = sequence_at(b, a, w->kv_lens, w->f->features, w->starts);
    const int keys = s.keys, tiles = max((keys + ${BK - 1}) / ${BK}, 1), some_group = (s.queries + ${BQ - 1}) / ${BQ} * group;
    /* As tile_at has them. */
    const int some = min(max(${(24*1024*1024)/(2*(HD + HDV))} / max(keys, 1), max((2 * group_count() + some_group - 1) / some_group, 1)), heads);
% else
    const int tiles = w->f->wide.tiles, b = job.number / (heads * tiles), of_all = job.number - b * heads * tiles;
    if (b >= (int)a->batch)
        return 0;
    const int some = w->some;
    const int keys = a->has_lens ? (int)w->kv_lens[a->lens_at + b] : (int)a->kv_len;
% end
    const int before = of_all / (some * tiles) * some, rest = of_all - before * tiles, these = min(some, heads - before);
    p->b = b, p->g = before + rest % these, p->first = (tiles - 1 - rest / these) * ${BK};
    p->count = min(keys - p->first, ${BK});
    p->kb = ${PACKED ? "w->f->features->has_kv_starts ? 0 : b" : "b"}, p->from = ${PACKED ? "s.kv_from" : "0"};
    return 1;
}

/* Takes a tile and widens it, with so many work-items; returns 0 if there is none. place: where the tile's number is left for all, which
 * must not be that of the tile before. */
INLINED int widen_next(struct widener *w, int place, const int items, int item)
{
    const struct source *const f = w->f;
    __local uchar *const memory = f->memory;
    const struct told told = told_of(memory);
    struct part part;
    leave_job(JOB_AT(place), take_job(w, item), item);
    named_sync(WIDENING, items);
    if (!part_of(w, job_left(JOB_AT(place)), &part))
        return 0;
    if (part.count <= 0 && part.first > 0) /* without keys there is one tile all the same */
        return 1;
% if IN_PAGES
    find_rows(w->x, &told, &part, items, item);
% end
    const long at = (long)(part.b * (int)here(f->a->kv_heads) + part.g) * f->wide.tiles + part.first / ${BK};
    widen_tile(w->x, &told, records_of(f->a, w->x->memory) + at * ${RECORD/4}, f->even, &part, items, item);
    memory_written();
    named_sync(WIDENING, items);
    if (item == 0)
        tell((__global uint *)here((long)f->wide.done) + at, f->wide.turn);
    return 1;
}

/* Widens tiles until all are taken, with work-items 0 to ${COUNT - 1}; place 0 is that of a group's first tile. */
INLINED void widen_all(struct widener *w, int item)
{
    for (int place = 1; widen_next(w, place, ${COUNT}, item); place ^= 3)
        ;
    named_arrive(WIDENED_ALL, 128);
}
