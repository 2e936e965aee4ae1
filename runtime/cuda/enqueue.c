/* enqueue.c - executions on the caller's own stream and memory, as in attn.h. What it is not: the launch (launch.c). */
#include "internal.h"

#include "system/status.h"

/* Pointers say where arrays begin; they are not followed. */
static void point(const struct cuda_kernel *k, const struct attn_args *a, struct cuda_launch *l)
{
    gpu_set_structs(&k->source, a, &l->args, &l->features);
    if (a->kv_len == 0)
        gpu_lie_nowhere(&l->args, &l->features);
    l->features.q_end_at = a->batch;
    for (enum array_id id = 0; id < ARRAYS; id++) {
        if (!gpu_takes(&k->source, id))
            continue;
        void *const at = array_pointer(array_in(arrays[id].kernel, a, a->features), 0);
        l->buffer[id] = (CUdeviceptr)(uintptr_t)at;
        gpu_set_has(&l->args, &l->features, id, at != NULL);
    }
}

static attn_status put(struct cuda_kernel *k, struct cuda_launch *l, struct attn_error *err)
{
    struct gen_error gen_err = {.no_memory = false};
    struct cuda_need need;
    bool pushed;
    if (cuda_room_need(k, &l->args, &l->features, &need, &gen_err) != 0 ||
        cuda_enter(k->target, &pushed, &gen_err) != 0)
        return status_because(&gen_err, ATTN_FAILED, err);
    l->room = cuda_room_of(k->target, &k->rooms, l->stream, need, &gen_err);
    for (enum array_id id = 0; id < ARRAYS && l->room && l->args.kv_len == 0; id++)
        if (gpu_holds_keys(id))
            l->buffer[id] = l->room->memory;
    int result = l->room ? cuda_launch(k, l, &gen_err) : -1;
    cuda_leave(k->target, pushed);
    return result == 0 ? ATTN_OK : status_because(&gen_err, ATTN_FAILED, err);
}

attn_status cuda_enqueue(struct cuda_kernel *k, const struct run_rules *rules, const struct attn_run *run, CUstream stream,
                         struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    struct attn_features f;
    attn_status status = copy_run(rules, run, &r, err);
    if (status == ATTN_OK)
        status = check_presence(rules, &r, err);
    if (status == ATTN_OK)
        status = read_run(rules, &r, &a, &f, err);
    if (status != ATTN_OK || a.batch == 0 || a.q_len == 0)
        return status;
    struct cuda_launch l = {.stream = stream};
    point(k, &a, &l);
    return put(k, &l, err);
}

bool cuda_takes(const struct cuda_kernel *k, const struct run_rules *rules, const struct attn_run *run)
{
    struct attn_run r;
    struct attn_args a;
    struct attn_features f;
    struct cuda_launch l = {.stream = NULL};
    struct gen_error rule = {0};
    if (copy_run(rules, run, &r, NULL) != ATTN_OK || read_run(rules, &r, &a, &f, NULL) != ATTN_OK)
        return true; /* this is wrong for every kernel */
    point(k, &a, &l);
    return gpu_takes_rows(&k->source, &l.args, &l.features) && cuda_check_addresses(k, &l, &rule) == 0;
}

/* The most that any run within the plan's maxima needs; few queries may need more than many, because slices round rows
 * up. */
int cuda_prepare(struct cuda_kernel *k, const struct run_rules *rules, struct gen_error *err)
{
    enum { SLICE = 64 };
    const struct attn_problem *p = rules->problem;
    const struct attn_cl_features none = {.window = {-1, -1}};
    struct cuda_need most = {0, 0}, need;
    bool pushed;
    for (int64_t q = 1; q <= SLICE + 1; q++) {
        const int64_t q_len = q <= SLICE && q <= p->max_q_len ? q : p->max_q_len;
        const struct attn_cl_args a = {.batch = p->max_batch, .heads = p->heads, .kv_heads = p->kv_heads,
                                       .q_len = q_len, .kv_len = p->max_kv_len};
        struct gen_error too_much = {0}; /* for one launch: such runs will be refused */
        if (cuda_room_need(k, &a, &none, &need, &too_much) != 0)
            continue;
        most.done = need.done > most.done ? need.done : most.done;
        most.parts = need.parts > most.parts ? need.parts : most.parts;
    }
    if (most.parts > (size_t)256 << 20 && !k->source.widened) /* for maxima that no run may ever have */
        most.parts = 0;
    if (cuda_enter(k->target, &pushed, err) != 0)
        return -1;
    int result = cuda_rooms_prepare(k->target, &k->rooms, most, err);
    cuda_leave(k->target, pushed);
    return result;
}
