/* model.c - see model.h. Terms and constants follow measurements: tile products run at the rate of multiply-adds when
 * loads and latency hide behind them; softmax is most of the rest; caches come last. */
#include "model.h"

#include <string.h>

struct shape {
    double rows, keys; /* of one head; keys: the average number that a row sees */
    double d, dv, bq, bk, mr, nv, u;
    double lanes;    /* f32 lanes of a vector */
    double modify;   /* half-cycles that features take for a vector of scores */
    double edges;    /* tiles that a row meets beyond those that its keys fill, since a window begins inside a tile */
    double fma;      /* cycles of a vector's multiply-add */
    double products; /* elements of the inner dimension that one multiply-add takes, times its rate relative to FMA's */
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
    const int32_t *f = v->field;
    struct shape s = {.rows = (double)t->q_len,
                      .keys = average_keys(t),
                      .d = f[F_HEAD_DIM],
                      .bq = f[F_TILE_Q],
                      .bk = f[F_TILE_K],
                      .mr = f[F_ROWS],
                      .nv = f[F_VECS],
                      .u = f[F_UNROLL],
                      .products = 1};
    s.dv = variant_head_dim_v(v);
    s.lanes = f[F_ISA] == ISA_C ? 1 : isas[f[F_ISA]].lanes; /* libtcc makes no vector instructions from plain C */
    s.modify = (f[F_SOFTCAP] ? 30 : 0) + (f[F_BIAS] ? 4 : 0) + (f[F_MASK] ? 4 : 0) + (f[F_ALIBI] ? 4 : 0);
    s.edges = f[F_WINDOW] ? 1 : 0;
    s.fma = fma_cycles(cpu, (enum isa)f[F_ISA]);
    if (variant_in_pairs(v, (enum isa)f[F_ISA]))
        s.products = dot_rate(cpu);
    return s;
}

/* The cycles of one inner step of a tile product: its multiply-adds; two loads per cycle, of which a step needs NV
 * vectors and MR broadcasts; four cycles until an accumulator may be used again; the loop's own instructions. */
static double step_cycles(const struct shape *s)
{
    double fma = s->mr * s->nv * s->fma, loads = (s->mr + s->nv) / 2, latency = 4;
    return larger(fma, larger(loads, latency)) + 0.3 / s->u;
}

/* Bytes per cycle from memory, from L3 and from L2; and the cost of first making panels of keys and values: they are
 * read, written and read. */
enum { MEMORY = 6, IN_L3 = 16, IN_L2 = 48, PANELS = 3 };

/* For what is read again and again: L2 holds it if it takes at most half of L2; of L3, which is shared, an eighth
 * counts. */
static double read_rate(const struct cpu *cpu, double bytes)
{
    double l2 = cpu->l2 ? (double)cpu->l2 : 524288, l3 = (double)cpu->l3;
    return bytes <= l2 / 2 ? IN_L2 : bytes <= l3 / 8 ? IN_L3 : MEMORY;
}

static double cache_rate(const struct shape *s, const struct tune_target *t, const struct cpu *cpu, double element)
{
    return read_rate(cpu, (double)t->kv_len * (s->d + s->dv) * element * t->kv_heads * (double)t->batch);
}

/* The rows whose accumulators for a panel of values are in registers at once and go through it together (VR in
 * attn.sizes.t). */
static double rows_together(const struct shape *s)
{
    double room = s->lanes == 8 ? 13 : 29, together = 8;
    while (together > 1 && ((int)s->mr % (int)together != 0 || together * (s->nv + 1) > room))
        together /= 2;
    return together;
}

/* Kernels that split keys: the rows of all heads that share a KV head go through its keys together. The cycles of one
 * head. */
static double split_cycles(const struct shape *s, const struct tune_target *t, const struct cpu *cpu, double element)
{
    double group = t->kv_heads ? (double)t->heads / t->kv_heads : 1, latency = 4;
    double rows = up(s->rows * group, s->mr), chunks = up(s->rows * group, s->bq) / s->bq;
    double key = up(s->d, s->lanes) / s->lanes; /* vectors in a row */
    double load = element < 4 ? 1 : 0.5, together = rows_together(s),
           panels = up(s->dv, s->nv * s->lanes) / (s->nv * s->lanes);
    /* For MR rows and one key: queries come from memory, and a score is the sum across a vector, of which each halving
     * takes two shuffles. For a panel of values: they are loaded for every few rows, whose probabilities are
     * broadcast. */
    double score = key * larger(s->mr * s->fma / s->products, load + s->mr / 2) + (2 + 12 / s->lanes) * s->mr;
    double step = larger(together * s->nv * s->fma / s->products, larger(latency, s->nv * load + together / 2));
    double products = rows / s->mr * (score + panels * (s->mr / together) * step);
    double softmax = rows * (14 + s->modify) / s->lanes, tile = rows / s->mr * 200 / s->bk;
    double memory = chunks * (s->d + s->dv) * element / cache_rate(s, t, cpu, element);
    /* A tile is fetched while the previous one is computed: best if its keys, and its values, are one page. Rows read
     * in pieces are a little worse. */
    double page = s->bk * (s->d + s->dv) * element / 8192;
    if (s->dv > s->nv * s->lanes)
        memory *= 1.04;
    memory *= page > 2 ? 1.3 : page > 1 || page < 0.75 ? 1.15 : 1;
    double compute = products + softmax + tile, sum = compute + memory; /* overlapped, but not completely */
    double ends = 200 * chunks + rows * (20 + 2 * s->dv / s->lanes);    /* queries in, outputs merged and out */
    return (up(s->keys, s->bk) * (larger(compute, memory) + sum) / 2 + ends) / group;
}

/* Making panels of a head's keys and values: a transposition and a copy, which are written and read again. */
static double pack_cycles(const struct shape *s, const struct tune_target *t, const struct cpu *cpu, double element)
{
    double elements = (double)t->kv_len * (s->d + s->dv),
           panels = elements * 4 * (PANELS - 1) / read_rate(cpu, elements * 4);
    return elements * 2 / s->lanes + elements * element / cache_rate(s, t, cpu, element) + panels;
}

/* AMX tiles: groups of 32 rows by blocks of 64 keys. A product takes 16 cycles and waits for its tiles; of the
 * exponentials, only the part that products do not hide counts. Each group has its queries, states and outputs; the
 * keys and values of a head that exceed half of L2 are read again for each tile of queries. The cycles of one head. */
static double tile_cycles(const struct variant *v, const struct shape *s, const struct tune_target *t,
                          const struct cpu *cpu)
{
    double groups = up(s->rows, 32) / 32, visited = up(s->keys, 64) / 64 + (v->field[F_CAUSAL] ? 0.5 : 0) + s->edges;
    /* Queries and probabilities of f16 are two parts, and so are keys and values of f16. Keys in blocks are three and values two.
     * Scores are all products of parts; outputs go without that of the lower ones. */
    const enum dtype kv = variant_dtype_kv(v);
    const bool blocks = kv == DTYPE_Q8_0 || kv == DTYPE_Q4_0;
    const double parts = v->field[F_DTYPE] == DTYPE_F16 ? 2 : 1, key_parts = blocks ? 3 : kv == DTYPE_F16 ? 2 : 1;
    const double value_parts = key_parts > 1 ? 2 : 1;
    double products =
        parts * key_parts * 8 * up(s->d, 32) / 32 + (value_parts + parts - 1) * 4 * up(s->dv, 16) / 16 + 4 * parts;
    double block = 20 * products + (v->field[F_TABLE] ? 330 : 560);
    if (s->modify > 0) /* in a pass over 128 vectors, beside no product */
        block += 128 * (2 + s->modify / 2);
    double bytes = 2 * (key_parts * s->d + value_parts * s->dv), l2 = cpu->l2 ? (double)cpu->l2 : 2097152;
    if (bytes * (double)t->kv_len > l2 / 2)
        block += 64 * bytes * 32 / s->bq / 16;
    double group = t->kv_heads ? (double)t->heads / t->kv_heads : 1;
    double visits = up(s->keys, s->bk) / s->bk * 200;
    return groups * (visited * block + 1500 + 10 * (s->d + s->dv) + visits) + pack_cycles(s, t, cpu, 2) / group;
}

double estimate_cycles(const struct variant *variant, const struct tune_target *target, const struct cpu *cpu)
{
    struct shape s = read_shape(variant, target, cpu);
    double element = variant_dtype_kv(variant) == DTYPE_F32 ? 4 : 2;
    if (variant->field[F_SPLIT])
        return split_cycles(&s, target, cpu, element) * (variant->field[F_ISA] == ISA_C ? 8 : 1);
    if (variant->field[F_ISA] == ISA_AMX)
        return tile_cycles(variant, &s, target, cpu);
    double panel = s.nv * s.lanes;
    double rows = up(s.rows, s.mr), keys = up(s.keys, panel) + s.edges * s.bk / 2;
    double blocks = rows / s.mr;                      /* of MR rows */
    double tiles = up(s.keys, s.bk) / s.bk + s.edges; /* that a row meets */
    double l1 = cpu->l1d ? (double)cpu->l1d : 32768, l2 = cpu->l2 ? (double)cpu->l2 : 524288;

    double score = blocks * (keys / panel) * s.d * step_cycles(&s) / s.products;
    double value = blocks * (up(s.dv, panel) / panel) * keys * step_cycles(&s) / s.products;
    /* The value product goes through BK rows of V in a panel, again for each MR rows, beside its rows of P. */
    if (4 * (s.bk * panel + s.mr * s.bk) > l1)
        value *= 1.1;
    /* A tile of scores, its keys and values, and the rows of Q and O that stay: beyond half of L2 they come from L3. */
    if (4 * (s.bq * s.bk + (s.bk + s.bq) * (s.d + s.dv)) > l2 / 2)
        score *= 1.25, value *= 1.25;
    double softmax = rows * keys * (10 + s.modify / 2) / s.lanes; /* about 20 half-cycles for each vector of scores */
    double rescale = rows * tiles * (20 + 1.5 * s.dv / s.lanes);  /* maximum, sum and the output's rescaling for each
                                                                   * tile */
    double queries = up(s.rows, s.bq) / s.bq;
    double visits = queries * tiles * 200; /* the driver's own work */
    double group = target->kv_heads ? (double)target->heads / target->kv_heads : 1;
    double pack = pack_cycles(&s, target, cpu, element) / group;
    /* A tile of queries goes through all panels of its head; half of that hides behind the products. */
    double panels = 4 * keys * (s.d + s.dv),
           stream = panels > l2 / 2 ? queries * panels / read_rate(cpu, panels) / 2 : 0;
    double cycles = stream + score + value + softmax + rescale + visits + pack;
    /* Threads share out tiles of queries: fewer tiles than threads leave some idle, and a few more make others wait. */
    double shares = larger(1, (double)target->batch * target->heads) * queries;
    cycles *= up(shares, larger(1, target->threads)) / shares;
    /* Under libtcc, plain C has no vectors and keeps every value in memory. */
    return variant->field[F_ISA] == ISA_C ? 8 * cycles : cycles;
}
