/* model.c - see model.h. Terms and constants follow measurements: tile products run at the rate of multiply-adds when
 * loads and latency hide behind them; softmax is most of the rest; caches come last. */
#include "model.h"

#include <string.h>

#include "execute.h"

struct shape {
    double rows, keys, all; /* of one head; keys: the average number that a row sees, and all */
    double d, dv, bq, bk, mr, nv, u;
    double lanes;    /* f32 lanes of a vector */
    double modify;   /* half-cycles that features take for a vector of scores */
    double edges;    /* tiles that a row meets beyond those that its keys fill, since a window begins inside a tile */
    double fma;      /* cycles of a vector's multiply-add */
    double products; /* elements of the inner dimension that one multiply-add takes, times its rate relative to FMA's */
    double widen;    /* cycles in which a vector of keys or values becomes one of floats */
    double element;  /* bytes of a key's element */
    double row;      /* cycles of the calls that make a narrow key, and its value, floats before they are packed */
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

/* Products of pairs: AMD's and Arm's cores do as many of them as FMAs, Intel's a quarter as many: twice f32's rate, and half
 * of it. */
static double dot_rate(const struct cpu *cpu)
{
    return strstr(cpu->model, "AMD") || strstr(cpu->model, "AArch64") ? 2 : 0.5;
}

/* Two per cycle, but AMD's family 19h (Zen 4) does those of 512 bits in halves. */
static double fma_cycles(const struct cpu *cpu, enum isa isa)
{
    bool halves =
        (isa == ISA_AVX512 || isa == ISA_AVX512BF16) && strstr(cpu->model, "AMD") && strstr(cpu->model, " 19.");
    return halves ? 1 : 0.5;
}

static struct shape read_shape(const struct variant *v, const struct tune_target *t, const struct cpu *cpu)
{
    /* Of narrow types: a conversion of integers, of E4M3, and of blocks with their scales. */
    static const double widen[] = {[DTYPE_F32] = 0,  [DTYPE_F16] = 0.5, [DTYPE_BF16] = 0.5, [DTYPE_INT8] = 1,
                                   [DTYPE_FP8] = 2, [DTYPE_Q8_0] = 1.5, [DTYPE_Q4_0] = 2.5};
    const int32_t *f = v->field;
    const enum dtype kv = variant_dtype_kv(v);
    struct shape s = {.rows = (double)t->q_len,
                      .keys = average_keys(t),
                      .all = (double)t->kv_len,
                      .d = f[F_HEAD_DIM],
                      .bq = f[F_TILE_Q],
                      .bk = f[F_TILE_K],
                      .mr = f[F_ROWS],
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
    s.fma = fma_cycles(cpu, (enum isa)f[F_ISA]);
    if (variant_in_pairs(v, (enum isa)f[F_ISA]))
        s.products = dot_rate(cpu);
    return s;
}

/* ---- how work is shared out among threads, as runtime/cpu/execute.c and the kernels do it ---- */

/* The cycles until all threads have finished: a unit of work is a KV head of a sequence, which has so many tiles of queries and is
 * packed first: once and for all threads, or by each part of it. shares: these share as soon as units are fewer than threads. */
static double packed_cycles(const struct tune_target *t, double tiles, double tile, double pack, bool shares)
{
    const double units = (double)t->batch * t->kv_heads, threads = larger(1, t->threads);
    if (threads < 2)
        return units * (pack + tiles * tile);
    if ((shares ? units < threads : SHARERS * units <= threads) && tiles > 1) {
        const double all = units * tiles;
        return units * pack / threads + up(all, threads) / threads * tile;
    }
    double cuts = 1;
    if (units < ENOUGH * threads)
        cuts = units < threads ? up(ENOUGH * threads, units) / units : (int64_t)units % (int64_t)threads ? 2 : 1;
    cuts = cuts < tiles ? cuts : tiles;
    return up(units * cuts, threads) / threads * (pack + tiles / cuts * tile);
}

/* The same of so many pieces, each as long as the others. */
static double shared_cycles(const struct tune_target *t, double pieces, double piece)
{
    const double threads = larger(1, t->threads);
    return pieces < PARTS_A_THREAD * threads ? up(pieces, threads) / threads * piece : pieces / threads * piece;
}

/* ---- kernels that make panels of keys and values ---- */

/* The cycles of one inner step of a tile product for so many vectors: its multiply-adds; two loads per cycle, of which a step needs
 * these vectors and MR broadcasts; four cycles until an accumulator may be used again; the loop's own instructions. */
static double step_cycles(const struct shape *s, double vecs)
{
    double fma = s->mr * vecs * s->fma, loads = (s->mr + vecs) / 2, latency = 4;
    return larger(fma, larger(loads, latency)) + 0.3 / s->u;
}

/* The cycles of an exponential of a vector, with what else softmax does with it. */
static double exponential(const struct shape *s)
{
    return s->lanes > 8 ? 10 : 6;
}

/* Bytes per cycle from memory, from L3 and from L2. */
enum { MEMORY = 6, IN_L3 = 16, IN_L2 = 48 };

/* For what is read again and again: L2 holds it if it takes at most half of L2; of L3, which is shared, a quarter
 * counts. */
static double read_rate(const struct cpu *cpu, double bytes)
{
    double l2 = cpu->l2 ? (double)cpu->l2 : 524288, l3 = (double)cpu->l3;
    return bytes <= l2 / 2 ? IN_L2 : bytes <= l3 / 4 ? IN_L3 : MEMORY;
}

static double cache_rate(const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    return read_rate(cpu, s->all * (s->d + s->dv) * s->element * t->kv_heads * (double)t->batch);
}

/* Making panels of a KV head's keys and values: a transposition and a copy, which are written and read again. */
static double pack_cycles(const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    const double keys = s->edges > 0 && s->keys + s->rows < s->all ? s->keys + s->rows : s->all; /* that any row sees */
    const double elements = keys * (s->d + s->dv), panels = elements * 4 * 2 / read_rate(cpu, elements * 4);
    const double memory = elements * s->element / cache_rate(s, t, cpu) + panels; /* half of which hides behind the rest */
    return elements * (2 + s->widen) / s->lanes + keys * s->row + memory / 2;
}

/* A tile of queries of one head that has so many rows. Constants are fitted to 1,090 timings of kernels on Zen 3, of 60 problems:
 * products take 1.15 times their multiply-adds, a row costs 136 cycles once, a tile 1300, and each call of a micro-kernel 25. */
static double tile_of_queries(const struct shape *s, const struct cpu *cpu, double rows)
{
    const double l1 = cpu->l1d ? (double)cpu->l1d : 32768, l2 = cpu->l2 ? (double)cpu->l2 : 524288, panel = s->nv * s->lanes;
    const double padded = up(rows, s->mr), blocks = padded / s->mr; /* of MR rows */
    const double keys = up(s->keys, panel) + s->edges * s->bk / 2, tiles = up(s->keys, s->bk) / s->bk + s->edges;
    const double columns = up(s->dv, s->lanes) / s->lanes; /* vectors of them */
    const double full = (double)(int64_t)((columns - 1) / s->nv), last = columns - full * s->nv;
    const double score = keys / panel * s->d * step_cycles(s, s->nv);
    /* The value product goes through BK rows of V in a panel, again for each MR rows, beside its rows of P. */
    const double far = 4 * s->bk * (panel + s->mr) > l1 ? 1.1 : 1;
    const double value = far * keys * (full * step_cycles(s, s->nv) + step_cycles(s, last));
    const double softmax = s->mr * keys * (exponential(s) + s->modify / 2) / s->lanes;
    /* For each tile of keys: calls, maxima and sums, and the outputs that are loaded, scaled and stored. */
    const double visit = 25 * (4 + full) + 1.5 * s->mr * columns, scores = s->mr * keys / s->lanes; /* which are stored */
    /* Panels come from the next cache for each tile of queries, most of which hides behind products; and for each block of rows,
     * beside queries and outputs, where a tile of keys does not fit. */
    const double bytes = 4 * keys * (s->d + s->dv), tile = 4 * s->bk * (s->d + s->dv);
    const double again = (bytes > 0.8 * l2 ? bytes : 0) + (tile > 0.8 * l2 ? blocks * bytes : 0) +
                         (tile + 4 * rows * (s->d + s->dv) > 0.9 * l2 ? 4 * tiles * rows * (s->d + 2 * s->dv) : 0);
    return blocks * (1.15 * (score + value) / s->products + softmax + scores + tiles * visit) + again / (2 * IN_L3) +
           136 * rows + 1300;
}

/* For one head. */
static double panel_cycles(const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    const double whole = (double)(int64_t)(s->rows / s->bq), rest = s->rows - whole * s->bq;
    const double tiles = whole + (rest > 0 ? 1 : 0);
    const double rows = whole * tile_of_queries(s, cpu, s->bq) + (rest > 0 ? tile_of_queries(s, cpu, rest) : 0);
    const double group = t->kv_heads ? (double)t->heads / t->kv_heads : 1;
    return packed_cycles(t, tiles * group, rows / tiles, pack_cycles(s, t, cpu), false);
}

/* ---- kernels that split keys ---- */

/* The rows whose accumulators for a panel of values are in registers at once and go through it together (VR in
 * attn.sizes.t). */
static double rows_together(const struct shape *s)
{
    double room = s->lanes == 8 ? 13 : 29, together = 8;
    while (together > 1 && ((int)s->mr % (int)together != 0 || together * (s->nv + 1) > room))
        together /= 2;
    return together;
}

/* MR rows and one key: queries come from memory, but for a few vectors that stay in registers, and a score is the sum across a
 * vector, which is a matter of shuffles, of which Intel's cores do one a cycle. Values are loaded for every few rows, whose
 * probabilities are broadcast. */
static double key_cycles(const struct shape *s, double columns, double full)
{
    const double latency = 4, key = up(s->d, s->lanes) / s->lanes, registers = s->lanes == 8 ? 16 : 32;
    const double room = s->lanes < 4 ? 0 : (double)(int64_t)((registers - s->lanes - 4) / s->mr);
    const double held = room < key ? larger(room, 0) : key;
    const double score = held * s->mr * s->fma + (key - held) * larger(s->mr * s->fma, (1 + s->mr) / 2);
    const double together = rows_together(s), last = columns - full * s->nv;
    const double panel = larger(together * s->nv * s->fma, larger(latency, (s->nv + together) / 2));
    const double rest = larger(together * last * s->fma, larger(latency, (last + together) / 2));
    const double value = s->mr / together * (full * panel + rest);
    const double sum = s->lanes > 8 ? 2 * (s->lanes - 1) : s->lanes / 2;
    return 1.15 * (score + value) / s->products + s->widen * (key + columns * s->mr / together) +
           s->mr / s->lanes * (exponential(s) + sum + s->modify / 2);
}

/* What else a tile costs, for MR rows. What is not a tile that all rows see whole is done by C that libtcc makes: features, and
 * where rows do not see all, which keys each lane sees. A bias or mask of several rows is brought into order number by number. */
static double tile_overhead(const struct variant *v, const struct shape *s, double columns, bool slow, bool edge)
{
    const double each = s->mr > 1 ? 8 : 1, numbers = each * ((v->field[F_BIAS] ? 1 : 0) + (v->field[F_MASK] ? 1 : 0));
    const double scales = dtypes[variant_dtype_kv(v)].scaled ? 6 : 0;
    return 35 + 2 * s->mr * columns + (slow || edge ? 220 : 0) + (edge ? 570 : 0) + s->bk * (s->mr * numbers + scales);
}

/* The rows of all heads that share a KV head go through its keys together, a chunk of BQ rows through all keys that any of them
 * sees. Constants are fitted to 911 timings of the same problems. */
static double split_cycles(const struct variant *v, const struct shape *s, const struct tune_target *t, const struct cpu *cpu)
{
    const int32_t *f = v->field;
    const int lanes = (int)s->lanes, pair = variant_in_pairs(v, (enum isa)f[F_ISA]) ? 2 : 1;
    const double group = t->kv_heads ? (double)t->heads / t->kv_heads : 1, rows = s->rows * group;
    const double chunks = up(rows, s->bq) / s->bq, blocks = up(rows, s->mr) / s->mr;
    const double span = (s->rows < s->bq ? s->rows : s->bq) - 1, seen = s->keys + (f[F_WINDOW] ? span : f[F_CAUSAL] ? span / 2 : 0);
    const double keys = up(seen < s->all ? seen : s->all, s->bk) + s->edges * s->bk / 2, tiles = keys / s->bk;
    const double cut = (f[F_WINDOW] ? 2 : f[F_CAUSAL] ? 1 : 0) * (span / s->bk + 1), edges = cut < tiles ? cut : tiles;
    const double columns = up(s->dv, s->lanes) / s->lanes, full = (double)(int64_t)((columns - 1) / s->nv);
    /* Rows that are not whole vectors, and tiles in several pages, are copied. */
    const bool copies = (f[F_PAGED] && s->bk > TYPICAL_PAGE) || (int)s->d % (lanes * pair) || (int)s->dv % lanes;
    const bool slow = copies || f[F_PAGED] || variant_modifies(v) || (full + 1) * s->mr / rows_together(s) > 8;
    const double tile = (tiles - edges) * tile_overhead(v, s, columns, slow, false) +
                        edges * tile_overhead(v, s, columns, slow, true);
    const double bytes = chunks * keys * (s->d + s->dv) * s->element;
    const double compute = blocks * (keys * key_cycles(s, columns, full) + tile) + (copies ? bytes : 0);
    /* A tile is fetched while the one before it is computed: keys, and values, of more than a page are late. So are, by a little,
     * rows that are read in pieces. */
    const double page = s->bk * (s->d + s->dv) * s->element / 8192;
    const double late = (page > 2 ? 1.3 : page > 1 ? 1.15 : 1) * (full > 0 ? 1.04 : 1);
    const double memory = late * bytes / cache_rate(s, t, cpu);
    const double all = larger(compute, memory) + 0.3 * (compute < memory ? compute : memory);
    /* Results of splits are joined. */
    const double splits = up(s->keys, f[F_SPLIT]) / f[F_SPLIT], ends = blocks * s->mr * 210 * splits * (1 + columns / 8);
    const double units = (double)t->batch * t->kv_heads;
    if (t->threads < 2 || units >= ENOUGH * (double)t->threads)
        return shared_cycles(t, units, all + ends);
    return shared_cycles(t, units * chunks * splits, all / splits / chunks) + shared_cycles(t, units * chunks, ends / chunks);
}

/* AMX tiles: groups of 32 rows by blocks of 64 keys. A product takes 16 cycles and waits for its tiles; of the
 * exponentials, only the part that products do not hide counts. Each group has its queries, states and outputs; the
 * keys and values of a head that exceed half of L2 are read again for each tile of queries. */
static double tile_cycles(const struct variant *v, const struct shape *s, const struct tune_target *t,
                          const struct cpu *cpu)
{
    double groups = up(s->rows, 32) / 32, visited = up(s->keys, 64) / 64 + (v->field[F_CAUSAL] ? 0.5 : 0) + s->edges;
    /* Queries and probabilities of f16 are two parts, and so are keys and values of f16. Keys in blocks are two or three, values
     * two, or one where outputs are bf16 (woven.sizes.t). Scores are products of all parts, but for the third of keys under queries
     * in bf16; outputs go without that of the lower ones. */
    const enum dtype kv = variant_dtype_kv(v);
    const bool blocks = kv == DTYPE_Q8_0 || kv == DTYPE_Q4_0;
    const double parts = v->field[F_DTYPE] == DTYPE_F16 ? 2 : 1;
    const double key_parts = kv == DTYPE_F16 || blocks ? (kv == DTYPE_Q8_0 && parts > 1 ? 3 : 2) : 1;
    const double value_parts = kv == DTYPE_F16 || (blocks && variant_dtype_o(v) != DTYPE_BF16) ? 2 : 1;
    double products =
        parts * key_parts * 8 * up(s->d, 32) / 32 + (value_parts + parts - 1) * 4 * up(s->dv, 16) / 16 + 4 * parts;
    double block = 20 * products + (v->field[F_TABLE] ? 330 : 560);
    if (s->modify > 0) /* in a pass over 128 vectors, beside no product */
        block += 128 * (2 + s->modify / 2);
    double bytes = 2 * (key_parts * s->d + value_parts * s->dv), l2 = cpu->l2 ? (double)cpu->l2 : 2097152;
    if (bytes * (double)t->kv_len > l2 / 2)
        block += 64 * bytes * 32 / s->bq / 16;
    const double group = t->kv_heads ? (double)t->heads / t->kv_heads : 1, tiles = up(s->rows, s->bq) / s->bq;
    const double visits = up(s->keys, s->bk) / s->bk * 200;
    const double head = groups * (visited * block + 1500 + 10 * (s->d + s->dv) + visits) + 136 * s->rows + 1300 * tiles;
    return packed_cycles(t, tiles * group, head / tiles, pack_cycles(s, t, cpu), true);
}

double estimate_cycles(const struct variant *variant, const struct tune_target *target, const struct cpu *cpu)
{
    const struct shape s = read_shape(variant, target, cpu);
    const double heads = (double)target->batch * target->heads, threads = larger(1, target->threads);
    double cycles;
    if (variant->field[F_SPLIT])
        cycles = split_cycles(variant, &s, target, cpu);
    else if (variant->field[F_ISA] == ISA_AMX)
        cycles = tile_cycles(variant, &s, target, cpu);
    else
        cycles = panel_cycles(&s, target, cpu);
    /* Under libtcc, plain C has no vectors and keeps every value in memory. */
    return cycles * threads / larger(1, heads) * (variant->field[F_ISA] == ISA_C ? 8 : 1);
}
