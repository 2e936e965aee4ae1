%# Narrow keys and values on isa sm80: what their queries become, and how they come to shared memory.

% if IN_FOURS
/* Turns the warp's queries into what narrow keys are multiplied by: of every 16 columns, words 0, 2, 4 and 6 come first and then the
 * others, so that a work-item has four columns that follow each other, as it has of ${FITS ? "keys; and all in f16." : "keys."}
% elif FITS
/* Turns the warp's queries into f16, as which narrow keys are multiplied.
% else
/* Leaves the warp's queries as they are.
% end
% if FITS
 * Each row is multiplied by a power of two that brings its largest number to at least 2**14, and below 2**15, so
 * that only what is smaller than 2**-38 of the largest is lost. unit receives the inverse powers${NARROW_BY > 1 ? ", times what keys were divided by" : ""}, of this work-item's rows of scores. */
% else
 * unit receives what scores are to be multiplied by. */
% end
INLINED void order_queries(const struct worker *p, float *unit)
{
    #pragma unroll
    for (int r = 0; r < ${2*FR}; r++) {
% if FITS or IN_FOURS
        const int row = p->warp * ${MR} + 8 * r + p->lane / 4;
% end
% if FITS
        int top = 0;
        for (int d = p->lane & 3; d < ${ceil_div(HD, 16)}; d += 4) {
            const int width = d < ${4*(HB - 1)} ? 128 : ${HW};
            __local const uchar *const box = p->memory + ${AT_Q} + d / 4 * ${BQ*128};
            for (int c = 0; c < 2; c++) {
                const uint4 y = *(__local const uint4 *)(box + place(row, d % 4 * 2 + c, width));
                top = larger(larger(larger(larger(top, y.x), y.y), y.z), y.w);
            }
        }
        top = max(top, as_int(across(as_float(top), 1)));
        top = max(top, as_int(across(as_float(top), 2)));
        const int power = min(141 - (top >> 7), 120);
        const float by = as_float((127 + power) << 23);
        unit[r] = as_float((127 - power) << 23)${NARROW_BY > 1 ? " * " : ""}${NARROW_BY > 1 ? NARROW_BY : ""}${NARROW_BY > 1 ? ".0f" : ""};
% else
        unit[r] = ${NARROW_BY}.0f;
% end
% if FITS or IN_FOURS
        for (int d = p->lane & 3; d < ${ceil_div(HD, 16)}; d += 4) {
            const int width = d < ${4*(HB - 1)} ? 128 : ${HW};
            __local uchar *const box = p->memory + ${AT_Q} + d / 4 * ${BQ*128};
            __local uint4 *const first = (__local uint4 *)(box + place(row, d % 4 * 2, width));
            __local uint4 *const second = (__local uint4 *)(box + place(row, d % 4 * 2 + 1, width));
            const uint4 x = *first, y = *second;
% if not IN_FOURS
            *first = ${UINT4}(fitted(x.x, by), fitted(x.y, by), fitted(x.z, by), fitted(x.w, by));
            *second = ${UINT4}(fitted(y.x, by), fitted(y.y, by), fitted(y.z, by), fitted(y.w, by));
% elif FITS
            *first = ${UINT4}(fitted(x.x, by), fitted(x.z, by), fitted(y.x, by), fitted(y.z, by));
            *second = ${UINT4}(fitted(x.y, by), fitted(x.w, by), fitted(y.y, by), fitted(y.w, by));
% else
            *first = ${UINT4}(x.x, x.z, y.x, y.z);
            *second = ${UINT4}(x.y, x.w, y.y, y.w);
% end
        }
% end
    }
    warp_sync();
}

% let OF_ROWS = PAGED ? "const long *stride, int tile" : "long stride"
% let ROW_AT = PAGED ? "at.page * stride[0] + at.row * stride[2]" : "row * stride"
% let IN_BYTES = UNIT > 1 ? " * " : ""
% let OF_UNIT = UNIT > 1 ? UNIT : ""
% if SETTLES
% include "opencl/sm80.settle.t"
% else
/* Copies boxes that lie side by side, of a tile's rows. n of the rows and so many of the columns exist; the rest becomes zero. */
INLINED void narrow_boxes(const struct worker *p, uint to, __global const ${TYPE_KV} *from, ${OF_ROWS}, int n, const int boxes,
    const int width, int columns)
{
    const int lanes = width / 16, step = ${ITEMS} / lanes, chunk = p->item % lanes;
    from += 16 * chunk${PAGED ? "" : " + p->item / lanes * stride"};
    #pragma unroll
    for (int r = 0; r < ${BK}; r += step${PAGED ? "" : ", from += step * stride"}) {
        const int row = p->item / lanes + r;
        if (${BK} % step != 0 && row >= ${BK})
            continue;
% if PAGED
        const struct place at = PLACES(tile)[row];
        __global const ${TYPE_KV} *const begin = from + (row < n ? at.page * stride[0] + at.row * stride[2] : 0);
% else
        __global const ${TYPE_KV} *const begin = from;
% end
        #pragma unroll
        for (int c = 0; c < boxes; c++)
            copy16(to + c * ${BK*128} + place(row, chunk, width), begin + 128 * c, row < n && 128 * c + 16 * chunk < columns);
    }
}
% for v in 0..2
% let BOXES = v ? V_BOXES : K_BOXES
% let W = v ? V_LAST : K_LAST
% let D = v ? PART_V : HD
% let COLUMNS = v and PARTS_V > 1 ? "p->columns" : D
INLINED void narrow_${v ? "v" : "k"}(const struct worker *p, uint to, __global const ${TYPE_KV} *from, ${OF_ROWS}, int n)
{
% if W == 128
    narrow_boxes(p, to, from, stride${PAGED ? ", tile" : ""}, n, ${BOXES}, 128, ${COLUMNS});
% else
% if BOXES > 1
    narrow_boxes(p, to, from, stride${PAGED ? ", tile" : ""}, n, ${BOXES - 1}, 128, ${COLUMNS});
% end
    narrow_boxes(p, to + ${(BOXES - 1)*BK*128}, from + ${128*(BOXES - 1)}, stride${PAGED ? ", tile" : ""}, n, 1, ${W}, ${COLUMNS} - ${128*(BOXES - 1)});
% end
}
% end
% end
% if SCALED

/* Copies the scales of a tile's keys and values, of which n exist, with zeros for the others. */
INLINED void copy_scales(const struct worker *p, uint to, __global const float *k, __global const float *v,${PAGED ? " int tile," : " int j,"} int n,
    const struct attn_cl_features *f)
{
    for (int key = p->item; key < ${BK}; key += ${ITEMS}) {
        const int is = key < n;
% if PAGED
        const struct place at = PLACES(tile)[key];
        const long page = is ? at.page : 0, row = is ? at.row : 0;
        copy4_async(to + 4 * key, k + page * f->k_scales_stride[0] + row * f->k_scales_stride[2], is ? 4 : 0);
        copy4_async(to + ${4*BK} + 4 * key, v + page * f->v_scales_stride[0] + row * f->v_scales_stride[2], is ? 4 : 0);
% else
        const long row = is ? j + key : 0;
        copy4_async(to + 4 * key, k + row * f->k_scales_stride[2], is ? 4 : 0);
        copy4_async(to + ${4*BK} + 4 * key, v + row * f->v_scales_stride[2], is ? 4 : 0);
% end
    }
}
#define SCALES_AT(n) ((__local const float *)(p.memory + ${AT_STAGES + AT_SCALES} + (n) % ${ST} * ${STAGE}))
% end
