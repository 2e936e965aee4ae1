/* launch.c - what a bundle's launch code asks of OpenCL, whose functions are here ones that write it down. test_bundle_launch.c
 * makes b.h and b.c, and compares what this writes with what libattn asks. Portable launches in pieces are looked at here:
 * each head of each sequence once, at its own place. What it is not: a run of a kernel. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "b.h"
#include <stdlib.h>

#include "cases.h"

#define HANDLE(type, n) ((type)(uintptr_t)(n))
#define CALLED CL_API_ENTRY cl_int CL_API_CALL

static struct pieces {
    int count, markers; /* launches and markers so far */
    int looking;        /* nothing is written: they are looked at */
    struct attn_cl_args args;
    struct attn_cl_features features;
    unsigned char *seen; /* of each head of each sequence */
    int paged;           /* keys are found by a table of each sequence */
    const struct b_cl_run *whole;
    int wrong;
} pieces;

CALLED clGetCommandQueueInfo(cl_command_queue q, cl_command_queue_info what, size_t size, void *out, size_t *real)
{
    (void)q, (void)what, (void)size, (void)real;
    return *(cl_device_id *)out = HANDLE(cl_device_id, 9), CL_SUCCESS;
}
CALLED clGetDeviceInfo(cl_device_id d, cl_device_info what, size_t size, void *out, size_t *real)
{
    (void)size, (void)real;
    *(cl_uint *)out = d == HANDLE(cl_device_id, 9) && what == CL_DEVICE_MAX_COMPUTE_UNITS ? UNITS : 0;
    return CL_SUCCESS;
}
CALLED clSetKernelArg(cl_kernel k, cl_uint at, size_t size, const void *value)
{
    (void)k;
    if (!pieces.looking)
        write_bytes(stdout, "argument", at, value, size);
    else if (size == sizeof pieces.args)
        memcpy(&pieces.args, value, size);
    else if (size == sizeof pieces.features)
        memcpy(&pieces.features, value, size);
    return CL_SUCCESS;
}
CALLED clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint waits, const cl_event *wait, cl_event *event)
{
    (void)q, (void)waits, (void)wait;
    pieces.markers += event != NULL;
    return CL_SUCCESS;
}

/* Where a head of a piece is, and its KV head, and what features have there, against the whole. */
static void look_at_piece(int64_t heads, int64_t batch)
{
    const struct attn_cl_args *p = &pieces.args, *w = &pieces.whole->args;
    const struct attn_cl_features *f = &pieces.features, *g = &pieces.whole->features;
    const int64_t group = w->heads / w->kv_heads, in_lens = p->lens_at - w->lens_at;
    const int64_t first = f->slopes_at - g->slopes_at;
    pieces.wrong |= heads != p->heads || batch != p->batch || p->heads % p->kv_heads != 0 || in_lens < 0 || first < 0;
    pieces.wrong |= in_lens + batch > w->batch || first + heads > w->heads;
    for (int64_t b = in_lens; b < in_lens + batch && !pieces.wrong; b++)
        for (int64_t h = first; h < first + heads; h++) {
            const int64_t i = b - in_lens, j = h - first, k = j / (p->heads / p->kv_heads), i_kv = pieces.paged ? 0 : i;
            const int64_t b_kv = pieces.paged ? 0 : b;
            pieces.seen[b * w->heads + h]++;
            pieces.wrong |= p->q_at + i * p->q_stride[0] + j * p->q_stride[1] != w->q_at + b * w->q_stride[0] + h * w->q_stride[1];
            pieces.wrong |= p->o_at + i * p->o_stride[0] + j * p->o_stride[1] != w->o_at + b * w->o_stride[0] + h * w->o_stride[1];
            pieces.wrong |= p->k_at + i_kv * p->k_stride[0] + k * p->k_stride[1] !=
                            w->k_at + b_kv * w->k_stride[0] + h / group * w->k_stride[1];
            pieces.wrong |= p->v_at + i_kv * p->v_stride[0] + k * p->v_stride[1] !=
                            w->v_at + b_kv * w->v_stride[0] + h / group * w->v_stride[1];
            pieces.wrong |= f->pages_at + i * f->page_stride != g->pages_at + b * g->page_stride;
            pieces.wrong |= p->lse_at + (i * p->heads + j) * p->q_len != w->lse_at + (b * w->heads + h) * w->q_len;
            pieces.wrong |= f->bias_at + i * f->bias_stride[0] + j * f->bias_stride[1] !=
                            g->bias_at + b * g->bias_stride[0] + h * g->bias_stride[1];
        }
}

CALLED clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint sides, const size_t *from, const size_t *global,
                              const size_t *local, cl_uint waits, const cl_event *wait, cl_event *event)
{
    (void)q, (void)k, (void)wait, (void)from;
    pieces.count++;
    if (pieces.looking)
        look_at_piece((int64_t)(global[1] / local[1]), (int64_t)(global[2] / local[2]));
    else
        write_range(stdout, sides, global, local, (int)waits, event != NULL);
    return CL_SUCCESS;
}

static struct b_cl_run run_of(const struct b_cl_kernel *k, const struct launch_case *c)
{
    struct b_cl_run r = {.queue = HANDLE(cl_command_queue, 7), .kernel = HANDLE(cl_kernel, 8)};
    cl_mem *const buffers[] = {&r.q, &r.k, &r.v, &r.o, &r.lse, &r.kv_lens, &r.bias, &r.mask, &r.slopes, &r.sinks,
                               &r.q_starts, &r.kv_starts, &r.pages, &r.k_scales, &r.v_scales};
    for (unsigned i = 0; i < sizeof buffers / sizeof *buffers; i++)
        *buffers[i] = HANDLE(cl_mem, HANDLE_Q + i);
    if (!c->more)
        r.lse = r.kv_lens = NULL;
    r.room = HANDLE(cl_mem, HANDLE_ROOM), r.done = HANDLE(cl_mem, HANDLE_ROOM + k->maps);
    r.parts = HANDLE(cl_mem, HANDLE_ROOM + 1 + k->maps);
    fill_args(c, k->head_dim, k->head_dim_v, &r.args);
    fill_features(c, &r.features);
    return r;
}

static int look_at_pieces(const struct b_cl_kernel *k)
{
    static const struct launch_case large[] = {
        {2, 70000, 7, 3, 5, 1}, {1, 65535, 65535, 3, 5, 1}, {70000, 1, 1, 3, 5, 1}, {2, 140000, 2, 3, 5, 1},
        {1, 65536, 1, 3, 5, 1}, {3, 65537, 65537, 3, 5, 1}, {131071, 3, 1, 3, 5, 1},
    };
    for (int i = 0; i < (int)(sizeof large / sizeof *large); i++) {
        const struct launch_case *c = &large[i];
        struct b_cl_run r = run_of(k, c);
        cl_event event;
        r.q_starts = r.kv_starts = NULL, r.event = &event;
        pieces = (struct pieces){
            .looking = 1, .whole = &r, .paged = k->takes >> 6 & 1, .seen = calloc((size_t)(c->batch * c->heads), 1)};
        const cl_int code = b_launch_cl(k, &r);
        for (int64_t at = 0; at < c->batch * c->heads; at++)
            pieces.wrong |= pieces.seen[at] != 1;
        free(pieces.seen);
        const int one = c->heads <= 65535 && c->batch <= 65535;
        if (code || pieces.wrong || (pieces.count == 1) != one || pieces.markers != !one)
            return printf("pieces %d: %d launches, %d markers, OpenCL's %d\n", i, pieces.count, pieces.markers, (int)code);
    }
    return 0;
}

/* By its whole name: a bundle has each for a problem of its own, or, of few queries, beside another. */
static int find(const char *variant, struct b_cl_kernel *out)
{
    static const struct b_problem problems[] = {
#include "problems.h"
    };
    for (int i = 0; i < (int)(sizeof problems / sizeof *problems); i++)
        if (b_find_cl(&problems[i], 90, out) >= 0 && !strcmp(out->variant, variant))
            return 0;
    return -1;
}

int main(void)
{
    struct b_cl_kernel k;
    for (int i = 0; i < LAUNCHED; i++) {
        if (find(launched[i], &k) != 0)
            return puts(launched[i]), 1;
        for (int c = 0; c < CASES; c++) {
            struct b_cl_run r = run_of(&k, &cases[c]);
            size_t bytes[3];
            cl_int code = b_memory_cl(&k, &r, bytes);
            printf("%s, case %d\n", launched[i], c);
            if (!code && (k.maps || k.split))
                printf("memory: %zu %zu %zu\n", k.maps ? bytes[0] : 0, bytes[1], bytes[2]);
            code = code ? code : b_launch_cl(&k, &r);
            if (code)
                printf("refused\n");
        }
    }
    /* Rows that begin between 16 bytes, negative strides, no memory. */
    if (find(launched[0], &k) != 0)
        return 1;
    struct b_cl_run r = run_of(&k, &cases[0]);
    r.args.k_stride[2] += 4;
    if (b_launch_cl(&k, &r) != CL_INVALID_VALUE)
        return puts("a stride of half of 16 bytes is taken"), 1;
    r = run_of(&k, &cases[0]);
    r.args.v_stride[1] = -r.args.v_stride[1];
    if (b_launch_cl(&k, &r) != CL_INVALID_VALUE)
        return puts("a negative stride is taken"), 1;
    r = run_of(&k, &cases[0]), r.room = NULL;
    if (b_launch_cl(&k, &r) != CL_INVALID_MEM_OBJECT)
        return puts("a launch without memory for maps is taken"), 1;
    for (int i = LAUNCHED - 2; i < LAUNCHED; i++)
        if (find(launched[i], &k) != 0 || look_at_pieces(&k) != 0)
            return 1;
    return 0;
}
