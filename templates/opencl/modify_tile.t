%# The modify step: what features do to scaled scores of a turn's rows against the keys of a tile; and the mask where a row's interval
%# begins or ends in the tile.
% if BIAS != "none" or ALIBI or MASK
            for (int block = 0; block < ${BLOCKS}; block++) {
                const int col = block * ${BLOCK} + x * ${VW}; /* this work-item's first key in the tile */
% if BIAS != "none"
                __global const ${TYPE_BIAS} *biases[${MR}];
                for (int r = 0; r < ${MR}; r++)
                    biases[r] = bias + min(i + r, ${QUERIES} - 1) * f.bias_stride[2] + (j + col) * f.bias_stride[3];
                if (bias_wide && n == ${BK})
                    add_biases(s + block * ${MR*NV}, biases, 1, ${BK}, 1);
                else
                    add_biases(s + block * ${MR*NV}, biases, f.bias_stride[3], n - col, 0);
% end
% if ALIBI
% if INVARIANT
                const ${VEC} lane = (float)col + ${VECTOR}${LANES};
% for r in 0..MR
                const float far${r} = (float)(i + ${r} + offset - j); /* how far the query stands behind the tile's first key */
% end
% for r in 0..MR
% for c in 0..NV
                s[block * ${MR*NV} + ${r*NV + c}] = fma((${VEC})(-slope), fabs(far${r} - (lane + ${c*STEP}.0f)), s[block * ${MR*NV} + ${r*NV + c}]);
% end
% end
% else
% for r in 0..MR
                const float far${r} = (float)(i + ${r} + offset - j - col); /* how far the query stands behind this work-item's first key */
% end
% for r in 0..MR
% for c in 0..NV
                s[block * ${MR*NV} + ${r*NV + c}] -= slope * fabs(far${r} - ${c*STEP}.0f - ${VECTOR}${LANES});
% end
% end
% end
% end
% if MASK
                __global const uchar *masks[${MR}];
                for (int r = 0; r < ${MR}; r++)
                    masks[r] = mask + min(i + r, ${QUERIES} - 1) * f.mask_stride[2] + (j + col) * f.mask_stride[3];
                if (mask_wide && n == ${BK})
                    keep(s + block * ${MR*NV}, masks, 1, ${BK}, 1);
                else
                    keep(s + block * ${MR*NV}, masks, f.mask_stride[3], n - col, 0);
% end
            }
% end
% if WINDOW
            if (interval(i0 + turn * ${ROWS}, keys, offset, left, right).y < j + ${BK} || /* an interval begins or ends in this tile, so keys outside of it are masked */
                interval(i0 + (turn + 1) * ${ROWS} - 1, keys, offset, left, right).x > j)
                for (int block = 0; block < ${BLOCKS}; block++) {
% for r in 0..MR
                    const long2 seen${r} = interval(i + ${r}, keys, offset, left, right);
                    const int from${r} = (int)max(seen${r}.x - j, 0L) - block * ${BLOCK} - x * ${VW}, n${r} = (int)min(seen${r}.y - j, ${BK}L) - block * ${BLOCK} - x * ${VW};
% for c in 0..NV
                    s[block * ${MR*NV} + ${r*NV + c}] = between(s[block * ${MR*NV} + ${r*NV + c}], from${r} - ${c*STEP}, n${r} - ${c*STEP});
% end
% end
                }
% else
            if (interval(i0 + turn * ${ROWS}, keys, offset) < j + ${BK}) /* an interval ends in this tile, so the keys behind it are masked */
                for (int block = 0; block < ${BLOCKS}; block++) {
% for r in 0..MR
% for c in 0..NV
                    s[block * ${MR*NV} + ${r*NV + c}] = masked(s[block * ${MR*NV} + ${r*NV + c}],
                        (int)(interval(i + ${r}, keys, offset) - j) - block * ${BLOCK} - x * ${VW} - ${c*STEP});
% end
% end
                }
% end
