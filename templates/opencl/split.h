#ifndef ATTN_CL_SPLIT_DEFINED
#define ATTN_CL_SPLIT_DEFINED
/* How rows and keys are divided where keys are split. A slice has rows * heads rows, at most 64 and at most a tile's, of the queries
 * that share a KV head: its row r is query r % rows of head r / rows, both counted from the slice's first. */
struct attn_cl_split {
    int rows, heads;   /* min(q_len, most), where most is 64, or the tile's rows if these are fewer; min(most / rows, group) */
    int along, slices; /* slices along the queries; and all slices of a KV head, where those of its first heads come first */
    int splits;        /* the splits of kv_len keys, at least 1 */
    int group;         /* heads / kv_heads */
    int part;          /* floats that a split leaves of a slice: its rows of output, of whole eights of columns, and behind them two numbers for each row; a multiple of 4 */
    int ratio;         /* 65536 / rows, rounded up: r / rows is r * ratio / 65536 */
};
enum { ATTN_CL_COUNTERS = 4 }; /* words that a slice has for the merging of its splits */
#endif
