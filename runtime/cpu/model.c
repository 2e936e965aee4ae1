/* model.c - see model.h. Terms and constants follow measurements: tile products run at the rate of multiply-adds when
 * loads and latency hide behind them; softmax is most of the rest; caches come last. */
#include "model.h"

#include <string.h>

#include "execute.h"

/* Cycles, of kernels that make panels and of those that split keys. */
struct costs {
    double latency, exponential; /* until an accumulator may be used again; of a vector, with what else softmax does with it */
    double products, pack, copied_key; /* times the multiply-adds; a vector of a panel; a row of keys whose end fills no vector */
    double call, output, block;        /* a micro-kernel; a vector of outputs, for a tile of keys; MR rows, once */
    double row, copied_row, tile;      /* of queries, once; one whose end fills no vector; a tile of them */
    double few_products, few_key, few_output; /* times the multiply-adds; a key, for MR rows; as output */
    double few_slow, few_edge;                /* a tile by C that libtcc makes; one that rows do not see whole */
    double end, end_vector;                   /* a row's results of a split: once, and for a vector of them */
};

/* Vectors of at most 8 floats, fitted to 1,090 and 911 timings on Zen 3, of 60 problems; and of 16, to timings of 371 problems on
 * one core of a Xeon (Emerald Rapids). There each MR rows have a cost beside that of products, since loops begin and end for one
 * row as for all. A transposition of 16 by 16 takes 64 shuffles, one a cycle, so that vectors of 16 gain little in packing. */
static const struct costs up_to_8 = {.latency = 4,
                                     .exponential = 6,
                                     .products = 1.15,
                                     .pack = 2,
                                     .call = 25,
                                     .output = 1.5,
                                     .row = 136,
                                     .tile = 1300,
                                     .few_products = 1.15,
                                     .few_output = 2,
                                     .few_slow = 220,
                                     .few_edge = 570,
                                     .end = 210,
                                     .end_vector = 26.25};
static const struct costs of_16 = {.latency = 4.75,
                                   .exponential = 8.5,
                                   .products = 1.1,
                                   .pack = 5.3,
                                   .copied_key = 28,
                                   .call = 17,
                                   .output = 5,
                                   .block = 436,
                                   .row = 45,
                                   .copied_row = 38,
                                   .tile = 200,
                                   .few_products = 1.25,
                                   .few_key = 5,
                                   .few_output = 1.5,
                                   .few_slow = 50,
                                   .few_edge = 1200,
                                   .end = 170,
                                   .end_vector = 17};

struct shape {
    const struct costs *costs;
    double rows, keys, all; /* of one head; keys: the average number that a row sees, and all */
    double group;           /* heads that share a KV head */
    double d, dv, bq, bk, mr, nv, u;
    double slots;    /* rows for which a vector of scores has lanes, where keys are split: a power of two */
    double spare;    /* registers that narrow values pass through */
    bool uneven;     /* passes over values may have unlike numbers of rows */
    bool chained;    /* scores are four chains, in which rows go two and two, or three as four */
    double lanes;    /* f32 lanes of a vector */
    double exponential; /* cycles of a vector in the softmax of kernels that make panels */
    double modify;   /* half-cycles that features take for a vector of scores */
    double edges;    /* tiles that a row meets beyond those that its keys fill, since a window begins inside a tile */
    double fma;      /* cycles of a vector's multiply-add */
    double products; /* elements of the inner dimension that one multiply-add takes, times its rate relative to FMA's */
    double coupled;  /* what a key takes under few queries, as a share, by pairs of narrow values */
    double once;     /* cycles in which a column of a key and its value are widened for all rows; 0: for MR rows at a time */
    double widen;    /* cycles in which a vector of keys or values becomes one of floats */
    double element;  /* bytes of a key's element */
    bool half;       /* keys are f16 */
    bool wide;       /* vectors of 16 floats */
    double row;      /* cycles of the calls that make a narrow key, and its value, floats before they are packed */
    double panel;    /* bytes of a packed element: of narrow keys that become pairs 2, and 4 for all others */
};

static double up(double x, double to)
{
    double n = (double)(int64_t)((x + to - 1) / to);
    return (n < 1 ? 1 : n) * to;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double average_keys(const struct tune_target *t)
{
    double q = (double)t->q_len, k = (double)t->kv_len;
    if (t->caller.field[F_CAUSAL])
        k = q <= k ? k - (q - 1) / 2 : k * (k + 1) / 2 / q; /* bottom-right: the last row sees all */
    return t->caller.field[F_WINDOW] && k > (double)target_window(t) ? (double)target_window(t) : k;
}

/* What is known of the cores of a maker, whose name is in that of the processor. */
static const struct maker {
    const char *name;
    double dot_rate; /* of products of pairs, f32's being 1: AMD's and Arm's cores do as many as FMAs, Intel's a quarter as many */
    double l3_rate;  /* bytes that a core reads from L3 in a cycle: one of the Xeon 9, one of Zen 3 16 */
    bool prefetches; /* tiles of keys and values that take more than a page do not come late, as they do on Zen 3 */
} makers[] = {
    {"AMD", 2, 16, false}, {"AArch64", 2, 16, false}, {"Intel", 0.5, 9, true}, {"", 0.5, 16, false}, /* any other */
};

static const struct maker *maker_of(const struct cpu *cpu)
{
    const struct maker *m = makers;
    while (!strstr(cpu->model, m->name)) /* the last one's is in all */
        m++;
    return m;
}

/* Two per cycle, but AMD's family 19h (Zen 4) does those of 512 bits in halves. */
static double fma_cycles(const struct cpu *cpu, enum isa isa)
{
    bool halves = (isa == ISA_AVX512 || isa == ISA_AVX512BF16) && strstr(cpu->model, "AMD") && strstr(cpu->model, " 19.");
    return halves ? 1 : 0.5;
}

/* What a key takes under few queries where narrow values are multiplied as pairs (COUPLES in attn.sizes.t), as a share of
 * what it takes as floats: from L2 on a Zen 4, D = 128, 4 rows. Where such products are slow, as on Intel's cores, it is a
 * guess. Under 16 rows a row takes longer than key_cycles counts: beside 8 rows 1.1 times as long over int8 at D = 128, 1.35
 * times at 256 and 1.4 times at 576, 1.2 times over q8_0 at 576, and 1.1 times over fp8. */
static double coupled(const struct variant *v, const struct cpu *cpu)
{
    const enum dtype kv = variant_dtype_kv(v);
    const int32_t *f = v->field;
    if (!f[F_SPLIT] || !variant_may_couple(v, (enum isa)f[F_ISA]))
        return 1;
    const bool wide_rows = f[F_ROWS] == 16 && f[F_HEAD_DIM] > 128;
    /* Over blocks up to eight rows have pairs. Of wide heads more than four have no call for a whole tile, and were not timed. */
    if (variant_has_blocks(v) && f[F_ROWS] > (variant_is_wide(v) ? 4 : 8))
        return wide_rows ? 1.4 : 1;
    if (kv == DTYPE_FP8 && (f[F_VECS] % 4 || f[F_HEAD_DIM] % 16 || variant_head_dim_v(v) % 16))
        return 1;
    /* Panels of 8 vectors under three rows were not timed, and those of 4 were. */
    const double untimed = f[F_ROWS] == 3 && f[F_VECS] == 8 ? 1.05 : 1;
    if (maker_of(cpu)->dot_rate < 1)
        return 1.2 * untimed;
    if (kv == DTYPE_INT8)
        return 0.86 * untimed * (f[F_ROWS] < 16 ? 1 : wide_rows ? 1.8 : 1.35);
    if (kv == DTYPE_FP8)
        return (f[F_HEAD_DIM] > 256 ? 0.46 : 0.52) * (f[F_ROWS] == 16 ? 1.1 : 1);
    return untimed * (kv == DTYPE_Q8_0 ? 0.7 : 0.52);
}

/* Where many rows meet narrow keys that are pairs, a tile is widened once for all of them (ONCE in attn.sizes.t): cycles for a
 * column of a key and its value, after timings under 16 and 64 rows on a Zen 4, at head dims 128 and 576. 0: it is not. */
static double once(const struct variant *v, const struct shape *s)
{
    static const double column[] = {[DTYPE_INT8] = 0.16, [DTYPE_FP8] = 0.13, [DTYPE_Q8_0] = 0.19, [DTYPE_Q4_0] = 0.11};
    const enum dtype kv = variant_dtype_kv(v);
    const double over = kv == DTYPE_Q4_0 ? 3 : 2, all = s->group * s->rows, rows = all < s->bq ? all : s->bq;
    const bool whole = (int)s->d % 16 == 0 && (int)s->dv % 16 == 0 && (int)s->bk % 16 == 0;
    return s->coupled < 1 && s->mr == 4 && whole && rows > over * s->mr ? column[kv] : 0;
}

/* Registers of 512 bits that narrow values pass through before they are multiplied (SPARE in attn.sizes.t). */
static double spare(const struct variant *v, bool coupled)
{
    if (!variant_is_narrow(v))
        return 0;
    if (variant_dtype_kv(v) == DTYPE_FP8)
        return coupled || v->field[F_INVARIANT] ? 6 : 4;
    return v->field[F_INVARIANT] ? 6 : variant_has_blocks(v) ? 2 : 0;
}

static struct shape read_shape(const struct variant *v, const struct tune_target *t, const struct cpu *cpu)
{
    /* Of narrow types: a conversion of integers, of E4M3, and of blocks with their scales. */
    static const double widen[] = {[DTYPE_F32] = 0, [DTYPE_F16] = 0.5,  [DTYPE_BF16] = 0.5, [DTYPE_INT8] = 1,
                                   [DTYPE_FP8] = 2, [DTYPE_Q8_0] = 1.5, [DTYPE_Q4_0] = 2.5};
    const int32_t *f = v->field;
    const enum dtype kv = variant_dtype_kv(v);
    struct shape s = {.rows = (double)t->q_len,
                      .group = t->kv_heads ? (double)t->heads / t->kv_heads : 1,
                      .keys = average_keys(t),
                      .all = (double)t->kv_len,
                      .d = f[F_HEAD_DIM],
                      .bq = f[F_TILE_Q],
                      .bk = f[F_TILE_K],
                      .mr = f[F_ROWS],
                      .slots = variant_row_lanes(v),
                      .nv = f[F_VECS],
                      .u = f[F_UNROLL],
                      .products = 1,
                      .widen = widen[kv],
                      .element = (double)dtype_size(kv) / dtype_values(kv)};
    s.dv = variant_head_dim_v(v);
    s.lanes = f[F_ISA] == ISA_C ? 1 : isas[f[F_ISA]].lanes; /* libtcc makes no vector instructions from plain C */
    s.modify = (f[F_SOFTCAP] ? 30 : 0) + (f[F_BIAS] ? 4 : 0) + (f[F_MASK] ? 4 : 0) + (f[F_ALIBI] ? 4 : 0);
    s.edges = f[F_WINDOW] ? 1 : 0;
    s.row = variant_is_narrow(v) ? (f[F_PAGED] ? 90 : 50) : 0;
    s.half = kv == DTYPE_F16;
    s.wide = s.lanes > 8;
    s.costs = s.wide ? &of_16 : &up_to_8;
    s.exponential = f[F_TABLE] ? 4 : s.costs->exponential; /* with a table: measured on a Zen 4, in the nearest cache */
    s.fma = fma_cycles(cpu, (enum isa)f[F_ISA]);
    s.coupled = coupled(v, cpu);
    s.once = once(v, &s);
    s.uneven = !f[F_INVARIANT];
    s.chained = f[F_INVARIANT] && s.wide && !variant_in_pairs(v, (enum isa)f[F_ISA]);
    s.spare = spare(v, s.coupled < 1);
    s.panel = s.row > 0 && variant_in_pairs(v, (enum isa)f[F_ISA]) ? 2 : 4;
    if (s.panel < 4)
        s.row -= 50;
    if (variant_in_pairs(v, (enum isa)f[F_ISA]))
        s.products = maker_of(cpu)->dot_rate;
    return s;
}

/* ---- how work is shared out among threads, as runtime/cpu/execute.c and the kernels do it ---- */

/* Threads do not finish equal work at the same time: they begin one after another, and some share a core. How much later than in
 * lock step one does on the average, as a share of the work. On 16 threads of a Xeon launches of 25 to 100 us took 1.2 to 1.5
 * times as long by medians as the best of them. */
static const double LAG = 0.3;

/* Of so many threads whose delays are drawn alike from an exponential distribution, the last one is behind the others by so many
 * times the average delay: 0.5 times of two threads, 2.4 times of 16. */
static double last_of(double threads)
{
    double sum = 0;
    for (double i = 2; i <= threads; i++)
        sum += 1 / i;
    return sum;
}

/* What is shared out among threads, which take pieces from a counter. All are alike but for a smaller rest, or the first is the
 * longest, and they become shorter. */
struct pieces {
    double count, cycles, longest; /* cycles of the average piece and of the longest one */
    bool falling;
};

/* Until so many threads that are alike have done them. Pieces that are alike are done in rounds, in which there may be room for the
 * rest; of others only the longest may keep a thread for more than its share. */
static double rounds_cycles(const struct pieces *p, double threads)
{
    const double all = p->count * p->cycles;
    if (p->falling)
        return larger(p->longest, all / threads);
    const double whole = (double)(int64_t)(all / p->longest + 0.001), rest = larger(0, all - whole * p->longest);
    const double rounds = whole > 0 ? up(whole, threads) / threads : 0;
    return rounds * p->longest + (rounds * threads > whole ? 0 : rest);
}

/* How long threads wait in the end for the last one. Who is late takes fewer pieces, so that it is for one piece at most. */
static double lag_cycles(const struct pieces *p, double threads)
{
    const double late = LAG * last_of(threads) * p->count * p->cycles / threads;
    return late < p->cycles ? late : p->cycles;
}

static double taken_cycles(const struct pieces *p, double threads)
{
    return threads < 2 ? p->count * p->cycles : rounds_cycles(p, threads) + lag_cycles(p, threads);
}

/* A unit of work is a KV head of a sequence: its panels, of so many bytes, are packed in so many cycles by whoever attends. */
struct unit {
    double pack, bytes;
    struct pieces tiles; /* of queries */
};

/* Each unit has a few threads, which all pack it. They pack another one only where more of its tiles are left than there are
 * threads for each unit: that is when the teams of most threads have finished. */
static double kept_cycles(const struct unit *u, double units, double threads)
{
    const double least = (double)(int64_t)(threads / units), most = up(threads, units) / units;
    struct pieces all = u->tiles;
    all.count *= units;
    if (u->tiles.count * (1 - least / most) > threads / units)
        return 1.5 * u->pack + taken_cycles(&all, threads);
    return u->pack + rounds_cycles(&u->tiles, least) + lag_cycles(&all, threads);
}

/* The cycles until all threads have finished. A unit is packed first: by each part of it; or by each thread that keeps it, where
 * there are fewer units than threads; or once and for all threads. */
static double packed_cycles(const struct tune_target *t, const struct unit *u)
{
    const double units = (double)t->batch * t->kv_heads, threads = larger(1, t->threads), tiles = u->tiles.count;
    if (threads < 2)
        return units * (u->pack + tiles * u->tiles.cycles);
    if (tiles > 1 && units < threads) {
        if (KEEPERS * units > threads && u->bytes <= KEPT_MOST)
            return kept_cycles(u, units, threads);
        struct pieces all = u->tiles;
        all.count *= units;
        return units * u->pack / threads + taken_cycles(&all, threads);
    }
    double cuts = units < ENOUGH * threads && (int64_t)units % (int64_t)threads ? 2 : 1;
    cuts = cuts < tiles ? cuts : tiles;
    const double part = u->pack + up(tiles, cuts) / cuts * u->tiles.cycles;
    const struct pieces parts = {.count = units * cuts, .cycles = part, .longest = part};
    return taken_cycles(&parts, threads);
}

/* The same of so many pieces, each as long as the others. */
static double shared_cycles(const struct tune_target *t, double count, double cycles)
{
    const struct pieces p = {.count = count, .cycles = cycles, .longest = cycles};
    return taken_cycles(&p, larger(1, t->threads));
}

/* The tiles of queries of a KV head. Under a causal mask that hides much, they differ by the keys that their rows see. */
static struct pieces tiles_of(const struct shape *s, const struct tune_target *t, double count, double cycles, double longest)
{
    const double rows = s->rows < s->bq ? s->rows : s->bq, last = s->all - ((rows < s->all ? rows : s->all) - 1) / 2;
    const double most = t->caller.field[F_CAUSAL] && !t->caller.field[F_WINDOW] ? last / s->keys : 1;
    return (struct pieces){.count = count, .cycles = cycles, .longest = larger(1, most) * longest, .falling = most > 1.1};
}

/* ---- kernels that make panels of keys and values ---- */

/* The cycles of one inner step of a tile product for so many vectors: its multiply-adds; two loads per cycle, of which a step needs
 * these vectors and MR broadcasts; four cycles until an accumulator may be used again; the loop's own instructions. */
static double step_cycles(const struct shape *s, double vecs)
{
    double fma = s->mr * vecs * s->fma, loads = (s->mr + vecs) / 2, latency = s->costs->latency;
    return larger(fma, larger(loads, latency)) + 0.3 / s->u;
}

/* Bytes per cycle from memory and from L2. */
enum { MEMORY = 6, IN_L2 = 48 };

/* For what is read again and again: L2 holds it if it takes at most half of L2; of L3, which is shared, a quarter
 * counts. */
static double read_rate(const struct cpu *cpu, double bytes)
{
    double l2 = cpu->l2 ? (double)cpu->l2 : 524288, l3 = (double)cpu->l3;
    return bytes <= l2 / 2 ? IN_L2 : bytes <= l3 / 4 ? maker_of(cpu)->l3_rate : MEMORY;
}

static double cache_rate(const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    return read_rate(cpu, s->all * (s->d + s->dv) * s->element * t->kv_heads * (double)t->batch);
}

/* That any row sees. */
static double keys_seen(const struct shape *s)
{
    return s->edges > 0 && s->keys + s->rows < s->all ? s->keys + s->rows : s->all;
}

/* Making panels of a KV head's keys and values: a transposition and a copy, which are written and read again. */
static double pack_cycles(const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    const double keys = keys_seen(s);
    const double panel = s->nv * s->lanes, padded = s->wide ? up(keys, panel) : keys;
    const double elements = padded * s->d + keys * s->dv, panels = elements * s->panel * 2 / read_rate(cpu, elements * s->panel);
    const double memory = elements * s->element / cache_rate(s, t, cpu) + panels; /* half of which hides behind the rest */
    const double copied = (int)s->d % (int)s->lanes ? s->costs->copied_key : 0, widen = s->wide && s->element == 2 ? 0 : s->widen;
    return elements * (s->costs->pack + widen) / s->lanes + keys * (s->row + copied) + memory / 2;
}

/* A tile of queries of one head that has so many rows. */
static double tile_of_queries(const struct shape *s, const struct cpu *cpu, double rows)
{
    const double l1 = cpu->l1d ? (double)cpu->l1d : 32768, l2 = cpu->l2 ? (double)cpu->l2 : 524288, panel = s->nv * s->lanes;
    const double padded = up(rows, s->mr), blocks = padded / s->mr; /* of MR rows */
    const double keys = up(s->keys, panel) + s->edges * s->bk / 2, tiles = up(s->keys, s->bk) / s->bk + s->edges;
    const double bk = s->bk < keys ? s->bk : keys;
    const double columns = up(s->dv, s->lanes) / s->lanes; /* vectors of them */
    const double full = (double)(int64_t)((columns - 1) / s->nv), last = columns - full * s->nv;
    const double score = keys / panel * s->d * step_cycles(s, s->nv);
    /* The value product goes through BK rows of V in a panel, again for each MR rows, beside its rows of P; L2 keeps up
     * with products that are done in halves. */
    const double far = s->fma < 1 && 4 * bk * (panel + s->mr) > l1 ? 1.1 : 1;
    const double value = far * keys * (full * step_cycles(s, s->nv) + step_cycles(s, last));
    const double softmax = s->mr * keys * (s->exponential + s->modify / 2) / s->lanes;
    /* For each tile of keys: calls, maxima and sums, and the outputs that are loaded, scaled and stored. */
    const double visit = s->costs->call * (4 + full) + s->costs->output * s->mr * columns;
    const double scores = s->mr * keys / s->lanes; /* which are stored */
    /* Panels come from the next cache for each tile of queries, most of which hides behind products; and for each block of rows,
     * beside queries and outputs, where a tile of keys does not fit. */
    const double bytes = s->panel * keys * (s->d + s->dv), tile = s->panel * bk * (s->d + s->dv);
    const double again = (bytes > 0.8 * l2 ? bytes : 0) + (tile > 0.8 * l2 ? blocks * bytes : 0) +
                         (tile + 4 * rows * (s->d + s->dv) > 0.9 * l2 ? 4 * tiles * rows * (s->d + 2 * s->dv) : 0);
    const double block = s->costs->products * (score + value) / s->products + softmax + scores + tiles * visit + s->costs->block;
    const double row = s->costs->row + ((int)s->d % (int)s->lanes ? s->costs->copied_row : 0);
    return blocks * block + again / (2 * maker_of(cpu)->l3_rate) + row * rows + s->costs->tile;
}

/* For one head. */
static double panel_cycles(const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    const double whole = (double)(int64_t)(s->rows / s->bq), rest = s->rows - whole * s->bq;
    const double tiles = whole + (rest > 0 ? 1 : 0);
    const double rows = whole * tile_of_queries(s, cpu, s->bq) + (rest > 0 ? tile_of_queries(s, cpu, rest) : 0);
    const double tile = rows / tiles, longest = whole > 0 ? tile_of_queries(s, cpu, s->bq) : tile;
    const struct unit u = {.pack = pack_cycles(s, t, cpu), .bytes = 4 * s->all * (s->d + s->dv),
                           .tiles = tiles_of(s, t, tiles * s->group, tile, longest)};
    return packed_cycles(t, &u);
}

/* ---- kernels that split keys ---- */

/* The rows whose accumulators for a panel of values are in registers at once and go through it together (VR in
 * attn.sizes.t): of rows that are no power of two all, or else so many that passes over the values are few. */
static double rows_together(const struct shape *s)
{
    const double room = (s->lanes == 8 ? 13 : 29) - s->spare;
    double together = 8;
    if (s->mr < s->slots && s->mr * (s->nv + (s->wide ? 0 : 1)) <= room)
        return s->mr;
    if (s->mr < s->slots && s->uneven && room > s->nv) {
        const double most = (double)(int64_t)(room / (s->nv + 1));
        return s->mr / (up(s->mr, most) / most);
    }
    if (s->mr < s->slots && (int)s->mr % 3 == 0 && 3 * (s->nv + 1) <= room)
        return 3;
    while (together > 1 && ((int)s->mr % (int)together != 0 || together * (s->nv + 1) > room))
        together /= 2;
    return together;
}

/* MR rows and one key: queries come from memory, but for a few vectors that stay in registers, and a score is the sum across a
 * vector, which is a matter of shuffles, of which Intel's cores do one a cycle. Values are loaded for every few rows, whose
 * probabilities are broadcast. */
static double key_cycles(const struct shape *s, const struct cpu *cpu, double columns, double full)
{
    const double latency = 4, key = up(s->d, s->lanes) / s->lanes, registers = s->lanes == 8 ? 16 : 32;
    const double room = s->lanes < 4 ? 0 : (double)(int64_t)((registers - s->lanes * s->mr / s->slots - 4) / s->mr);
    const double held = room < key ? larger(room, 0) : key;
    const double score = held * s->mr * s->fma + (key - held) * larger(s->mr * s->fma, (1 + s->mr) / 2);
    const double together = rows_together(s), last = columns - full * s->nv;
    const double panel = larger(together * s->nv * s->fma, larger(latency, (s->nv + together) / 2));
    const double rest = larger(together * last * s->fma, larger(latency, (last + together) / 2));
    /* Rows one at a time load a vector of values for each product. Measured on a Zen 4: 5 rows in f32, by 8 vectors against 4. */
    const double alone = s->wide && together < 2 && s->mr > 1 ? 1.4 : 1;
    const double value = alone * s->mr / together * (full * panel + rest);
    const double sum = s->wide ? 13 : s->lanes / 2, widen = s->wide && s->half ? 1.1 : s->widen;
    /* Where a multiply-add of 512 bits takes a cycle, what stands between them hides: measured on a Zen 4. */
    const double beside = s->wide && s->fma >= 1 ? 1.1 : s->costs->few_products;
    /* Queries that have no room in the nearest cache come from the next one again for each key, 32 bytes a cycle: measured on a
     * Zen 4. */
    const double queries = 4 * s->mr * s->d / s->products, l1 = cpu->l1d ? (double)cpu->l1d : 32768;
    const double far = queries > l1 ? queries / 32 : 0;
    const double scores = larger(beside * score / s->products, far);
    const double all = scores + beside * value / s->products + widen * (key + columns * s->mr / together) +
                       s->slots / s->lanes * (s->costs->exponential + sum + s->modify / 2) + s->costs->few_key;
    /* Three rows in chains take as long as four, as rows go two at a time: on a quiet Xeon 0.98 of it in f16 and 0.97 in f32. */
    return s->coupled * (s->chained && s->mr == 3 ? 1.4 : 1) * all;
}

/* Where tiles are multiplied: what makes bf16 of a key and its value, once for all rows, and the rest, for MR rows. After
 * timings under 4 and 8 rows on a Xeon, at D = 128. */
static double opened_cycles(const struct shape *s)
{
    return 0.1 * (s->d + s->dv);
}

static double tiled_cycles(const struct shape *s)
{
    return 0.11 * (s->d + s->dv);
}

/* Where a tile is widened once for all rows: what is left, for MR rows. Products, and of blocks a step of the softmax for each. */
static double met_once_cycles(const struct variant *v, const struct shape *s)
{
    const double softmax = s->mr / s->lanes * (s->costs->exponential + s->modify / 2);
    const double products = s->mr * s->fma * (s->d + s->dv) / 32;
    return 1.17 * products + softmax + 0.7 * s->costs->few_key + (variant_has_blocks(v) ? 1.3 * s->dv / 32 : 0);
}

/* What else a tile costs, for MR rows. What is not a tile that all rows see whole is done by C that libtcc makes: which keys each
 * lane sees. A bias or mask of several rows is put into the order of scores in registers. */
static double tile_overhead(const struct variant *v, const struct shape *s, double columns, bool slow, bool edge)
{
    const double each = s->mr > 1 ? 0.6 : 0.1, numbers = each * ((v->field[F_BIAS] ? 1 : 0) + (v->field[F_MASK] ? 1 : 0));
    const double scales = !dtypes[variant_dtype_kv(v)].scaled ? 0 : s->once > 0 ? 1 : 6;
    const double features = variant_modifies(v) && s->wide && s->fma >= 1 ? 150 : 0; /* beside that, on a Zen 4 */
    const double rest = (slow || edge ? s->costs->few_slow : 0) + (edge ? s->costs->few_edge : 0) + features;
    return 35 + s->costs->few_output * s->mr * columns + rest + s->bk * (s->mr * numbers + scales);
}

/* How many times as long a tile of keys and values takes from memory where it is late: it is fetched while the one before it is
 * computed. whole: its rows are read from their first element to the last; pieces: by pieces of pages, whose beginnings are
 * fetched earlier. */
static double lateness(const struct variant *v, const struct shape *s, bool whole, bool pieces, const struct cpu *cpu)
{
    if (maker_of(cpu)->prefetches)
        return 1;
    const double parts = whole || pieces ? 1 : 1.04;
    /* Pairs of narrow values take so long that tiles of fewer keys than these are late, and those of more are little slower:
     * measured from memory on a Zen 4. */
    const double best = variant_has_blocks(v) ? 128 : 64;
    if (s->coupled < 1)
        return (s->bk != best ? 1.15 : 1) * parts;
    const double page = s->bk * (s->d + s->dv) * s->element / 8192; /* keys, and values, of more than a page are late */
    return (pieces ? 1 : page > 2 ? 1.3 : page > 1 ? 1.15 : 1) * parts;
}

/* The rows of all heads that share a KV head go through its keys together, a chunk of BQ rows through all keys that any of them
 * sees. */
static double split_cycles(const struct variant *v, const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    const int32_t *f = v->field;
    const int lanes = (int)s->lanes;
    const double rows = s->rows * s->group;
    const double chunks = up(rows, s->bq) / s->bq, blocks = up(rows, s->mr) / s->mr;
    const double span = (s->rows < s->bq ? s->rows : s->bq) - 1, seen = s->keys + (f[F_WINDOW] ? span : f[F_CAUSAL] ? span / 2 : 0);
    const double keys = up(seen < s->all ? seen : s->all, s->bk) + s->edges * s->bk / 2, tiles = keys / s->bk;
    const double cut = (f[F_WINDOW] ? 2 : f[F_CAUSAL] ? 1 : 0) * (span / s->bk + 1), edges = cut < tiles ? cut : tiles;
    const double columns = up(s->dv, s->lanes) / s->lanes, full = (double)(int64_t)((columns - 1) / s->nv);
    /* Rows that are not whole vectors are copied, but half a vector of pairs may end a row of keys; and so are tiles in
     * several pages, unless they are read by pieces. */
    const bool filled = (int)s->d % lanes == 0 && (int)s->dv % lanes == 0;
    const bool stepwise = !filled || (full + 1) * s->mr / rows_together(s) > 8;
    const bool pieces = f[F_PAGED] && !stepwise && (int)s->bk % TYPICAL_PAGE == 0;
    const bool copies = (f[F_PAGED] && s->bk > TYPICAL_PAGE && !pieces) || !filled, slow = copies || stepwise;
    const double tile =
        (tiles - edges) * tile_overhead(v, s, columns, slow, false) + edges * tile_overhead(v, s, columns, slow, true);
    const double bytes = chunks * keys * (s->d + s->dv) * s->element;
    const double copy = !copies ? 0 : s->wide ? chunks * keys * 36 : bytes;
    const bool tiled = f[F_ISA] == ISA_AMX;
    const double open = tiled ? opened_cycles(s) : s->once * (s->d + s->dv);
    const double key = tiled ? tiled_cycles(s) : s->once > 0 ? met_once_cycles(v, s) : key_cycles(s, cpu, columns, full);
    /* Pairs are for whole tiles: the keys of the last one are floats, if they are fewer. A launch may have fewer keys than its
     * plan. */
    const double rest = s->coupled >= 1 ? 0 : s->bk * key * ((int64_t)s->all % f[F_TILE_K] ? 1.5 : 0.25);
    const double compute = blocks * (keys * key + tile + rest) + chunks * keys * open + copy;
    /* The first rows of a chunk fetch a tile, and the others read it again. */
    const double again = s->wide ? (blocks - chunks) * keys * (s->d + s->dv) * s->element / IN_L2 : 0;
    const double memory = lateness(v, s, full == 0, pieces, cpu) * bytes / cache_rate(s, t, cpu) + again;
    const double all = larger(compute, memory) + 0.3 * (compute < memory ? compute : memory);
    /* Results of splits are joined. */
    const double splits = up(s->keys, f[F_SPLIT]) / f[F_SPLIT];
    const double ends = blocks * s->mr * splits * (s->costs->end + s->costs->end_vector * columns);
    const double units = (double)t->batch * t->kv_heads;
    if (t->threads < 2 || units >= ENOUGH * (double)t->threads)
        return shared_cycles(t, units, all + ends);
    return shared_cycles(t, units * chunks * splits, all / splits / chunks) + shared_cycles(t, units * chunks, ends / chunks);
}

/* ---- AMX ---- */

/* What a kernel multiplies. Queries and probabilities of f16 are two parts, and so are keys and values of f16. Keys in blocks are
 * two or three, values two, or one where outputs are bf16 (woven.sizes.t). Rows are whole tiles: those that are not are copied
 * before they are packed, and outputs afterwards. */
struct operands {
    double d, dv, parts, key_parts, value_parts;
    bool copied, copied_v;
};

static struct operands read_operands(const struct variant *v, const struct shape *s)
{
    const enum dtype kv = variant_dtype_kv(v);
    struct operands o = {.d = up(s->d, 32), .dv = up(s->dv, 16), .parts = v->field[F_DTYPE] == DTYPE_F16 ? 2 : 1};
    const bool blocks = kv == DTYPE_Q8_0 || kv == DTYPE_Q4_0;
    o.key_parts = s->half || blocks ? (kv == DTYPE_Q8_0 && o.parts > 1 ? 3 : 2) : 1;
    o.value_parts = s->half || (blocks && variant_dtype_o(v) != DTYPE_BF16) ? 2 : 1;
    o.copied = o.d > s->d;
    o.copied_v = o.dv > s->dv;
    return o;
}

/* Packing a KV head: parts are made element by element, and panels are written and read, from L3 if they do not fit into L2. */
static double pack_tiles_cycles(const struct shape *s, const struct operands *o, const struct cpu *cpu)
{
    const double keys = keys_seen(s), elements = up(keys, 64) * (o->d + o->dv);
    const double bytes = up(keys, 64) * 2 * (o->key_parts * o->d + o->value_parts * o->dv);
    const double row = (o->key_parts > 1 ? 32 : 8) * ((o->copied ? 1 : 0) + (o->copied_v ? 1 : 0));
    const double narrow = s->row > 0 ? s->row + s->widen * (o->d + o->dv) / 16 : 0;
    return elements * (o->key_parts > 1 ? 1.05 : 0.25) + keys * (row + narrow) + 2 * bytes / read_rate(cpu, bytes) + 1800;
}

/* What features take of a block of 64 keys: where a table reads its scores and changes them among products (INSIDE in
 * woven.sizes.t), in a pass over 128 vectors between trips of the pipeline, or in such a pass where there is no pipeline. After
 * timings on a Xeon at N = 1024 and 2048, in which a bias and a mask came from memory. */
static double changes_cycles(const struct variant *v, const struct shape *s)
{
    const int32_t *f = v->field;
    if (s->modify <= 0 || f[F_SPLIT])
        return s->modify > 0 ? 128 * (2 + s->modify / 2) : 0;
    const bool inside = f[F_TABLE] && !f[F_SERIAL] && !f[F_INVARIANT] && !(f[F_BIAS] && f[F_MASK]);
    const double read = (f[F_MASK] ? 250 : 0) + (f[F_BIAS] ? 260 * (double)dtype_size(variant_dtype_bias(v)) : 0);
    return read + (inside ? (f[F_SOFTCAP] ? 300 : 0) + (f[F_ALIBI] ? 80 : 0)
                          : 1100 + (f[F_SOFTCAP] ? 1600 : 0) + (f[F_ALIBI] ? 1000 : 0));
}

/* A group of 32 rows by a block of 64 keys. A product takes 16 cycles and waits for its tiles; of the exponentials, only the part
 * that products do not hide counts, where there is a pipeline. Constants are fitted to timings of the same 371 problems. */
static double block_cycles(const struct variant *v, const struct shape *s, const struct operands *o, bool alone)
{
    /* Scores are products of all parts, but for the third of keys under queries in bf16; outputs go without that of the lower ones.
     * Outputs are tiles while a block's values are multiplied: beyond four of 16 columns, and beyond eight, products wait. */
    const double columns = o->dv / 16, waits = 40 * larger(0, columns - 4) + 130 * larger(0, columns - 8);
    const double products =
        o->parts * o->key_parts * 8 * o->d / 32 + (o->value_parts + o->parts - 1) * 4 * columns + 4 * o->parts;
    const double exponentials = o->parts > 1 ? 1060 : v->field[F_TABLE] ? 620 : 900;
    /* Alone nothing hides latency. */
    const double modified = changes_cycles(v, s), latency = alone ? (o->parts > 1 ? 300 : 1300) : 0;
    return 18.6 * products + waits + exponentials + modified + latency;
}

/* Few queries meet keys of 16 bits in the same way, but for the pipeline: each block is packed once for all rows that share a KV
 * head, and split by split. */
static double few_tile_cycles(const struct variant *v, const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    const struct operands o = read_operands(v, s);
    const bool beside = !(v->field[F_BIAS] || v->field[F_MASK] || v->field[F_ALIBI]);
    const double groups = beside ? up(s->rows * s->group, 32) / 32 : s->group * up(s->rows, 32) / 32;
    const double chunks = up(groups * 32, s->bq) / s->bq, keys = up(s->keys, 64);
    /* A group of 16 rows has keys in bf16 where they lie, and half of everything else. */
    const bool across = beside && v->field[F_TABLE] && !s->half && s->modify == 0;
    const double halves = across ? up(s->rows * s->group, 16) / 16 : 2 * groups;
    const double element = o.key_parts > 1 ? 1.05 : 0.33, columns = (halves < 2 ? 0 : o.d) + o.dv;
    const double pack = element * columns + (o.copied ? 8 : 0) + (o.copied_v ? 8 : 0);
    const double compute = chunks * keys * pack + halves / 2 * keys / 64 * block_cycles(v, s, &o, true);
    const double memory = chunks * keys * (s->d + s->dv) * s->element / cache_rate(s, t, cpu);
    const double all = larger(compute, memory) + 0.3 * (compute < memory ? compute : memory);
    const double splits = up(s->keys, v->field[F_SPLIT]) / v->field[F_SPLIT];
    /* Groups are opened and closed row by row: short prompts take up to twice as long as by the other algorithm. */
    const double ends = groups * (9000 + splits * 6 * (o.dv + 32)), units = (double)t->batch * t->kv_heads;
    if (t->threads < 2 || units >= ENOUGH * (double)t->threads)
        return shared_cycles(t, units, all + ends);
    return shared_cycles(t, units * chunks * splits, all / splits / chunks) + shared_cycles(t, units * chunks, ends / chunks);
}

/* Groups of 32 rows by blocks of 64 keys. */
static double tile_cycles(const struct variant *v, const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    const struct operands o = read_operands(v, s);
    const double keys = up(s->keys, 64), groups = up(s->rows, 32) / 32, tiles = up(s->rows, s->bq) / s->bq;
    const double visited = keys / 64 + (v->field[F_CAUSAL] ? 0.5 : 0) + s->edges;
    const double block = block_cycles(v, s, &o, false);
    /* Keys and values that exceed half of L2 come from L3 for each tile of queries, and for each group where a tile of keys leaves
     * no room for the rest; three quarters of that hide. Queries and outputs of a tile of queries come again for each tile of keys
     * beside which they do not fit. */
    const double l2 = cpu->l2 ? (double)cpu->l2 : 2097152, l3 = maker_of(cpu)->l3_rate;
    const double key = 2 * (o.key_parts * o.d + o.value_parts * o.dv);
    /* A group meets all keys at once where these take no more than 1 MiB, and leaves the cache to the next. */
    const double bk = s->bk < keys && key * keys > 1048576 ? s->bk : keys, visits = up(keys, bk) / bk;
    const double tile = key * bk, far = keys_seen(s) * key > l2 / 2 ? tiles : 0;
    const double times = tile > 0.8 * l2 ? groups : far;
    const double own = visits > 1 ? (s->rows < s->bq ? up(s->rows, 32) : s->bq) * (2 * o.parts * o.d + 4 * o.dv) : 0;
    const double again = times * keys * key / (4 * l3) + (tile + own > 0.8 * l2 ? tiles * visits * own / l3 : 0);
    const double group = 300 + 10.6 * (o.d + o.dv) + 6 * o.dv * visits + (o.copied ? 150 : 0);
    const double row = (o.copied ? 30 : 0) + (o.copied_v ? 27 : 0);
    const double head = groups * (visited * block + group) + again + 1300 * tiles + row * s->rows;
    const double whole = s->rows < s->bq ? up(s->rows, 32) : s->bq, longest = head / groups * whole / 32;
    const struct unit u = {.pack = pack_tiles_cycles(s, &o, cpu), .bytes = key * s->all,
                           .tiles = tiles_of(s, t, tiles * s->group, head / tiles, longest)};
    return packed_cycles(t, &u);
}

double estimate_cycles(const struct variant *variant, const struct tune_target *target, const struct cpu *cpu)
{
    const struct shape s = read_shape(variant, target, cpu);
    const double heads = (double)target->batch * target->heads, threads = larger(1, target->threads);
    double cycles;
    if (variant->field[F_SPLIT] && variant->field[F_ISA] == ISA_AMX && !variant_is_narrow(variant))
        cycles = few_tile_cycles(variant, &s, target, cpu);
    else if (variant->field[F_SPLIT])
        cycles = split_cycles(variant, &s, target, cpu);
    else if (variant->field[F_ISA] == ISA_AMX)
        cycles = tile_cycles(variant, &s, target, cpu);
    else
        cycles = panel_cycles(&s, target, cpu);
    /* Under libtcc, plain C has no vectors and keeps every value in memory. */
    return cycles * threads / larger(1, heads) * (variant->field[F_ISA] == ISA_C ? 8 : 1);
}
