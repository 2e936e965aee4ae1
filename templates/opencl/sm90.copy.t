%# The producer: one warp, of which one lane gives the copy engine its orders; and where pages may be small a second one, for values.

%# Maps that come complete do not say how many packed rows there are; the kernel puts that in.
% let MAPS_PLACED = not MAPS_WHOLE or PACKED
% let MAP_Q = MAPS_PLACED ? "(ulong)room" : MAP_Q
% let MAP_K = MAPS_PLACED ? "(ulong)(room + 16)" : MAP_K
% let MAP_V = MAPS_PLACED ? "(ulong)(room + 32)" : MAP_V
% let MAP_O = MAPS_PLACED ? "(ulong)(room + 48)" : MAP_O
% if MAPS_PLACED
% include "opencl/sm90.map.t"
% end

% if WIDENED
% include "opencl/sm90.wide.t"

% end
% if PAGED
/* Where a key is; outside of all pages if the sequence does not have it. */
struct place {
    int page, row;
};

% end
struct source {
    ulong q, k, v; /* maps */
    uint shared;   /* where shared memory begins */
    __local uchar *memory; /* shared memory as a pointer */
    int lane, kv_len;
% if SPLIT
    struct attn_cl_split d;
    ulong policy;  /* how L2 keeps keys and values */
% end
% if PACKED or PAGED or NARROW or WIDENED
    const struct attn_cl_args *a;
% if FEATURES
    const struct attn_cl_features *features;
% end
% end
% if WIDENED
    struct wide wide;
% if SCALED
    int even;            /* whether scales are no matter of tiles; see is_even */
% end
    int head, sure, top; /* of that KV head of that sequence these tiles of keys are known to be widened */
% end
% if NARROW
% if SCALED
    __global const float *k_scales, *v_scales;
% end
    uint nr; /* narrow tiles so far${FEW ? ", of keys and of values: the place of the next one" : ""} */
% if not FEW
    int even; /* whether scales are no matter of tiles; see is_even */
% end
% end
% if PACKED and SPLIT
    __global const ${TYPE} *q_rows;
% end
% if PAGED or RAW
    __global const ${TYPE_KV} *k_rows, *v_rows;
% end
% if PAGED
    __global const int *pages; /* of all sequences */
    int box;                   /* keys of a box; 0: keys are gathered, row by row */
% if NARROW and not RAW
    int boxes;                 /* of a tile */
% end
    struct place before, last, next; /* where this lane's box lies: for the keys before the last, whose values are due; for the last keys; and for the next */
% end
    uint nq, nk, nv, landed; /* tiles of queries, keys and values so far; and of those how many were cleared behind a sequence's end */
% if INSIDE
    uint step;               /* the step from one number of keys, or of values, to the next */
% end
};

% if PACKED and SPLIT
/* Copies the rows of a slice one by one, because they may be fewer than a box has. */
INLINED void gather_q(const struct source *f, const struct tile *x, int w)
{
    const uint shared = f->shared;
    const int group = (int)(f->a->heads / f->a->kv_heads), chunk = f->lane & 7;
    __global const ${TYPE} *from = f->q_rows + f->a->q_at + x->qb * f->a->q_stride[0] + x->g * group * f->a->q_stride[1] + 8 * chunk;
    #pragma unroll 1
    for (int r = f->lane / 8; r < ${SLICE}; r += 4) {
        const int head = r * x->ratio >> 16, h = x->h + head, i = x->i0 + r - head * x->rows;
        const int is = head < x->heads && h < group && i < x->queries;
        __global const ${TYPE} *row = from + (is ? h * f->a->q_stride[1] + (x->q_from + i) * f->a->q_stride[2] : 0);
        for (int c = 0; c < ${HB}; c++)
            copy16_later(Q_AT(w, f->nq) + c * ${Q_BOX} + r * 128 + ((chunk ^ (r & 7)) << 4), row + 64 * c, is && 64 * c + 8 * chunk < ${HD});
    }
}

% end
/* Loads Q; with it a consumer also learns the tile's place. */
INLINED void load_q(const struct source *f, const struct tile *x, int w)
{
    const uint shared = f->shared, full = Q_FULL(w, f->nq);
    __local uchar *const memory = f->memory;
    await_by_all(Q_EMPTY(w, f->nq), Q_ROUND(f->nq) ^ 1);
% if PACKED and SPLIT
    const struct tile mine = slice_of(x, w, &f->d);
    gather_q(f, &mine, w);
    copies_arrive(full);
    if (f->lane)
        return;
    ${PUT}TILE_AT(w, f->nq)${PUT_IS}mine${PUT_END};
    arrive(full);
% else
    if (f->lane)
        return;
% if SPLIT
    const struct tile mine = slice_of(x, w, &f->d);
    ${PUT}TILE_AT(w, f->nq)${PUT_IS}mine${PUT_END};
    arrive_and_expect(full, f->d.rows * f->d.heads * ${HB*128});
    for (int c = 0; c < ${HB}; c++)
        slice_load(Q_AT(w, f->nq) + c * ${Q_BOX}, f->q, 64 * c, mine.i0, mine.h, mine.g, mine.b, full);
% else
    ${PUT}TILE_AT(w, f->nq)${PUT_IS}*x${PUT_END};
    arrive_and_expect(full, ${Q_WG});
    for (int c = 0; c < ${HB}; c++)
        box_load(Q_AT(w, f->nq) + c * 8192, f->q, 64 * c, ${PACKED ? "x->q_from + x->i0" : "x->i0"} + 64 * w, x->h, x->${PACKED ? "qb" : "b"}, full);
% end
% end
}

/* A tile without keys tells a consumer that there are no more. */
INLINED void load_end(const struct source *f, int w)
{
    const uint shared = f->shared;
    __local uchar *const memory = f->memory;
    await_by_all(Q_EMPTY(w, f->nq), Q_ROUND(f->nq) ^ 1);
% if PACKED and SPLIT
    copies_arrive(Q_FULL(w, f->nq));
% end
    if (f->lane)
        return;
    TILE_AT(w, f->nq)->count = 0;
    arrive(Q_FULL(w, f->nq));
}

% let LOAD_KV = SPLIT ? "box_load_once" : "box_load"
% let POLICY = SPLIT ? ", f->policy" : ""
/* The first row of tile j; it lies outside the tensor if the sequence has no keys. */
INLINED int row_of(const struct tile *x, int j)
{
    return x->keys ? ${PACKED and not WIDENED ? "x->kv_from + " : ""}j * ${BK} : 1 << 30;
}
%# The batch of keys, which come out of packed sequences where they are widened once; and that of their scales.
% let KB = PACKED and not WIDENED ? "kb" : "b"
% let SCALES_B = PACKED ? "kb" : "b"
% if PAGED

INLINED struct place place_of(const struct source *f, const struct tile *x, int key)
{
    struct place y = {0, 1 << 30};
    if (key < x->keys) {
        const uint size = (uint)min(f->features->page_size, 1L << 30), n = (uint)key / size;
        y.page = ((__global const int *)here((long)f->pages) + here(f->features->pages_at))[x->b * f->features->page_stride + n], y.row = key - n * size;
    }
    return y;
}

/* The first key of this lane's box of tile j${RAW ? "; or, where pages have no boxes, of its piece: each page that the tile meets has one" : ""}. */
INLINED int first_of_box(const struct source *f, int j)
{
% if RAW
    const uint size = (uint)min(f->features->page_size, 1L << 30), first = (uint)j * ${BK};
    if (!f->box)
        return f->lane ? (int)min((long)(first - first % size) + (long)f->lane * (long)size, 1L << 30) : (int)first;
% end
    return j * ${BK} + f->lane * f->box;
}
/* Looks up where this lane's box of tile j lies, one tile ahead, while the tile before is waited for. */
INLINED void find_boxes(struct source *f, const struct tile *x, int j, const int first)
{
% if not VALUES_APART
    f->before = f->last;
% end
    f->last = first ? place_of(f, x, first_of_box(f, j)) : f->next;
    f->next = place_of(f, x, first_of_box(f, max(j - 1, 0)));
}

% if not RAW
/* Loads the keys of tile j, or their values, in boxes, one for each lane. Their bytes are announced elsewhere. */
INLINED void load_boxes(const struct source *f, struct place at, int head, uint to, ulong map, const int boxes, uint bar)
{
    if (f->lane * f->box < ${BK})
        for (int c = 0; c < boxes; c++)
            ${LOAD_KV}(to + c * ${BK*128} + f->lane * f->box * 128, map, 64 * c, at.row, head, at.page, bar${POLICY});
}
% end

% if not NARROW
/* Copies row by row, 16 bytes at a time, with zeros where there is no key. */
INLINED void gather(const struct source *f, const struct tile *x, int j, uint to, __global const ${TYPE} *rows, long rows_at, const long *stride,
    const int boxes, const int columns, uint bar, uint empty, uint parity)
{
    const int chunk = f->lane & 7;
    struct place at[${ceil_div(BK, 32)}];
    #pragma unroll
    for (int n = 0; n < ${ceil_div(BK, 32)}; n++)
        at[n] = place_of(f, x, j * ${BK} + 32 * n + f->lane);
    await(empty, parity);
    __global const ${TYPE} *from = (__global const ${TYPE} *)here((long)rows) + here(rows_at) + x->g * here(stride[1]) + 8 * chunk;
    const long page_step = here(stride[0]), row_step = here(stride[2]);
    #pragma unroll
    for (int n = 0; n < ${ceil_div(BK, 32)}; n++)
        #pragma unroll 2
        for (int m = 0; m < (n < ${BK/32} ? 8 : ${BK%32/4}); m++) {
            const int r = 4 * m + f->lane / 8;
            const int page = of_lane(at[n].page, r), row = of_lane(at[n].row, r), is = row < 1 << 30;
            __global const ${TYPE} *place = from + (is ? page * page_step + row * row_step : 0);
            for (int c = 0; c < boxes; c++)
                copy16_later(to + c * ${BK*128} + (32 * n + r) * 128 + ((chunk ^ (r & 7)) << 4), place + 64 * c, is && 64 * c + 8 * chunk < columns);
        }
    copies_arrive(bar);
}
% end
% end
% if RAW
% include "opencl/sm90.blocks.t"
% elif NARROW
% include "opencl/sm90.narrow.t"
% else

%# Behind a sequence's end keys are cleared too, if values lie in them.
% let AT_END = (PACKED or PAGED) and not WIDENED ? "" : "x->keys == f->kv_len || "
% let K_BAR = INSIDE ? "bar" : "K_FULL(n)"
% if INSIDE
% include "opencl/sm90.clear.t"

% end
% if WIDENED
INLINED int head_of_tile(const struct source *f, const struct tile *x)
{
    return x->b * (int)f->a->kv_heads + x->g;
}
/* Waits until tile j of a KV head's keys and values is widened. A warp looks at 32 tiles at a time, those that will be wanted next. */
INLINED void await_widened(struct source *f, const struct tile *x, int j)
{
    const int head = head_of_tile(f, x);
    if (head == f->head && j >= f->sure && j <= f->top)
        return;
    __global const uint *const at = f->wide.done + (long)head * f->wide.tiles;
    int there;
    do
        there = lanes_in_front(f->lane > j || parts_there(at + j - f->lane) == f->wide.turn);
    while (there == 0);
    warp_sync();
    memory_written();
    if (head != f->head || j + 1 != f->sure)
        f->top = j;
    f->head = head, f->sure = j + 1 - there;
}

% end
INLINED void load_k(struct source *f, const struct tile *x, int j${PAGED ? ", const int first" : ""})
{
    const uint shared = f->shared, n = f->nk${INSIDE ? "" : "++"};
% if INSIDE
    const int end = x->keys - j * ${BK}, whole = f->step == 2 || end >= ${BK} || ${AT_END}x->keys == 0;
    const uint bar = whole ? K_FULL(n) : LANDED;
    f->nk += f->step;
% end
% if PAGED
    if (!f->box) {
        gather(f, x, j, K_AT(n), f->k_rows, f->a->k_at, f->a->k_stride, ${HB}, ${HD}, K_FULL(n), K_EMPTY(n), ROUND(n) ^ 1);
        return;
    }
    find_boxes(f, x, j, first);
    await_by_all(K_EMPTY(n), ROUND(n) ^ 1);
    if (f->lane == 0)
        arrive_and_expect(${K_BAR}, ${K_TILE});
    load_boxes(f, f->last, x->g, K_AT(n), f->k, ${HB}, ${K_BAR});
% else
% if WIDENED
    await_widened(f, x, j);
% end
    await_by_all(K_EMPTY(n), ROUND(n) ^ 1);
% if INSIDE
    if (f->lane == 0) {
        arrive_and_expect(bar, ${K_TILE});
        for (int c = 0; c < ${HB}; c++)
            ${LOAD_KV}(K_AT(n) + c * ${BK*128}, f->k, 64 * c, row_of(x, j), x->g, x->${KB}, bar${POLICY});
    }
% else
    if (f->lane)
        return;
% if WIDENED
% if K_TWO
    arrive_and_expect(K_FULL(n), ${2*K_TILE + RECORD});
    bytes_load(shared + ${AT_RECORDS} + n % ${RECORDS} * ${RECORD}, f->wide.records + ((long)head_of_tile(f, x) * f->wide.tiles + j) * ${RECORD/4}, ${RECORD}, K_FULL(n));
% elif BOUNDED
    const uint at = f->even ? ${4*BK} : 0, bytes = f->even ? 16 : ${RECORD};
    arrive_and_expect(K_FULL(n), ${K_TILE} + bytes);
    bytes_load(shared + ${AT_RECORDS} + n % ${RECORDS} * ${RECORD} + at, f->wide.records + ((long)head_of_tile(f, x) * f->wide.tiles + j) * ${RECORD/4} + at / 4, bytes, K_FULL(n));
% else
    arrive_and_expect(K_FULL(n), f->even ? ${K_TILE} : ${K_TILE + RECORD});
    if (!f->even)
        bytes_load(shared + ${AT_RECORDS} + n % ${RECORDS} * ${RECORD}, f->wide.records + ((long)head_of_tile(f, x) * f->wide.tiles + j) * ${RECORD/4}, ${RECORD}, K_FULL(n));
% end
% else
    arrive_and_expect(K_FULL(n), ${K_TILE});
% end
% if K_TWO
    for (int c = 0; c < ${2*HB}; c++)
        ${LOAD_KV}(K_AT(n) + c * ${BK*128}, f->k, 64 * (c % ${HB}), row_of(x, j), 2 * x->g + c / ${HB}, x->${KB}, K_FULL(n)${POLICY});
% else
    for (int c = 0; c < ${HB}; c++)
        ${LOAD_KV}(K_AT(n) + c * ${BK*128}, f->k, 64 * c, row_of(x, j), x->g, x->${KB}, K_FULL(n)${POLICY});
% end
% end
% end
% if INSIDE
    if (!whole)
        clear_behind(f, K_AT(n), end, K_FULL(n));
% end
}

% if not INSIDE
% include "opencl/sm90.clear.t"
% end

INLINED void load_v(struct source *f, const struct tile *x, int j${PAGED and VALUES_APART ? ", const int first" : ""})
{
    const uint shared = f->shared, n = f->nv${INSIDE ? "" : "++"};
    const int end = x->keys - j * ${BK}, whole = end >= ${BK} || ${AT_END}x->keys == 0;
    const uint bar = whole ? V_FULL(n) : LANDED;
% if INSIDE
    f->nv += f->step;
    if (f->step == 1) /* these values have come with their keys */
        return;
% end
% if PAGED
    if (!f->box) {
        gather(f, x, j, V_AT(n), f->v_rows, f->a->v_at, f->a->v_stride, ${VB}, ${HDV}, V_FULL(n), V_EMPTY(n), ROUND(n) ^ 1);
        return;
    }
% if VALUES_APART
    find_boxes(f, x, j, first);
% end
    await_by_all(V_EMPTY(n), ROUND(n) ^ 1);
    if (f->lane == 0)
        arrive_and_expect(bar, ${V_TILE});
    load_boxes(f, f->${VALUES_APART ? "last" : "before"}, x->g, V_AT(n), f->v, ${VB}, bar);
% else
    await_by_all(V_EMPTY(n), ROUND(n) ^ 1);
    if (f->lane == 0) {
        arrive_and_expect(bar, ${(1 + V_TWO)*V_TILE});
% if V_TWO
        for (int c = 0; c < ${2*VB}; c++)
            ${LOAD_KV}(V_AT(n) + c * ${BK*128}, f->v, 64 * (c % ${VB}), row_of(x, j), 2 * x->g + c / ${VB}, x->${KB}, bar${POLICY});
% else
        for (int c = 0; c < ${VB}; c++)
            ${LOAD_KV}(V_AT(n) + c * ${BK*128}, f->v, 64 * c, row_of(x, j), x->g, x->${KB}, bar${POLICY});
% end
    }
% end
    if (!whole)
        clear_behind(f, V_AT(n), end, V_FULL(n));
}
% end

/* Loads the queries of all warpgroups, and the first keys of the walk. These are the tile's last keys, which may have to be
 * masked. */
INLINED void load_first(struct source *f, const struct tile *x)
{
    load_q(f, x, 0);
    load_k(f, x, ${FROM ? "x->from + " : ""}x->count - 1${PAGED ? ", 1" : ""});
% for w in 1..WG
    load_q(f, x, ${w});
% end
    f->nq++;
}

% if SPLIT
/* The unit with number t or, if that has no keys, the next one that this group takes; if its count is 0, none is left. */
% if PACKED
INLINED struct tile unit_from(int t, const struct source *f, const struct attn_cl_args *a, __global const long *kv_lens,
    const struct starts *starts, struct walk *walk, __global uint *taken)
{
    for (;;) {
        struct tile x = tile_at(t, a, kv_lens, f->features, starts, walk, f->lane);
        uint next = 0;
        if (x.b < 0 || x.count > 0)
            return x;
% else
INLINED struct tile unit_from(int t, int units, const struct source *f, const struct attn_cl_args *a,
    __global const long *kv_lens, __global uint *taken${WINDOW ? ", const struct attn_cl_features *features" : ""})
{
    for (;;) {
        struct tile x = tile_at(min(t, units - 1), ${FETCHES ? "0, " : ""}a, &f->d, kv_lens${WINDOW ? ", features" : ""});
        uint next = 0;
        if (t >= units)
            x.count = 0;
        if (t >= units || x.count > 0)
            return x;
% end
        if (f->lane == 0)
            next = count_up(taken);
        t = group_count() + uniform((int)next);
    }
}

% if FETCHES
/* Asks L2 for the first tile of keys and values of this group's first unit, while launches before this one may still be running, and
 * writing there. What they write goes to L2, too, so that what is copied from it later is not old. More tiles would be in the way of
 * what others still merge, and of this group's own copies. */
INLINED void fetch_ahead(const struct source *f, const struct attn_cl_args *a, __global const long *kv_lens${INSIDE ? ", int inside" : ""}${WINDOW ? ", const struct attn_cl_features *features" : ""})
{
    const struct tile x = tile_at(group_number(), 1, a, &f->d, kv_lens${WINDOW ? ", features" : ""});
    const int row = row_of(&x, x.from + x.count - 1);
    if (x.count == 0)
        return;
    for (int c = 0; c < ${ceil_div(HD, NARROW ? 128 : 64)}; c++)
        box_prefetch(f->k, 64 * c, row, x.g, x.b);
    for (int c = 0; c < ${ceil_div(HDV, NARROW ? 128 : 64)}${INSIDE ? " && !inside" : ""}; c++)
        box_prefetch(f->v, 64 * c, row, x.g, x.b);
}

% end
% end
% if VALUES_APART
/* Brings the values of all tiles, by a warp of its own. It learns of a tile of queries as those do who multiply. */
INLINED void produce_values(struct source *f)
{
    const uint shared = f->shared;
    __local uchar *const memory = f->memory;
% if FEW
    f->nr = 1;
% else
    if (f->lane == 0 || !f->box)
        arrive(V_FULL(f->nv)); /* the first step has no values to multiply, but waits for some all the same */
    f->nv++;
% end
    for (;; f->nq++) {
        await(Q_FULL(0, f->nq), Q_ROUND(f->nq));
        __local volatile const struct tile *const at = TILE_AT(0, f->nq);
        struct tile x;
        x.g = at->g, x.b = at->b, x.keys = at->keys;
% if PACKED and not PAGED
        x.kv_from = at->kv_from, x.kb = at->kb;
% end
        const int count = at->count, from = ${FROM ? "at->from" : "0"};
        warp_sync();
        if (count <= 0)
            return;
        if (f->lane == 0)
            arrive(Q_EMPTY(0, f->nq));
        for (int j = from + count - 1; j >= from; j--)
            load_v(f, &x, j${PAGED ? ", j == from + count - 1" : ""});
    }
}

% end
% if PERSISTENT
/* Tiles are given out as work-groups become free. The last group to see that there are no more resets the counter to 0. All
 * is loaded in the order in which consumers want it: ${VALUES_APART ? "queries and keys; another warp brings values" : "keys one step ahead of values, those of the next tile too"}. */
INLINED void produce(struct source *f, const struct attn_cl_args *a${SPLIT or PACKED ? "" : ", int near"}, __global const long *kv_lens, __global uint *taken${WINDOW or PACKED ? "," : ")"}
% if PACKED
    const struct attn_cl_features *features, const struct starts *starts)
% elif WINDOW
    const struct attn_cl_features *features)
% end
{
% if not NARROW and not VALUES_APART
    const uint shared = f->shared;
% end
% if PACKED
    const int groups = group_count();
    struct walk walk = begin_walk(f->lane, a, kv_lens, features, starts${WIDENED ? ", 0" : ""});
    struct tile x = ${SPLIT ? "unit_from(group_number(), f, a, kv_lens, starts, &walk, taken)" : "tile_at(group_number(), a, kv_lens, features, starts, &walk, f->lane)"};
% elif SPLIT
    const int tiles = (f->d.slices + ${WG - 1}) / ${WG} * f->d.splits * (int)(a->kv_heads * a->batch), groups = group_count();
    struct tile x = unit_from(group_number(), tiles, f, a, kv_lens, taken${WINDOW ? ", features" : ""});
% else
    const int tiles = ((int)a->q_len + ${BQ - 1}) / ${BQ} * (int)(a->heads * a->batch), groups = group_count();
    struct tile x = tile_at(group_number(), a, near, kv_lens${WINDOW ? ", features" : ""});
% end
% if not NARROW and not VALUES_APART
    if (f->lane == 0${PAGED ? " || !f->box" : ""})
        arrive(V_FULL(f->nv)); /* the first step has no values to multiply, but waits for some all the same */
    ${INSIDE ? "f->nv += f->step" : "f->nv++"};
% end
% if SPLIT or PACKED
    int more = x.count > 0;
    if (more)
        load_first(f, &x);
    while (more) {
% else
    load_first(f, &x);
    for (int more = 1; more;) {
% end
        uint next = 0;
        for (int j = ${FROM ? "x.from + " : ""}x.count - 1; j > ${FROM ? "x.from" : "0"}; j--) {
            if (f->lane == 0 && j${FROM ? " - x.from" : ""} == min(x.count - 1, 3)) /* early enough for the answer to come in time */
                next = count_up(taken);
            load_k(f, &x, j - 1${PAGED ? ", 0" : ""});
% if not VALUES_APART
            load_v(f, &x, j);
% end
        }
        if (f->lane == 0 && x.count == 1)
            next = count_up(taken);
        const int t = groups + uniform((int)next);
% if PACKED
        const struct tile y = ${SPLIT ? "unit_from(t, f, a, kv_lens, starts, &walk, taken)" : "tile_at(t, a, kv_lens, features, starts, &walk, f->lane)"};
        more = y.count > 0;
% elif SPLIT
        const struct tile y = unit_from(t, tiles, f, a, kv_lens, taken${WINDOW ? ", features" : ""});
        more = y.count > 0;
% else
        const struct tile y = tile_at(min(t, tiles - 1), a, near, kv_lens${WINDOW ? ", features" : ""});
        more = t < tiles;
% end
% if FEW or QS > 1
        if (more)
            load_first(f, &y);
% else
        if (more) {
% if not SPLIT
            for (int c = 0; c < ${HB*WG} && f->lane == 0; c++)
                box_prefetch(f->q, 64 * (c % ${HB}), ${PACKED ? "y.q_from + y.i0" : "y.i0"} + 64 * (c / ${HB}), y.h, y.${PACKED ? "qb" : "b"});
% end
            load_k(f, &y, ${FROM ? "y.from + " : ""}y.count - 1${PAGED ? ", 1" : ""});
        }
% end
% if not VALUES_APART
% if PAGED
        if (!more) /* no keys were asked for after these */
            f->before = f->last;
% end
        load_v(f, &x, ${FROM ? "x.from" : "0"});
% end
% if not FEW and QS == 1
        if (more) {
% for w in 0..WG
            load_q(f, &y, ${w});
% end
            f->nq++;
        }
% end
        x = y;
    }
% for w in 0..WG
    load_end(f, ${w});
% end
% if NARROW and not FEW
    tell_end(f);
% end
% if WIDENED
    named_sync(WIDENED_ALL, 128); /* nobody of this group counts jobs any more */
    if (f->lane == 0 && (int)count_up(taken + 1) == groups - 1)
        taken[0] = 0, taken[1] = 0, taken[2] = 0, taken[3] = f->wide.turn;
% else
    if (f->lane == 0 && (int)count_up(taken + 1) == groups - 1)
        taken[0] = 0, taken[1] = 0;
% end
}
% else
/* Loads one tile, in the order in which consumers want it: keys one step ahead of values. */
INLINED void produce(struct source *f, const struct attn_cl_args *a, int near, __global const long *kv_lens${WINDOW ? "," : ")"}
% if WINDOW
    const struct attn_cl_features *features)
% end
{
    const uint shared = f->shared;
    const struct tile x = tile_at(group_number(), a, near, kv_lens${WINDOW ? ", features" : ""});
    if (f->lane == 0)
        arrive(V_FULL(f->nv)); /* the first step has no values to multiply, but waits for some all the same */
    ${INSIDE ? "f->nv += f->step" : "f->nv++"};
    load_first(f, &x);
    for (int j = ${FROM ? "x.from + " : ""}x.count - 1; j > ${FROM ? "x.from" : "0"}; j--) {
        load_k(f, &x, j - 1);
        load_v(f, &x, j);
    }
    load_v(f, &x, ${FROM ? "x.from" : "0"});
% for w in 0..WG
    load_end(f, ${w});
% end
}
% end
