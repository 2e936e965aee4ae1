%# What the producer does with narrow keys and values: their tiles go to the ring as they are stored in memory.

%# Where a tile has 32 keys, or a power of two times as many, a lane has keys that follow each other.
% let IN_A_ROW = BK == 32 or BK == 64 or BK == 128 or BK == 256
% let EACH = BK/32
%# Where values have a warp of their own (FEW), scales are of one side at a time, whose strides a caller gives; else of both.
% let OF_K = FEW ? "stride" : "y->k_scales_stride"
% let SIDES = FEW ? "__global const float *k, const long *stride" : "__global const float *k, __global const float *v"
% let BOTH = FEW ? "keys, or of its values" : "keys and values"
% if PAGED or not IN_A_ROW
/* The scales of tile j's ${BOTH}, 32 of each at a time, with zeros where there is no key. */
INLINED void gather_scales(const struct source *f, const struct tile *x, int j, uint to, ${SIDES})
{
% if not FEW
    const struct attn_cl_features *y = f->features;
% end
    /* The rate of tiles is this warp's, so it computes the addresses of ${WG == 1 or not PAGED ? "all loads side by side" : "loads one after another, for lack of registers"}. */
    const long k_page = here(${OF_K}[0]), k_row = here(${OF_K}[2]);
% if not FEW
    const long v_page = here(y->v_scales_stride[0]), v_row = here(y->v_scales_stride[2]);
% end
    #pragma unroll ${WG == 1 or not PAGED ? ceil_div(BK, 32) : 1}
    for (int n = 0; n < ${BK}; n += 32) {
        const int in_tile = n + f->lane, key = j * ${BK} + in_tile, is = in_tile < ${BK} && key < x->keys;
% if PAGED
% if IN_A_ROW
        const struct place at = place_of(f, x, key);
% else
        struct place at;
        if (f->box) { /* each lane knows where a box begins */
            const int box = min(in_tile, ${BK - 1}) / f->box;
            at.page = of_lane(f->last.page, box), at.row = of_lane(f->last.row, box) + in_tile - box * f->box;
        } else
            at = place_of(f, x, key);
% end
        const long page = at.page, row = at.row;
% else
        const long page = x->${KB}, row = ${PACKED ? "x->kv_from + " : ""}key;
% end
        if (in_tile < ${BK}) {
            copy4_async(to + 4 * in_tile, k + (is ? page * k_page + row * k_row : 0), is ? 4 : 0);
% if not FEW
            copy4_async(to + ${4*BK} + 4 * in_tile, v + (is ? page * v_page + row * v_row : 0), is ? 4 : 0);
% end
        }
    }
}
% end
/* The scales of tile j's ${BOTH}${IN_A_ROW ? ", of which a lane has some that follow each other and, in pages, lie in one box" : ""}; with zeros where there is no key. */
INLINED void load_scales(const struct source *f, const struct tile *x, int j, uint to${FEW ? ", __global const float *k, const long *stride" : ""})
{
% if FEW
    k += x->g * here(stride[1]);
% else
    const struct attn_cl_features *y = f->features;
    __global const float *k = (__global const float *)here((long)f->k_scales) + here(y->k_scales_at) + x->g * here(y->k_scales_stride[1]);
    __global const float *v = (__global const float *)here((long)f->v_scales) + here(y->v_scales_at) + x->g * here(y->v_scales_stride[1]);
% end
% if not IN_A_ROW
    gather_scales(f, x, j, to, k, ${FEW ? "stride" : "v"});
% else
    const int first = ${EACH} * f->lane, left = x->keys - j * ${BK} - first;
% if PAGED
    if (!f->box) {
        gather_scales(f, x, j, to, k, ${FEW ? "stride" : "v"});
        return;
    }
    const int box = first * f->boxes / ${BK};
    const long page = of_lane(f->last.page, box), row = of_lane(f->last.row, box) + first - box * f->box;
% else
    const long page = x->${KB}, row = ${PACKED ? "x->kv_from + " : ""}j * ${BK} + first;
% end
    const long k_row = here(${OF_K}[2])${FEW ? ";" : ", v_row = here(y->v_scales_stride[2]);"}
    if (left > 0)
        k += page * here(${OF_K}[0]) + row * k_row${FEW ? ";" : ", v += page * here(y->v_scales_stride[0]) + row * v_row;"}
    to += 4 * first;
    #pragma unroll
    for (int n = 0; n < ${EACH}; n++) {
        copy4_async(to + 4 * n, k, n < left ? 4 : 0);
% if not FEW
        copy4_async(to + ${4*BK} + 4 * n, v, n < left ? 4 : 0);
% end
        if (n + 1 < left)
            k += k_row${FEW ? ";" : ", v += v_row;"}
    }
% end
}
% if PAGED

/* Copies row by row, 16 bytes at a time, with zeros where there is no key. */
INLINED void gather(const struct source *f, const struct tile *x, int j, uint to, __global const ${TYPE_KV} *rows, long rows_at, const long *stride,
    const int boxes, const int columns)
{
    const int chunk = f->lane & 7;
    struct place at[${ceil_div(BK, 32)}];
    #pragma unroll
    for (int n = 0; n < ${ceil_div(BK, 32)}; n++)
        at[n] = place_of(f, x, j * ${BK} + 32 * n + f->lane);
    __global const ${TYPE_KV} *from = (__global const ${TYPE_KV} *)here((long)rows) + here(rows_at) + x->g * here(stride[1]) + 16 * chunk;
    const long page_step = here(stride[0]), row_step = here(stride[2]);
    #pragma unroll
    for (int n = 0; n < ${ceil_div(BK, 32)}; n++)
        #pragma unroll 2
        for (int m = 0; m < (n < ${BK/32} ? 8 : ${BK%32/4}); m++) {
            const int r = 4 * m + f->lane / 8;
            const int page = of_lane(at[n].page, r), row = of_lane(at[n].row, r), is = row < 1 << 30;
            __global const ${TYPE_KV} *place = from + (is ? page * page_step + row * row_step : 0);
            for (int c = 0; c < boxes; c++)
                copy16_later(to + c * ${BK*128} + (32 * n + r) * 128 + ((chunk ^ (r & 7)) << 4), place + 128 * c, is && 128 * c + 16 * chunk < columns);
        }
}
% end

/* Announces what a place holds; its first lane says what it is, and how many of its rows are keys. */
INLINED void announce(const struct source *f, const struct tile *x, int j, uint n, const int what, const int bytes)
{
    __local uchar *const memory = f->memory;
    const uint shared = f->shared;
    if (f->lane)
        return;
    NOTE_AT(n)[0] = what, NOTE_AT(n)[1] = x->keys - j * ${BK};
    if (bytes)
        arrive_and_expect(PLACE_FULL(n), bytes);
    else
        arrive(PLACE_FULL(n));
}

INLINED void load_k(struct source *f, const struct tile *x, int j${PAGED ? ", const int first" : ""})
{
% if FEW
    const uint shared = f->shared, n = f->nr;
    f->nr += 2; /* the places between are of values */
% else
    const uint shared = f->shared, n = f->nr++;
% end
% if PAGED
    if (f->box)
        find_boxes(f, x, j, first);
% end
    await(PLACE_EMPTY(n), PLACE_ROUND(n) ^ 1);
% if FEW
    load_scales(f, x, j, PAIRS_AT(n), (__global const float *)here((long)f->k_scales) + here(f->features->k_scales_at), f->features->k_scales_stride);
% else
    if (!f->even)
        load_scales(f, x, j, PAIRS_AT(n));
% end
% let K_BOXES = ceil_div(HD, 128)
% if PAGED
    announce(f, x, j, n, KEYS, f->box ? ${K_BOXES*BK*128} : 0);
    if (f->box)
        load_boxes(f, f->last, x->g, PLACE_AT(n), f->k, ${K_BOXES}, PLACE_FULL(n));
    else
        gather(f, x, j, PLACE_AT(n), f->k_rows, f->a->k_at, f->a->k_stride, ${K_BOXES}, ${HD});
% else
    announce(f, x, j, n, KEYS, ${K_BOXES*BK*128});
    for (int c = 0; c < ${K_BOXES} && f->lane == 0; c++)
        ${LOAD_KV}(PLACE_AT(n) + c * ${BK*128}, f->k, 64 * c, row_of(x, j), x->g, x->${KB}, PLACE_FULL(n)${POLICY});
% end
    copies_arrive(PLACE_FULL(n));
}

INLINED void load_v(struct source *f, const struct tile *x, int j${PAGED and FEW ? ", const int first" : ""})
{
% if FEW
    const uint shared = f->shared, n = f->nr;
    f->nr += 2; /* and those between, of keys */
% if PAGED
    if (f->box)
        find_boxes(f, x, j, first);
% end
    await(PLACE_EMPTY(n), PLACE_ROUND(n) ^ 1);
    load_scales(f, x, j, PAIRS_AT(n), (__global const float *)here((long)f->v_scales) + here(f->features->v_scales_at), f->features->v_scales_stride);
% else
    const uint shared = f->shared, n = f->nr++;
    await(PLACE_EMPTY(n), PLACE_ROUND(n) ^ 1);
% end
% let V_BOXES = ceil_div(HDV, 128)
% if PAGED
    announce(f, x, j, n, VALUES, f->box ? ${V_BOXES*BK*128} : 0);
    if (f->box)
        load_boxes(f, f->${FEW ? "last" : "before"}, x->g, PLACE_AT(n), f->v, ${V_BOXES}, PLACE_FULL(n));
    else
        gather(f, x, j, PLACE_AT(n), f->v_rows, f->a->v_at, f->a->v_stride, ${V_BOXES}, ${HDV});
% else
    announce(f, x, j, n, VALUES, ${V_BOXES*BK*128});
    for (int c = 0; c < ${V_BOXES} && f->lane == 0; c++)
        ${LOAD_KV}(PLACE_AT(n) + c * ${BK*128}, f->v, 64 * c, row_of(x, j), x->g, x->${KB}, PLACE_FULL(n)${POLICY});
% end
    copies_arrive(PLACE_FULL(n));
}

% if not FEW
INLINED void tell_end(struct source *f)
{
    const uint shared = f->shared, n = f->nr++;
    __local uchar *const memory = f->memory;
    await(PLACE_EMPTY(n), PLACE_ROUND(n) ^ 1);
    if (f->lane == 0) {
        NOTE_AT(n)[0] = END;
        arrive(PLACE_FULL(n));
    }
    copies_arrive(PLACE_FULL(n));
}
% end
