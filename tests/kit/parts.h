/* parts.h - what the device text of tests has alike that look at single parts of level sm90: the templates that come first,
 * and how a tile's scores and the states of its rows get to a work-item of a warpgroup, and back. What it is not: the card that
 * it runs on (card.h). */
#ifndef ATTNGEN_TESTS_PARTS_H
#define ATTNGEN_TESTS_PARTS_H

#define SM90_PARTS                                                                                                             \
    "% include \"opencl/sm90.sizes.t\"\n% include \"opencl/words.t\"\n% include \"opencl/args.h\"\n% include \"opencl/maps.h\"\n" \
    "% if FEATURES\n% include \"opencl/features.h\"\n% end\n"                                                                  \
    "% include \"opencl/ptx.t\"\n% include \"opencl/ptx.sm90.t\"\n% include \"opencl/softmax.t\"\n"                            \
    "% include \"opencl/tiles.t\"\n% include \"opencl/sm90.tiles.t\"\n% include \"opencl/sm90.copy.t\"\n"                      \
    "% include \"opencl/sm90.parts.t\"\n"

/* state: for each of 64 rows the maximum and the sum before; behind these the maximum, the sum and the factor that the kernel
 * leaves. Four work-items share a row, and each begins with a quarter of its sum. */
#define SM90_STEP                                                                                                              \
    "INLINED void take_step(float *mine, struct row_states *rows, __global const float *s, __global const float *state)\n"     \
    "{\n"                                                                                                                      \
    "    const int item = get_local_id(0), row = item / 32 * 16 + item % 32 / 4;\n"                                            \
    "    #pragma unroll\n"                                                                                                     \
    "    for (int n = 0; n < ${NS}; n++)\n"                                                                                    \
    "        mine[n] = s[item * ${NS} + n];\n"                                                                                 \
    "    #pragma unroll\n"                                                                                                     \
    "    for (int r = 0; r < 2; r++)\n"                                                                                        \
    "        rows->top[r] = state[row + 8 * r], rows->sum[r] = state[64 + row + 8 * r] / 4;\n"                                 \
    "}\n"                                                                                                                      \
    "INLINED void leave_step(const float *mine, struct row_states *rows, const float *fix, __global float *s,\n"               \
    "    __global float *state)\n"                                                                                             \
    "{\n"                                                                                                                      \
    "    const int item = get_local_id(0), row = item / 32 * 16 + item % 32 / 4;\n"                                            \
    "    #pragma unroll\n"                                                                                                     \
    "    for (int n = 0; n < ${NS}; n++)\n"                                                                                    \
    "        s[item * ${NS} + n] = mine[n];\n"                                                                                 \
    "    #pragma unroll\n"                                                                                                     \
    "    for (int r = 0; r < 2; r++) {\n"                                                                                      \
    "        rows->sum[r] += across(rows->sum[r], 1);\n"                                                                       \
    "        rows->sum[r] += across(rows->sum[r], 2);\n"                                                                       \
    "        if (item % 4 == 0)\n"                                                                                             \
    "            state[128 + row + 8 * r] = rows->top[r], state[192 + row + 8 * r] = rows->sum[r],\n"                          \
    "            state[256 + row + 8 * r] = fix[r];\n"                                                                         \
    "    }\n"                                                                                                                  \
    "}\n"

#endif
