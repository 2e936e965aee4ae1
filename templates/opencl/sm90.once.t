%# Widens narrow keys and values once for a launch: three warps beside the one that copies take tiles of them from a counter, in the
%# order in which they will be wanted, and the copying warps of all groups wait for those that they copy. A group's first tile is
%# widened by all of its warps. Whoever has taken a tile waits for nobody, so it does not matter how many groups run at once.
%# What a tile becomes is said for rows with scales in sm90.once.rows.t, and for blocks in sm90.once.blocks.t.
% let COUNT = 96
% if IN_PAGES
/* Where a key is. */
struct place {
    int page, row;
};
% end
/* What those who widen a tile tell each other: the largest and the least scales that each warp has found${SCALED ? "; the scales of values" : ""}; and where
 * rows are. */
struct told {
    __local volatile float *tops;
% if SCALED
    __local volatile float *scales;
% end
% if IN_PAGES
    __local volatile struct place *places;
% end
};
INLINED long ahead(int rows, long step) /* rows, 0 or more, times a step */
{
    return (long)((ulong)(uint)rows * (ulong)step);
}
/* A tile of keys of a sequence and a KV head. */
struct part {
    int b, g, first, count;  /* the first key, and how many there are */
    int kb, from;            /* the batch of keys that are not in pages, and the rows before the sequence's${PACKED ? "" : "; none"} */
};
/* What all tiles have in common. A launch's arguments are read anew for each, for lack of registers. */
struct stored {
    __global const ${TYPE_KV} *k, *v;
% if SCALED
    __global const float *k_scales, *v_scales;
% end
% if IN_PAGES
    __global const int *pages; /* of all sequences */
% end
    __global ushort *memory;
    const struct attn_cl_args *a;
% if FEATURES
    const struct attn_cl_features *y;
% end
};

%# How many numbers those who widen tell each other at once.
% let FOUR = BOUNDED or K_TWO
% let TOPS = FOUR ? 4 : 3
% if FOUR
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
% if FOUR
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
% if FOUR
        const int others = as_int(told->tops[${ITEMS/32} + n]);
        x[2] = fmax(x[2], as_float(others & 0x7fff0000)), x[3] = fmax(x[3], as_float(others << 16));
% else
        x[2] = fmax(x[2], told->tops[${ITEMS/32} + n]);
% end
    }
}

% if BLOCKS
% include "opencl/sm90.once.blocks.t"
% else
% include "opencl/sm90.once.rows.t"
% end

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
% let AT_ITS_SCALES = AT_TOPS + TOPS_BYTES
% let AT_PLACES = AT_ITS_SCALES + (BLOCKS ? 0 : 4*BK)
#define JOB_AT(n) ((__local volatile int *)(memory + ${AT_JOBS}) + (n) * ${JOB_INTS})
INLINED struct told told_of(__local uchar *memory)
{
    struct told y = {.tops = (__local volatile float *)(memory + ${AT_TOPS})${SCALED ? ", .scales = (__local volatile float *)(memory + " : ""}${SCALED ? AT_ITS_SCALES : ""}${SCALED ? ")" : ""}};
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

/* Widens the tile that was left at a place, with so many work-items; returns 0 if there is none. Meanwhile the next one is taken, and left at
 * another place: those who have it then begin it at once. */
INLINED int widen_next(struct widener *w, int place, int next, const int items, int item)
{
    const struct source *const f = w->f;
    __local uchar *const memory = f->memory;
    const struct told told = told_of(memory);
    struct part part;
    if (!part_of(w, job_left(JOB_AT(place)), &part))
        return 0;
    const int is = part.count > 0 || part.first == 0; /* without keys there is one tile all the same */
    const long at = (long)(part.b * (int)here(f->a->kv_heads) + part.g) * f->wide.tiles + part.first / ${BK};
    if (is) {
% if IN_PAGES
        find_rows(w->x, &told, &part, items, item);
% end
        widen_tile(w->x, &told, records_of(f->a, w->x->memory) + at * ${RECORD/4}, ${SCALED ? "f->even, " : ""}&part, items, item);
    }
    const struct job job = take_job(w, item);
    memory_written();
    leave_job(JOB_AT(next), job, item);
    named_sync(WIDENING, items);
    if (is && item == 32) /* who takes tiles does not wait for what was written */
        tell((__global uint *)here((long)f->wide.done) + at, f->wide.turn);
    return 1;
}

/* Widens a group's first tile, with all of its work-items. */
INLINED int widen_first(struct widener *w, int item)
{
    __local uchar *const memory = w->f->memory;
    leave_job(JOB_AT(0), take_job(w, item), item);
    named_sync(WIDENING, ${ITEMS});
    return widen_next(w, 0, 1, ${ITEMS}, item);
}

/* Widens tiles until all are taken, with work-items 0 to ${COUNT - 1}, of whom the first has taken one if there are more. */
INLINED void widen_all(struct widener *w, int more, int item)
{
    for (int place = 1; more; place ^= 3)
        more = widen_next(w, place, place ^ 3, ${COUNT}, item);
    named_arrive(WIDENED_ALL, 128);
}
