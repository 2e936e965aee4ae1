%# What features do to the scores of a fragment that Q and K have made: they are scaled, biased, lowered by distance and masked.
%# A work-item has two rows of a fragment, i and i + 8, and of their keys two of every eight.
/* The biases and masks that go with scores. wide: the values of neighbouring keys lie side by side, so two are read at once. */
struct beside {
% if BIAS != "none"
    __global const ${TYPE_BIAS} *bias;
    int bias_wide;
% end
% if MASK
    __global const uchar *mask;
    int mask_wide;
% end
% if ALIBI
    __global const float *slopes;
% end
% if ADDS
    float unit; /* the number by which scores are multiplied first */
% end
};

% if BIAS != "none" or MASK
INLINED int in_pairs(ulong at, const long *stride, const ulong bytes)
{
    return stride[3] == 1 && ((stride[0] | stride[1] | stride[2]) & 1) == 0 && at % (2 * bytes) == 0;
}

% end
% if BIAS != "none"
% let WAY = type_widening(BIAS)
% assert WAY == "none" or WAY == "half" or WAY == "upper", "a bias is widened from f32, f16 and bf16 alone; bias must be one of them"
INLINED float bias_of(__global const ${TYPE_BIAS} *from)
{
% if WAY == "none"
    return *from;
% elif WAY == "half"
    return of_f16(*from);
% elif WAY == "upper"
    return as_float((uint)*from << 16);
% end
}
INLINED float2 biases_at(__global const ${TYPE_BIAS} *from)
{
% if WAY == "none"
    return *(__global const float2 *)from;
% elif WAY == "half"
    const uint two = *(__global const uint *)from;
    return ${FLOAT2}(of_f16((ushort)two), of_f16((ushort)(two >> 16)));
% elif WAY == "upper"
    const uint two = *(__global const uint *)from;
    return ${FLOAT2}(as_float(two << 16), as_float(two & 0xffff0000));
% end
}

% end
% if MASK and SPLIT
/* The masks of rows i[0] and i[1], of heads h[0] and h[1] of sequence b, for n keys from j on, two in a word. If both is 0 those of the
 * second row do not matter. */
INLINED void read_masks(uint *two, const struct beside *y, const struct attn_cl_features *f, int b, const int *h, const int *i, int both,
    int j, int n)
{
    __global const uchar *const mask = y->mask + b * f->mask_stride[0] + j * f->mask_stride[3];
    __global const uchar *const masks[2] = {mask + h[0] * f->mask_stride[1] + i[0] * f->mask_stride[2],
        mask + h[1] * f->mask_stride[1] + i[1] * f->mask_stride[2]};
    if (y->mask_wide && n >= ${BK - 6}) {
        #pragma unroll
        for (int r = 0; r < 2; r++)
            if (!r || both)
                #pragma unroll
                for (int m = r; m < ${NS/2}; m += 2)
                    two[m] = *(__global const ushort *)(masks[r] + 4 * (m - r));
    } else {
        #pragma unroll
        for (int e = 0; e < ${NS/2}; e++) {
            const int m = e % ${NS/4} * 2 + e / ${NS/4}, key = 4 * (m & ~1); /* of row 0, and then of row 1 */
            if (e / ${NS/4} && !both)
                break;
            two[m] = (key < n && masks[m % 2][key * f->mask_stride[3]]) | (key + 1 < n && masks[m % 2][(key + 1) * f->mask_stride[3]]) << 8;
        }
    }
}

% end
% if SPLIT
/* For rows i[0] and i[1], of heads h[0] and h[1] of sequence b, against n keys from j on; query 0 stands `far` behind the
 * first of them. If both is 0 there is no second row, and its scores do not matter. */
INLINED void modify(float *s, const struct beside *y, const struct attn_cl_features *f, int b, const int *h, const int *i, int both, int j,
    int n, int far${MASKS_AHEAD ? ", const uint *masks)" : ")"}
{
% else
/* For head h of sequence b, against n keys from j on; row i stands `far` behind the first of them. */
INLINED void modify(float *s, const struct beside *y, const struct attn_cl_features *f, int b, int h, int i, int q_len, int j, int n,
    int far)
{
% if BIAS != "none" or MASK
    const int row[2] = {min(i, q_len - 1), min(i + 8, q_len - 1)};
% end
% end
% if BIAS != "none"
% if SPLIT
    __global const ${TYPE_BIAS} *const bias = y->bias + b * f->bias_stride[0] + j * f->bias_stride[3];
    __global const ${TYPE_BIAS} *const biases[2] = {bias + h[0] * f->bias_stride[1] + i[0] * f->bias_stride[2],
        bias + h[1] * f->bias_stride[1] + i[1] * f->bias_stride[2]};
% else
    __global const ${TYPE_BIAS} *const bias = y->bias + b * f->bias_stride[0] + h * f->bias_stride[1] + j * f->bias_stride[3];
    __global const ${TYPE_BIAS} *const biases[2] = {bias + row[0] * f->bias_stride[2], bias + row[1] * f->bias_stride[2]};
% end
    if (y->bias_wide && n >= ${BK - 6}) {
% if SPLIT
        #pragma unroll
        for (int r = 0; r < 2; r++)
            if (!r || both)
                #pragma unroll
                for (int m = 2 * r; m < ${NS}; m += 4) {
% else
        #pragma unroll
        for (int m = 0; m < ${NS}; m += 2) {
% end
            const float2 two = biases_at(biases[m / 2 % 2] + 8 * (m / 4));
            s[m] = fma(s[m], y->unit, two.x), s[m + 1] = fma(s[m + 1], y->unit, two.y);
        }
    } else {
% if SPLIT
        #pragma unroll
        for (int e = 0; e < ${NS}; e++) {
            const int m = e % ${NS/2} / 2 * 4 + e % 2 + e / ${NS/2} * 2, key = 8 * (m / 4) + m % 2; /* of row 0, and then of row 1 */
            if (e / ${NS/2} && !both)
                break;
% else
        #pragma unroll
        for (int m = 0; m < ${NS}; m++) {
            const int key = 8 * (m / 4) + m % 2;
% end
            s[m] = fma(s[m], y->unit, key < n ? bias_of(biases[m / 2 % 2] + key * f->bias_stride[3]) : 0.0f);
        }
    }
% end
% if ALIBI
% if SPLIT
    const float slope[2] = {y->slopes[h[0]], y->slopes[h[1]]}, distance[2] = {(float)(i[0] + far), (float)(i[1] + far)};
    #pragma unroll
    for (int m = 0; m < ${NS}; m++)
        s[m] = fma(-slope[m / 2 % 2], fabs(distance[m / 2 % 2] - (8 * (m / 4) + m % 2)), ${BIAS != "none" ? "s[m]" : "s[m] * y->unit"});
% elif INVARIANT
    const float slope = y->slopes[h], distance[2] = {(float)far, (float)(far + 8)};
    #pragma unroll
    for (int m = 0; m < ${NS}; m++)
        s[m] = fma(-slope, fabs(distance[m / 2 % 2] - (8 * (m / 4) + m % 2)), ${BIAS != "none" ? "s[m]" : "s[m] * y->unit"});
% else
    const float slope = y->slopes[h], distance = far;
    #pragma unroll
    for (int m = 0; m < ${NS}; m++)
        s[m] = fma(-slope, fabs(distance + (8 * (m / 2 % 2) - 8 * (m / 4) - m % 2)), ${BIAS != "none" ? "s[m]" : "s[m] * y->unit"});
% end
% end
% if MASK
% if SPLIT
% if not MASKS_AHEAD
    uint masks[${NS/2}];
    read_masks(masks, y, f, b, h, i, both, j, n);
% end
    #pragma unroll
    for (int r = 0; r < 2; r++)
        if (!r || both)
            #pragma unroll
            for (int m = r; m < ${NS/2}; m += 2)
                s[2 * m] = masks[m] & 0xff ? s[2 * m] : -INFINITY, s[2 * m + 1] = masks[m] >> 8 ? s[2 * m + 1] : -INFINITY;
% else
    __global const uchar *const mask = y->mask + b * f->mask_stride[0] + h * f->mask_stride[1] + j * f->mask_stride[3];
    __global const uchar *const masks[2] = {mask + row[0] * f->mask_stride[2], mask + row[1] * f->mask_stride[2]};
    if (y->mask_wide && n >= ${BK - 6}) {
        #pragma unroll
        for (int m = 0; m < ${NS}; m += 2) {
            const uint two = *(__global const ushort *)(masks[m / 2 % 2] + 8 * (m / 4));
            s[m] = two & 0xff ? s[m] : -INFINITY, s[m + 1] = two >> 8 ? s[m + 1] : -INFINITY;
        }
    } else {
        #pragma unroll
        for (int m = 0; m < ${NS}; m++) {
            const int key = 8 * (m / 4) + m % 2;
            s[m] = key < n && masks[m / 2 % 2][key * f->mask_stride[3]] ? s[m] : -INFINITY;
        }
    }
% end
% end
}
