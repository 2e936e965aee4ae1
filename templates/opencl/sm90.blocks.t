%# What the producer does with keys and values in blocks: their rows go to the ring as they lie in memory.

/* Says where each row of a place begins in it, if all lie side by side. */
INLINED void lie_together(const struct source *f, __local int *begins, int first, const int bytes)
{
    #pragma unroll
    for (int r = 0; r < ${BK}; r += 32)
        begins[r + f->lane] = first + (r + f->lane) * bytes;
}
% if PAGED
/* Where pages have no boxes, each lane knows where one of them has rows of a tile: a piece. A tile meets at most 32 pages of 9 rows or
 * more. */
INLINED int is_in_pieces(const struct source *f)
{
    return !f->box && f->features->page_size > 8;
}
/* How the rows of a tile lie: how many there are, how many of them are in the first page, and how many may be in one; all at most ${BK}. */
struct pieces {
    int there, left, size;
    int off; /* bytes from a multiple of 16 to the first row; pages begin at such multiples */
};
INLINED struct pieces pieces_of(const struct source *f, int there, const int bytes)
{
    const long size = f->features->page_size;
    const int row = of_lane(f->last.row, 0);
    const struct pieces y = {there, (int)min(size - row, ${BK}L), (int)min(size, ${BK}L), (row & 15) * bytes & 15};
    return y;
}
/* Of a piece, its first row in the tile, and the row behind its last one. */
INLINED int piece_from(const struct pieces *y, int n)
{
    return n ? y->left + (n - 1) * y->size : 0;
}
INLINED int piece_end(const struct pieces *y, int n)
{
    return min(y->left + n * y->size, y->there);
}
/* Whole 16 bytes, with what lies around its rows. */
INLINED int piece_bytes(const struct pieces *y, int n, const int bytes)
{
    return ((n ? 0 : y->off) + (piece_end(y, n) - piece_from(y, n)) * bytes + 15) & ~15;
}
/* Says where each row of a place begins in it, and has the copy engine bring a piece of each page, this lane's from \`page\` on. */
INLINED void load_pieces(const struct source *f, __local int *begins, uint to, uint full, __global const uchar *page, int there, const int bytes)
{
    const struct pieces y = pieces_of(f, there, bytes);
    const int pieces = there == 0 ? 0 : there > y.left ? 1 + (there - y.left + y.size - 1) / y.size : 1;
    const int from = piece_from(&y, f->lane), off = f->lane ? 0 : y.off;
    /* Pieces of whole 16 bytes lie side by side, and others behind the piece before. */
    const int apart = ((y.off | y.left * bytes | y.size * bytes) & 15) != 0, at = apart ? (from * bytes & ~15) + 32 * f->lane : from * bytes;
    if (apart) {
        #pragma unroll 1
        for (int r = there + f->lane; r < ${BK}; r += 32)
            begins[r] = 0;
        if (f->lane < pieces)
            #pragma unroll 1
            for (int r = from; r < piece_end(&y, f->lane); r++)
                begins[r] = at + off + (r - from) * bytes;
    } else
        lie_together(f, begins, 0, bytes);
    warp_sync();
    if (f->lane == 0) {
        int all = (there * bytes + 15) & ~15;
        if (apart)
            all = piece_bytes(&y, 0, bytes) + (pieces > 1 ? piece_bytes(&y, pieces - 1, bytes) + (pieces - 2) * ((y.size * bytes + 15) & ~15) : 0);
        arrive_and_expect(full, there ? all : 0);
    }
    if (f->lane < pieces)
        bytes_load_once(to + at, page - off, piece_bytes(&y, f->lane, bytes), full, f->policy);
}
% end

/* Copies row by row what each has of 16 bytes at a time, from the last multiple of 16 before it. A lane has the same 16 of every so many
 * rows${PAGED ? "; another lane knows where a row lies. Four copies are under way before the next four places are computed" : ""}. */
INLINED void gather(const struct source *f, const struct tile *x, int j, uint to, __local int *begins, __global const uchar *head,
    long page_step, long row_step, const int bytes)
{
    const int chunks = (bytes + 29) / 16, rows = 32 / chunks, pitch = 16 * chunks; /* however a row begins; rows: that are copied at once */
    const int mine = f->lane / chunks, chunk = f->lane - mine * chunks;
% if PAGED
    #pragma unroll 1
    for (int n = 0; n < ${BK}; n += 32) {
        const int there = x->keys - j * ${BK} - n;
        struct place at;
        if (f->box) { /* each lane knows where a box begins */
            const int box = (n + f->lane) / f->box;
            at.page = of_lane(f->last.page, box), at.row = of_lane(f->last.row, box) + n + f->lane - box * f->box;
        } else if (is_in_pieces(f)) {
            const int size = (int)min(f->features->page_size, 1L << 30), row = of_lane(f->last.row, 0) + n + f->lane, piece = min(row / size, 31);
            at.page = of_lane(f->last.page, piece), at.row = row - piece * size;
        } else
            at = place_of(f, x, j * ${BK} + n + f->lane);
        const ulong place = (ulong)head + (f->lane < there ? at.page * page_step + at.row * row_step : 0);
        const int low = (int)place, high = (int)(place >> 32), end = mine < rows ? min(there, 32) : 0;
        begins[n + f->lane] = (n + f->lane) * pitch + (low & 15);
        #pragma unroll 1
        for (int i = mine; i - mine < 32; i += 4 * rows) {
            ulong row[4];
            #pragma unroll
            for (int m = 0; m < 4; m++) {
                const int r = (i + m * rows) & 31;
                row[m] = (uint)of_lane(low, r) | (ulong)(uint)of_lane(high, r) << 32;
            }
            #pragma unroll
            for (int m = 0; m < 4; m++) {
                const int r = i + m * rows;
                if (r < end && 16 * chunk < (int)(row[m] & 15) + bytes)
                    copy16_later(to + (n + r) * pitch + 16 * chunk, (__global const uchar *)(row[m] & ~15ul) + 16 * chunk, 1);
            }
        }
    }
% else
    const int end = mine < rows ? min(x->keys - j * ${BK}, ${BK}) : 0;
    ulong row = (ulong)head + mine * row_step;
    #pragma unroll 1
    for (int r = f->lane; r < ${BK}; r += 32)
        begins[r] = r * pitch + (((int)(ulong)head + r * (int)row_step) & 15);
    to += mine * pitch + 16 * chunk;
    #pragma unroll 4
    for (int r = mine; r < end; r += rows, row += here(rows * row_step), to += rows * pitch)
        if (16 * chunk < (int)(row & 15) + bytes)
            copy16_later(to, (__global const uchar *)(row & ~15ul) + 16 * chunk, 1);
% end
}

/* Brings the rows of tile j to a place of the ring. Where they follow each other, the copy engine moves them in one piece, or in one for each
 * box of a page or, without boxes, for each page. */
INLINED void load_rows(const struct source *f, const struct tile *x, int j, uint n, __global const ${TYPE_KV} *rows, long rows_at,
    const long *stride, const int bytes)
{
    const uint shared = f->shared;
    __local int *const begins = (__local int *)(f->memory + (PAIRS_AT(n) - shared));
    const int there = max(min(x->keys - j * ${BK}, ${BK}), 0);
    const long page_step = here(stride[0]) * ${UNIT}, row_step = here(stride[2]) * ${UNIT};
% if PAGED
    __global const uchar *const head = (__global const uchar *)rows + (here(rows_at) + x->g * here(stride[1])) * ${UNIT};
    const int together = row_step == bytes && (((ulong)head | (ulong)page_step) & 15) == 0;
    if (together && f->box) {
        lie_together(f, begins, 0, bytes);
        warp_sync();
        const int size = f->box * bytes, pieces = (there + f->box - 1) / f->box;
        if (f->lane == 0)
            arrive_and_expect(PLACE_FULL(n), pieces * size);
        if (f->lane < pieces)
            bytes_load_once(PLACE_AT(n) + f->lane * size, head + f->last.page * page_step + f->last.row * row_step, size, PLACE_FULL(n), f->policy);
    } else if (together && is_in_pieces(f)) {
        load_pieces(f, begins, PLACE_AT(n), PLACE_FULL(n), head + f->last.page * page_step + f->last.row * row_step, there, bytes);
    } else {
% else
    __global const uchar *const head = (__global const uchar *)rows + (here(rows_at) + x->g * here(stride[1])) * ${UNIT} + x->${KB} * page_step +
        (long)(${PACKED ? "x->kv_from + " : ""}j * ${BK}) * row_step;
    if (row_step == bytes) {
        const int first = (int)(ulong)head & 15, size = there ? (first + there * bytes + 15) & ~15 : 0;
        lie_together(f, begins, first, bytes);
        warp_sync();
        if (f->lane == 0) {
            arrive_and_expect(PLACE_FULL(n), size);
            if (size)
                bytes_load_once(PLACE_AT(n), head - first, size, PLACE_FULL(n), f->policy);
        }
    } else {
% end
        gather(f, x, j, PLACE_AT(n), begins, head, page_step, row_step, bytes);
        warp_sync();
        if (f->lane == 0)
            arrive(PLACE_FULL(n));
    }
    copies_arrive(PLACE_FULL(n));
}
% for v in 0..2

INLINED void load_${v ? "v" : "k"}(struct source *f, const struct tile *x, int j${PAGED ? ", const int first" : ""})
{
    const uint shared = f->shared, n = f->nr;
    f->nr += 2; /* the places between are of ${v ? "keys" : "values"} */
% if PAGED
    if (f->box || is_in_pieces(f))
        find_boxes(f, x, j, first);
% end
    await(PLACE_EMPTY(n), PLACE_ROUND(n) ^ 1);
    load_rows(f, x, j, n, f->${v ? "v" : "k"}_rows, f->a->${v ? "v" : "k"}_at, f->a->${v ? "v" : "k"}_stride, ${v ? V_BYTES : K_BYTES});
}
% end
