/* model.c - see model.h. */
#include "model.h"

#include "numerics/reference.h"

struct shape {
    double rows, keys, d, dv; /* of one head; keys: the average number that a row sees */
    double bq, bk, mr, nv, gq, gx, vw, items, turns, blocks, cv;
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

static struct shape read_shape(const struct variant *v, const struct tune_target *t)
{
    const int32_t *f = v->field;
    struct shape s = {.rows = (double)t->q_len,
                      .keys = (double)t->kv_len,
                      .d = variant_head_dim(v),
                      .dv = variant_head_dim_v(v),
                      .bq = f[F_TILE_Q],
                      .bk = f[F_TILE_K],
                      .mr = f[F_ROWS],
                      .nv = f[F_VECS],
                      .gq = f[F_GROUP_ROWS],
                      .gx = f[F_GROUP_LANES],
                      .vw = f[F_VECTOR]};
    if (v->field[F_CAUSAL]) /* bottom-right: the last row sees all */
        s.keys = s.rows <= s.keys ? s.keys - (s.rows - 1) / 2 : s.keys * (s.keys + 1) / 2 / s.rows;
    if (v->field[F_WINDOW] && s.keys > (double)target_window(t)) /* and half a tile at each end that is masked */
        s.keys = (double)target_window(t) + s.bk;
    s.items = s.gq * s.gx;
    s.turns = larger(s.bq / (s.gq * s.mr), 1);
    s.blocks = larger(s.bk / (s.gx * s.nv * s.vw), 1);
    s.cv = up(s.dv, s.gx * s.vw) / (s.gx * s.vw);
    return s;
}

/* The cycles of a processor's core for a step of the tile products on MR rows and NV vectors. Vectors that do not fit
 * into its registers are operands in memory, and those of a tile larger than its first cache arrive at one line per
 * cycle at best. */
static double cpu_step(const struct shape *s, double vecs, double tile)
{
    double native = 16, parts = up(s->vw, native) / native; /* a vector narrower than the core's costs as much */
    double fma = s->mr * vecs * parts / 2, loads = (s->mr + vecs * parts) / 2, latency = 4;
    double spills = larger(s->mr * vecs * parts + vecs * parts - 30, 0) / 2;
    return larger(fma, larger(loads, latency)) + spills + (tile > 8192 ? vecs * parts / 2 : 0);
}

/* A driver runs the work-items of a group one after another on one core; what they hold across barriers goes through
 * memory. */
static double cpu_cycles(const struct shape *s)
{
    double tiles = up(s->keys, s->bk) / s->bk, queries = up(s->rows, s->bq) / s->bq;
    double across = s->items > 1 ? 4 : 1, vecs = s->cv < 4 ? s->cv : 4;
    double score = s->turns * s->items * s->blocks * s->d * cpu_step(s, s->nv, s->bk * s->d);
    double value = s->turns * s->items * s->bk * cpu_step(s, vecs, s->bk * s->dv) * s->cv / vecs;
    double softmax = s->bq * s->bk * 20 / larger(s->vw, 4);
    double rescale = s->turns * s->items * s->mr * (3 * s->cv + 40); /* maximum, sum, rescaling for each row */
    double move = s->bk * (s->d + s->dv) * 1.5;                      /* to local memory, with K transposed */
    return queries * tiles * (across * (score + value + softmax + rescale) + move + 500);
}

/* How many groups a multiprocessor with 65536 registers holds at once, by registers and local memory; at least one. */
static double gpu_groups(const struct shape *s, const struct gpu_device *d, double held)
{
    double local = 4 * (s->turns > 1 ? s->bk * (s->d + s->dv) : s->bk * (s->d < 64 ? s->d : 64));
    /* NVIDIA lets a group have 48 KiB, and has 64 to 228 KiB for all of them together. */
    double room = (double)d->local_bytes * (d->nvidia ? 3 : 1);
    double by_local = room / (local + 4 * s->gq * s->mr * (s->bk + s->gx));
    double by_registers = 65536 / (up(held < 255 ? held : 255, 8) * up(s->items, 32));
    double groups = by_local < by_registers ? by_local : by_registers;
    return groups < 1 ? 1 : groups > 16 ? 16 : (double)(int64_t)groups;
}

/* The cycles of a multiprocessor with 128 lanes, four times 32. What the 32 items of a warp share is read once, at 128
 * bytes per cycle. Resident groups hide each other's waits for barriers and memory. */
static double gpu_cycles(const struct shape *s, const struct gpu_device *d)
{
    double tiles = up(s->keys, s->bk) / s->bk, queries = up(s->rows, s->bq) / s->bq;
    double warps = up(s->items, 32) / 32, x = s->gx < 32 ? s->gx : 32, y = 32 / x, wide = s->nv * s->vw;
    /* 8 bytes for each item and cycle at most. Narrow vectors also need more instructions: q64k32_r4x2u4_w2 takes 1.26
     * times as long as q64k64_r4x2u4 on an H200 at D = 128. */
    double load = larger(x * s->vw / 32, s->vw / 2 + 1);
    double score = s->blocks * s->d * (s->mr * wide / 4 + load * s->nv + y * s->mr / 32);
    double value = s->bk * (s->mr * s->cv * s->vw / 4 + load * s->cv + y * s->mr / 32);
    double softmax = s->blocks * s->mr * wide * 5;
    double rescale = s->mr * (s->cv * s->vw + 2 * s->gx + 80) / 4; /* maximum across the lanes, rescaling */
    double move = s->bk * (s->d + s->dv) / 32;
    double held = s->turns * s->mr * s->cv * s->vw + s->mr * wide * s->blocks + wide + 40;
    /* This counts only data: addresses and what the compiler has in flight take about 30 of the 255 registers that an
     * item can have. On an H200 at D = 128, q64k64_r8x2u4_g8 (240 here) takes 1.26 times as long as r4x2u4 (144). */
    double spills = held > 224 ? 1 + (held - 224) / 50 : 1;
    double groups = gpu_groups(s, d, held);
    /* Filling local memory waits for device memory and at two barriers; a turn waits at three. */
    double fills = s->turns > 1 ? 1 : up(s->d, 64) / 64 + larger(up(s->dv, 64) / 64, 1);
    double wait = (fills * 700 + s->turns * 300) / groups;
    double there = warps * groups; /* with fewer than 16 warps the lanes are sometimes idle */
    double busy = (there < 16 ? 1 + (16 - there) / 32 : 1) * (there < 4 ? 4 / there : 1);
    /* What is indexed by the turn is not in registers. */
    double memory = s->turns > 1 ? 2 : 1;
    double work = s->turns * warps * (score + value + softmax + rescale) * memory * spills;
    return queries * tiles * ((work + move) * busy + wait);
}

/* The cycles that a softcap takes of a score; and all that the softmax does. */
static double hopper_cap(const struct variant *v)
{
    return v->field[F_SOFTCAP] ? 0.2 : 0;
}

static double hopper_score(const struct variant *v)
{
    return 1 / 11.8 + hopper_cap(v);
}

/* The cycles of a Hopper multiprocessor for one tile of keys of wide heads (see templates/opencl/sm90.shares.t). The scores of
 * 32 keys read shared memory half as long again as they multiply. Values that are narrower than keys are taken to lie in them:
 * such a tile is worked out, and not fitted to measured times; L2 delivers 30 bytes per cycle. Where values lie elsewhere,
 * shares of what is not hidden are fitted to prompts of 4096 tokens on an H200, D = 320, 512 and 576. */
static double hopper_wide_step(const struct variant *v, const struct shape *s)
{
    const int32_t *f = v->field;
    const bool inside = s->dv < s->d, single = f[F_STAGES] < 2;
    const double scores = 2 * s->bq * s->bk * up(s->d, 16) / 4096 * (f[F_TILE_K] < 64 ? 1.5 : 1);
    const double product = scores + 2 * s->bq * s->bk * up(s->dv, 8) / 4096, capped = hopper_cap(v) * 64 * s->bk;
    const double softmax =
        64 * s->bk / 6 + 100 + capped + (f[F_LAZY] ? 0.3 : 1) * 64 * (s->dv > 256 ? s->dv / 2 : s->dv) / 128;
    const double load = s->bk * 2 * (inside ? s->d : s->d + s->dv) / 30, late = larger(load - product, 0);
    if (inside && f[F_SERIAL])
        return larger(product + softmax, load);
    if (inside)
        return single ? product + larger(softmax, load) : larger(product + 0.3 * softmax, load);
    if (f[F_SERIAL])
        return product + softmax + (single ? 0.5 * late : 0);
    return product + (single ? 0.27 * late + 0.3 * capped : 0.3 * softmax);
}

/* The cycles of a Hopper multiprocessor in which the keys and values of a tile, so many narrow numbers, become f16, as
 * measured on an H200: by warps that put them into shared memory, and have fewer registers beside two warpgroups; or by each warp
 * for itself, products and softmax of a few queries included, in 1.6 times the time where they are in blocks. 0: they need not. */
static double hopper_widening(const struct variant *v, double numbers)
{
    const int32_t q = v->field[F_TILE_Q];
    if (!variant_is_narrow(v) || v->field[F_WIDENED])
        return 0;
    if (q == 16)
        return numbers / (v->field[F_TILE_K] < 128 ? 24 : 34) * (variant_has_blocks(v) ? 1.6 : 1) + 600 -
               (v->field[F_LAZY] ? variant_head_dim_v(v) / 2 : 0);
    return numbers / (q == 64 ? 9 : 6.5);
}

/* The cycles in which so many work-groups widen the keys and values of a launch once, as measured on an H200: three warps of each
 * widen 4.8 numbers per cycle, or twice as many beside the single warpgroup of 64 queries. Of blocks it is 3.75; there a work-item
 * has every twelfth row, and tiles of fewer than 96 keys took half as long again beside two warpgroups and queries in bf16. All of
 * that time is added to that of products, although prompts of 8192 tokens hide a part of it; those of 1024 hide none. */
static double hopper_widening_once(const struct variant *v, const struct tune_target *t, double groups)
{
    const int32_t *f = v->field;
    const double numbers = (double)t->batch * t->kv_heads * (double)t->kv_len * (variant_head_dim(v) + variant_head_dim_v(v));
    const bool small = f[F_TILE_K] < 96 && f[F_TILE_Q] == 128 && f[F_DTYPE] == DTYPE_BF16;
    const double of_blocks = 3.75 * f[F_TILE_K] / up(f[F_TILE_K], 12) * (small ? 0.67 : 1);
    const double rate = (variant_has_blocks(v) ? of_blocks : 4.8) * (f[F_TILE_Q] == 64 ? 2 : 1);
    return f[F_WIDENED] ? numbers / (groups * rate) + 5000 : 0;
}

/* How many times as long a step of three warpgroups takes over pages, beside one of two, as measured on an H200 at D = 64 and 128
 * with pages of 16 rows. */
static double hopper_asking(const struct variant *v, const struct shape *s)
{
    return v->field[F_PAGED] && !v->field[F_WIDENED] && s->bq == 192 && s->dv <= 64 ? 1.1 : 1;
}

/* What goes on beside something else hides most of it. */
static double beside(double a, double b)
{
    return a > b ? a + 0.1 * b : b + 0.1 * a;
}

/* The cycles of a Hopper multiprocessor for one head, as measured on an H200: the tensor cores do 4096 flops per cycle;
 * exponentials and the rest of the softmax take 1/12 cycle for each score (a softcap adds 1/5), of which only a share
 * is not hidden; a step costs 330 cycles, a masked one 250 more, and the change to the next tile 1500. */
static double hopper_cycles(const struct variant *v, const struct tune_target *t)
{
    const int32_t *f = v->field;
    const struct shape s = read_shape(v, t);
    const double heads = (double)t->heads * (double)t->batch, units = t->threads > 0 ? t->threads : 1;
    const double queries = up(s.rows, s.bq) / s.bq,
                 across = f[F_TILE_Q] % f[F_TILE_K] ? 0.5 : 0; /* without the tiles at the edges */
    const bool edged = f[F_CAUSAL] || f[F_WINDOW];
    const double masked = edged ? (s.bq / s.bk + 2 * across) * (f[F_WINDOW] ? 2 : 1) : 0.5;
    const double steps = edged ? (s.keys + s.bq / 2) / s.bk + across : up(s.keys, s.bk) / s.bk;
    /* Beside queries in f16 values, or probabilities times their scales, are two numbers; and so are keys in blocks. */
    const double parts = variant_is_narrow(v) && f[F_DTYPE] == DTYPE_F16 ? 2 : 1;
    const double of_key = variant_has_blocks(v) ? 2 : 1;
    const double product = 2 * s.bq * s.bk * (of_key * up(s.d, 16) + parts * up(s.dv, 8)) / 4096;
    const double softmax = s.bq * s.bk * hopper_score(v) + (f[F_LAZY] ? 0.3 : 1) * s.bq * s.dv / 128;
    const double seen = s.bq == 64 ? 1 : s.bq == 192 ? 0.1 : f[F_PINGPONG] ? 0.25 : 0.3; /* share not hidden */
    const double shorter = product < softmax ? product : softmax, wait = f[F_STAGES] < 2 ? 600 : 0;
    const double step = variant_is_wide(v) ? hopper_wide_step(v, &s) : larger(product, softmax) + seen * shorter + wait;
    const double widening = hopper_widening(v, s.bk * (s.d + s.dv));
    const double one = widening > 0 ? beside(step + 330, widening) : (step + 330) * hopper_asking(v, &s);
    const double ends = masked * 250 + 1500;
    const double waves = up(queries * heads, units) / (queries * heads); /* the last round leaves units idle */
    /* Nothing ends before the tile of a head's last rows, which in a causal run has all keys and not the average. */
    const double longest = f[F_CAUSAL] && !f[F_WINDOW] ? up((double)t->kv_len, s.bk) / s.bk * one + ends : 0;
    const double all = larger(queries * (steps * one + ends) * waves, longest * units / heads);
    const double groups = queries * heads < units ? queries * heads : units;
    return all + hopper_widening_once(v, t, groups) * units / heads;
}

/* Memory hides what is computed meanwhile, or the reverse; of those that wait for memory alike, the one with less to compute is
 * better, since keys that L2 holds arrive faster. Seen with f16 and bf16 up to D = 256, and where each warp widens keys of its own
 * at D = 128 and 256. */
static double over(const struct variant *v, double compute, double memory)
{
    const double seen = v->field[F_TILE_Q] == 16 ? 0.1 : variant_is_narrow(v) || variant_is_wide(v) ? 0 : 0.02;
    return larger(compute, memory) + seen * (compute < memory ? compute : memory);
}

/* The bytes of one number of K and V, with what a block has beside its numbers. */
static double kv_bytes(const struct variant *v)
{
    const enum dtype t = variant_dtype_kv(v);
    return (double)dtype_size(t) / dtype_values(t);
}

/* What becomes of the rows of all heads that share a KV head where a slice has room for so many: it holds the rows of as many
 * heads as fit as a whole, or a part of those of one. */
struct slices {
    double count, rows; /* of a KV head; in each of them */
};

static struct slices cut_rows(const struct shape *s, const struct tune_target *t, double room)
{
    const double group = target_group(t), rows = s->rows < room ? larger(s->rows, 1) : room;
    const double fit = (double)(int64_t)(room / rows), heads = fit < group ? fit : group;
    return (struct slices){.count = up(s->rows, room) / room * up(group, heads) / heads, .rows = rows * heads};
}

/* The same if keys are split: a unit of work is a tile of rows, of all heads that share a KV head, and some keys.
 * Memory gives all units together 2500 bytes per cycle, one of them at most 64, or 20 if it is in pages, and each tile arrives
 * 1400 cycles after it was requested. */
static double hopper_split_cycles(const struct variant *v, const struct tune_target *t)
{
    const int32_t *f = v->field;
    const struct shape s = read_shape(v, t);
    const double slice = s.bq < 64 ? s.bq : 64;
    const double units = t->threads > 0 ? t->threads : 1, split = f[F_SPLIT];
    const double tiles = up(cut_rows(&s, t, slice).count * slice, s.bq) / s.bq;
    /* In a causal run the last rows, which have all keys, are the last to end. */
    const double keys = f[F_CAUSAL] && !f[F_WINDOW] ? (double)t->kv_len : s.keys;
    const double splits = up(keys, split) / split, steps = up(keys < split ? keys : split, s.bk) / s.bk;
    const double all = tiles * splits * (double)t->batch * t->heads / target_group(t), busy = all < units ? all : units;
    const double product = 2 * s.bq * s.bk * (up(s.d, 16) + up(s.dv, 8)) / 4096;
    const double softmax = s.bq * s.bk * hopper_score(v) + (f[F_LAZY] ? 0.3 : 1) * s.bq * s.dv / 128;
    const double bytes = s.bk * (s.d + s.dv) * kv_bytes(v), widening = hopper_widening(v, s.bk * (s.d + s.dv));
    /* Several tiles of rows took 1.15 to 1.55 times as long as without splits where heads are wide. */
    const double wide = (variant_is_wide(v) ? hopper_wide_step(v, &s) * (tiles > 2 ? 1.2 : 1) : product + softmax) + 330;
    /* On an H200 two such kernels took 1.07 and 1.56 ms; without the factor this would add up to 0.82 and 1.22 ms. */
    const double compute = s.bq < 64 ? widening : widening > 0 ? 1.3 * beside(wide, widening) : wide;
    const double deepest = 1 + 0.005 / f[F_STAGES]; /* of those that are equally good */
    const double rate = f[F_PAGED] && !variant_is_wide(v) ? 20 : 64, alone = larger(bytes / rate, 1400.0 / f[F_STAGES]) * deepest;
    const double memory = larger(alone, bytes * busy / tiles / 2500 * deepest);
    /* The result of a split is written, counted and waited for. */
    const double left = splits > 1 ? 8000 : 0;
    const double unit = steps * over(v, compute, memory) + 1500 + left;
    /* Units of the last turn share memory among themselves, but compute as long as others; of a problem that stands for larger ones
     * it is not known how many there are. */
    const double turns = up(all, units) / units, rest = all - (turns - 1) * units;
    const double late = over(v, compute, larger(alone, bytes * (rest < units ? rest : units) / tiles / 2500 * deepest));
    const double last = turns > 1 ? (steps * late + 1500 + left) / unit : 1;
    const double waves = target_stands_for_more(t) && turns > 1 ? all / units + 0.1 : turns - 1 + last;
    return unit * waves * units / ((double)t->batch * t->heads);
}

/* Whether all warps of a group of isa sm80 widen narrow keys and values together, to shared memory; else each does so for itself,
 * in registers (templates/opencl/sm80.sizes.t). */
static bool ampere_widens(const struct variant *v)
{
    return variant_is_narrow(v) && v->field[F_TILE_Q] >= 4 * v->field[F_ROWS];
}

/* Whether narrow keys and values are put into boxes after they were copied: blocks and rows that begin anywhere are, too. */
static bool ampere_settles(const struct variant *v)
{
    return variant_is_narrow(v) &&
           (ampere_widens(v) || variant_has_blocks(v) || v->field[F_COPY] == COPY_ANY);
}

/* The cycles in which a group of isa sm80 widens a tile of so many narrow numbers: two instructions per cycle, of which four
 * numbers of each of 32 lanes take five, or twelve where E4M3 is widened bit by bit; and four more, and two barriers, where they go
 * through shared memory. These numbers were worked out, and not measured. */
static double ampere_widening(const struct variant *v, double numbers, double warps)
{
    if (!variant_is_narrow(v))
        return 0;
    const double each = variant_dtype_kv(v) == DTYPE_FP8 ? 12 : 5, moved = ampere_settles(v) ? 4 : 0;
    return numbers / 128 / 2 * (each * (ampere_widens(v) ? 1 : warps) + moved) + (moved > 0 ? 300 : 0);
}

/* The cycles in which a group of isa sm80 makes two of f16 of each of so many numbers of f32: by what was measured with 128 and
 * 64 queries beside each other. With three stages half of the warps multiply meanwhile. */
static double ampere_folding(const struct variant *v, double numbers)
{
    return v->field[F_DTYPE] == DTYPE_F32 ? (v->field[F_STAGES] > 2 ? 0.12 : 0.16) * numbers : 0;
}

/* How long a group of isa sm80 that splits keys in f32 takes for a tile where it is alone. A warp makes f16 of 128 numbers in 94
 * cycles, and multiplies a tile of 32 keys, D = 128, in 3740, as kernels with one and with two warps show. */
static double ampere_alone(const struct variant *v, const struct shape *s, double warps)
{
    const double folding = 94 * s->bk * (s->d + s->dv) / 128 / warps, products = 0.457 * s->bk * (s->d + s->dv) * s->mr / 16;
    return folding + products + (v->field[F_STAGES] > 2 ? 0 : 1400);
}

/* What a group of isa sm80 takes of its multiprocessor: how many groups there is room for, and the cycles of its products and of
 * its softmax for a tile of keys. 2540 flops per cycle, as measured on an H200; each warp reads all keys and values, at 128 bytes
 * per cycle. Over blocks a score is multiplied by the scale of each block of its key, and a probability by those of its value: 34
 * such products per cycle, by the times of prompts of 1024 and 4096 tokens and of a chunk there. Numbers of f32 are two of f16, and
 * products of them three, which take 1.6 times what that makes, since there are registers for eight warps alone; 1.75 times where a
 * warp has two fragments, at D = 128. */
struct ampere_group {
    double groups, warps, product, softmax;
};

static struct ampere_group ampere_group(const struct variant *v, const struct shape *s, const struct gpu_device *d)
{
    const int32_t *f = v->field;
    const bool is_f32 = f[F_DTYPE] == DTYPE_F32;
    const double parts = is_f32 ? 2 : 1, products = is_f32 ? 3 * (s->mr > 16 ? 1.75 : 1.6) : 1;
    const double warps = s->bq / s->mr, flops = 2 * (up(s->d, 16) + up(s->dv, 16)), row = parts * flops;
    const double held = s->mr / 16 * ((s->dv + s->bk) / 2 + (is_f32 ? 16 : 0)) + (is_f32 ? 16 : 0),
                 q = parts * s->mr / 16 * up(s->d, 16) / 4; /* registers; of Q, which may stay */
    const bool stays = held + q + 48 <= 255;
    const double registers = is_f32 ? 255 : 1.25 * (held + (stays ? q : 0)) + 40;
    const bool narrow = variant_is_narrow(v);
    const double kept = ampere_widens(v) ? s->bk * row : ampere_settles(v) ? s->bk * row / 2 : 0; /* beside the stages */
    const double local =
        f[F_STAGES] * s->bk * row * (narrow ? kv_bytes(v) / 2 : 1) + kept + (stays ? 0 : parts * s->bq * 2 * up(s->d, 16)) + 1024;
    const double room = d->capability >= 90 && d->capability < 120 ? 228 << 10 : (double)d->local_bytes * 2;
    const double by_registers = 65536 / (up(registers < 255 ? registers : 255, 8) * 32 * warps), by_local = room / local;
    const double groups = by_registers < by_local ? by_registers : by_local;
    return (struct ampere_group){
        .groups = groups < 1 ? 1 : groups > 8 ? 8 : (double)(int64_t)groups,
        .warps = warps,
        .product = larger(products * s->bq * s->bk * flops / 2540,
                          warps * s->bk * row / (narrow && !ampere_widens(v) ? 256 : 128)) +
                   ampere_widening(v, s->bk * (s->d + s->dv), warps) + ampere_folding(v, s->bk * (s->d + s->dv)) +
                   (variant_has_blocks(v) ? s->bq * s->bk * (s->d + s->dv) / 32 / 34 : 0),
        .softmax = s->bq * s->bk * (1 / 23.0 + (f[F_SOFTCAP] ? 0.16 : 0)) + (f[F_LAZY] ? 0.3 : 1) * s->bq * s->dv / 128};
}

/* Copies as rows lie are for rows that cannot be copied whole; for others they gain nothing. */
static double ampere_pieces(const struct variant *v)
{
    const bool whole = variant_head_dim(v) % 8 == 0 && variant_head_dim_v(v) % 8 == 0;
    if (variant_is_narrow(v)) /* whose rows are copied whole wherever they begin */
        return 1;
    return v->field[F_COPY] == COPY_ANY ? (whole ? 6.5 : 1.3) : 1;
}

/* The same if keys are split: a group has a slice of the rows of all heads that share a KV head, and some keys. Groups of a
 * multiprocessor wait beside each other, and share 2500 bytes per cycle with all others. In all it is 1.2 times what this adds up
 * to: isa sm90 took 4.0 TB/s where 8 queries by sm80 took 3.1, and as much as sm80 for one query. */
static double ampere_split_cycles(const struct variant *v, const struct tune_target *t, const struct gpu_device *d)
{
    const struct shape s = read_shape(v, t);
    const struct ampere_group g = ampere_group(v, &s, d);
    const double units = t->threads > 0 ? t->threads : 1, split = v->field[F_SPLIT];
    const struct slices slices = cut_rows(&s, t, s.bq);
    const double splits = up(s.keys, split) / split, steps = up(s.keys < split ? s.keys : split, s.bk) / s.bk;
    const double all = slices.count * splits * (double)t->batch * t->heads / target_group(t), many = up(all, units) / units;
    const double there = many < g.groups ? many : g.groups, busy = all < units ? all : units;
    const bool is_f32 = v->field[F_DTYPE] == DTYPE_F32;
    const double warps = up(slices.rows, s.mr) / s.mr; /* that have rows */
    const double compute = (g.product + g.softmax) * ampere_pieces(v) * (is_f32 ? warps / g.warps : 1);
    const double alone = is_f32 ? ampere_alone(v, &s, g.warps) : compute;
    /* Slices of the same keys read them from L2. */
    const double memory = s.bk * (s.d + s.dv) * kv_bytes(v) * there * busy / (slices.count > 1 ? 3000 : 2500);
    /* Rows that are copied in pieces keep a group's warps busy, as measured at D = 7 and 100. */
    const double copy =
        v->field[F_COPY] == COPY_ANY && !variant_is_narrow(v) ? 700 + s.bk * (60 + 1.2 * (s.d + s.dv)) / g.warps : 0;
    const double step =
        larger(larger(there * compute, larger(alone + 460, copy)), larger(memory, 1400.0 / larger(v->field[F_STAGES] - 1, 0.5)));
    const double waves = many > there ? all / (units * there) + 0.1 : 1;
    /* A warp reads 16 splits of 32 chunks, of four columns each, in about 1500 cycles. Who comes last with a
     * slice merges it, and others of the last two groups of each multiprocessor help. */
    const double help = 2 * units * splits / all, merge = up(slices.rows * s.dv / 4 * splits, 512) / 512 / g.warps;
    const double merged = splits > 1 ? 4000 + 1500 * larger(1, merge / larger(1, help < splits ? help : splits)) : 0;
    return 1.2 * ((steps * step + 3000) * waves + merged) * units / ((double)t->batch * t->heads);
}

/* The cycles of a multiprocessor for one head with mma.sync: other groups hide softmax and waiting, as far as registers and
 * shared memory have room for them. */
double model_sm80(const struct variant *v, const struct tune_target *t, const struct gpu_device *d)
{
    const int32_t *f = v->field;
    const struct shape s = read_shape(v, t);
    if (f[F_SPLIT])
        return ampere_split_cycles(v, t, d);
    const double heads = (double)t->heads * (double)t->batch, units = t->threads > 0 ? t->threads : 1;
    const double queries = up(s.rows, s.bq) / s.bq;
    const double steps = f[F_CAUSAL] || f[F_WINDOW] ? (s.keys + s.bq / 2) / s.bk + 0.5 : up(s.keys, s.bk) / s.bk;
    const struct ampere_group g = ampere_group(v, &s, d);
    const double step = (g.product + g.softmax + 460 / g.groups) * (g.warps * g.groups < 8 ? 1.25 : 1);
    const double slots = units * g.groups, waves = up(queries * heads, slots) / (queries * heads);
    return queries * (steps * step * ampere_pieces(v) * (up(s.dv, 256) / 256) + 3000 / g.groups) * waves;
}

double model_sm90(const struct variant *v, const struct tune_target *t, const struct gpu_device *d)
{
    (void)d; /* there is only one kind */
    return v->field[F_SPLIT] ? hopper_split_cycles(v, t) : hopper_cycles(v, t);
}

double model_portable(const struct variant *v, const struct tune_target *t, const struct gpu_device *d)
{
    struct shape s = read_shape(v, t);
    return d->is_cpu ? cpu_cycles(&s) : gpu_cycles(&s, d);
}
