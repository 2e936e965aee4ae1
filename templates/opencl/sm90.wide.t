%# Where keys and values lie that were widened once for a launch, and who tells that they do.
/* The memory that a launch brings. Rows of a sequence lie one after another there, whatever pages they come from. */
struct wide {
% if BLOCKS
    __global float *records; /* [batch, KV head, tile]: the unit of a tile's values, a bound of its keys' lengths, and the unit of these */
% else
    __global float *records; /* [batch, KV head, tile]: a tile's ${BK} scales of keys, ${BOUNDED ? "a bound of their lengths, " : ""}and what its values are to be multiplied by${RESTS ? ", with the scales of these" : ""}; see sm90.scale.t */
% end
    __global uint *done;     /* [batch, KV head, tile]: the number of the launch that widened the tile last */
    uint turn;               /* the number of this launch */
    int tiles;
};
enum { WIDENING = 6, WIDENED_ALL = 7 }; /* barriers: of those who widen; and of these with the warp that copies */

% if BLOCKS
/* Rows of keys in f16 come first, [batch, KV head, which of two, kv_len, element], then those of values,${V_TWO ? " likewise" : ""} and then records. */
% else
/* Rows of keys in ${DTYPE} come first, [batch, KV head, kv_len, element], then those of values in f16, and then records. */
% end
INLINED long row_in(const struct attn_cl_args *a, int b, int g, int key)
{
    return (b * here(a->kv_heads) + g) * here(a->kv_len) + key;
}
INLINED __global ushort *wide_keys(const struct attn_cl_args *a, __global ushort *memory)
{
    return (__global ushort *)here((long)memory);
}
INLINED __global ushort *wide_values(const struct attn_cl_args *a, __global ushort *memory)
{
    return wide_keys(a, memory) + row_in(a, (int)a->batch, 0, 0) * ${(1 + K_TWO)*HD};
}
INLINED __global float *records_of(const struct attn_cl_args *a, __global ushort *memory)
{
    return (__global float *)(wide_keys(a, memory) + row_in(a, (int)a->batch, 0, 0) * ${(1 + K_TWO)*HD + (1 + V_TWO)*HDV});
}
INLINED struct wide wide_of(const struct attn_cl_args *a, __global ushort *memory, __global uint *done, __global const uint *counters)
{
    struct wide y = {.records = records_of(a, memory), .done = done, .turn = counted(counters + 3) + 1};
    y.tiles = max(((int)a->kv_len + ${BK - 1}) / ${BK}, 1);
    return y;
}
