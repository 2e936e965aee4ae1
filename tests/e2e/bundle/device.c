/* device.c - an OpenCL host that a bundle was vendored into: the program is built of the bundle's text, and llm_launch_cl sets
 * the arguments. Exits 77 where there is no device. What it is not: a test of every kernel. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "llm.h"

enum { N = 70, HEADS = 3, DIM = 64, SIZE = HEADS * N * DIM };

static cl_mem buffer(cl_context context, float *data, size_t count)
{
    cl_int code;
    return clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, count * sizeof *data, data, &code);
}

/* The largest difference from the definition, with a causal mask and `bias` added for each key. */
static double difference(const float *q, const float *k, const float *v, const float *o, const float *bias, int h, int i)
{
    double sum = 0, out[DIM] = {0}, worst = 0;
    for (int j = 0; j <= i; j++) {
        double score = 0;
        for (int d = 0; d < DIM; d++)
            score += (double)q[(h * N + i) * DIM + d] * k[(h * N + j) * DIM + d];
        const double p = exp(score / 8 + bias[j]);
        sum += p;
        for (int d = 0; d < DIM; d++)
            out[d] += p * v[(h * N + j) * DIM + d];
    }
    for (int d = 0; d < DIM; d++)
        worst = fmax(worst, fabs(out[d] / sum - o[(h * N + i) * DIM + d]));
    return worst;
}

/* More heads than NVIDIA's drivers take along a side of a launch: the first query of each, which sees one key. The largest
 * difference from that key's value. */
static double difference_of_many(cl_context context, const struct llm_cl_kernel *kernel, const struct llm_cl_run *like)
{
    enum { MANY = 65540, KV = 4 };
    const size_t size = (size_t)MANY * DIM;
    struct llm_problem p = {.head_dim = DIM, .batch = 1, .heads = MANY, .kv_heads = KV, .q_len = 1, .kv_len = 1};
    struct llm_cl_run run = *like;
    float *q = calloc(size, sizeof *q), *k = calloc(KV * DIM, sizeof *k), *o = calloc(size, sizeof *o);
    double worst = 0;
    if (!q || !k || !o)
        return 1;
    for (int i = 0; i < KV * DIM; i++)
        k[i] = (float)i;
    llm_cl_args(&p, &run.args);
    run.q = buffer(context, q, size), run.k = run.v = buffer(context, k, KV * DIM), run.o = buffer(context, o, size);
    if (llm_launch_cl(kernel, &run) || clEnqueueReadBuffer(run.queue, run.o, CL_TRUE, 0, size * sizeof *o, o, 0, NULL, NULL))
        return 1;
    for (size_t i = 0; i < size; i++)
        worst = fmax(worst, fabs(o[i] - k[i / DIM / (MANY / KV) * DIM + i % DIM]));
    clReleaseMemObject(run.q), clReleaseMemObject(run.k), clReleaseMemObject(run.o);
    free(q), free(k), free(o);
    return worst;
}

int main(void)
{
    static float data[4][SIZE], bias[N];
    unsigned seed = 1;
    for (int i = 0; i < 3 * SIZE + N; i++) {
        seed = seed * 1664525 + 1013904223;
        *(i < 3 * SIZE ? &data[i / SIZE][i % SIZE] : &bias[i - 3 * SIZE]) = (float)(seed >> 8) / (1 << 23) - 1;
    }
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 77;
    struct llm_problem p = {.head_dim = DIM, .causal = 1, .bias = LLM_F32, .batch = 1, .heads = HEADS, .kv_heads = HEADS,
                            .q_len = N, .kv_len = N};
    struct llm_cl_kernel kernel;
    if (llm_find_cl(&p, 0, &kernel) < 0)
        return puts(llm_supports_cl(&p, 0)), 1;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_program program = clCreateProgramWithSource(context, kernel.lines, (const char **)kernel.text, NULL, &code);
    if (code || clBuildProgram(program, 1, &device, "", NULL, NULL))
        return puts("it does not build"), 1;
    struct llm_cl_run run = {.queue = clCreateCommandQueue(context, device, 0, &code)};
    run.kernel = clCreateKernel(program, kernel.variant, &code);
    run.q = buffer(context, data[0], SIZE), run.k = buffer(context, data[1], SIZE), run.v = buffer(context, data[2], SIZE);
    run.o = buffer(context, data[3], SIZE), run.bias = buffer(context, bias, N);
    llm_cl_args(&p, &run.args);
    run.features.bias_stride[3] = 1; /* one row for all: the other strides are 0 */
    code = code ? code : llm_launch_cl(&kernel, &run);
    if (code || clEnqueueReadBuffer(run.queue, run.o, CL_TRUE, 0, sizeof data[3], data[3], 0, NULL, NULL))
        return printf("OpenCL says %d\n", (int)code), 1;
    double worst = 0;
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < N; i += 3)
            worst = fmax(worst, difference(data[0], data[1], data[2], data[3], bias, h, i));
    worst = fmax(worst, difference_of_many(context, &kernel, &run));
    run.args.heads = HEADS - 1, run.args.kv_heads = 2 * HEADS;
    if (llm_launch_cl(&kernel, &run) != CL_INVALID_VALUE)
        return puts("heads that are no multiple are taken"), 1;
    printf("%g\n", worst);
    return worst < 3e-6 ? 0 : 1;
}
