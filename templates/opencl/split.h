#ifndef ATTN_CL_SPLIT_DEFINED
#define ATTN_CL_SPLIT_DEFINED
/* Where keys are split: how rows and keys are divided. A slice is rows * heads rows of the queries that share a KV head, at
 * most 64: its row r is query r % rows of head r / rows, counted from its first. */
struct attn_cl_split {
    int rows, heads;   /* min(q_len, 64); min(64 / rows, group) */
    int along, slices; /* slices along the queries; of a KV head in all, those of its first heads first */
    int splits;        /* of kv_len keys; 1 or more */
    int group;         /* heads / kv_heads */
    int part;          /* floats that a split leaves of a slice: rows of output, and two a row behind them; a multiple of 4 */
    int ratio;         /* 65536 / rows, rounded up: r / rows is r * ratio / 65536 */
};
#endif
