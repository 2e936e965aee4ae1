%# The sequence of a work-group: its lengths, where query 0 stands on the axis of keys, and which keys the group's queries see.
% if PACKED
    const long q_from = f.has_q_starts ? q_starts[f.q_starts_at + b] : 0, kv_from = f.has_kv_starts ? kv_starts[f.kv_starts_at + b] : 0;
    const long queries = f.has_q_starts ? q_starts[f.q_starts_at + b + 1] - q_from : a.q_len; /* there may be none from i0 on */
    const long keys = f.has_kv_starts ? kv_starts[f.kv_starts_at + b + 1] - kv_from : a.has_lens ? kv_lens[a.lens_at + b] : a.kv_len;
% else
    const long keys = a.has_lens ? kv_lens[a.lens_at + b] : a.kv_len;
% end
    const long offset = a.offset + (a.bottom_right ? keys - ${QUERIES} : 0);
% if WINDOW
    const long left = f.window[0], right = ${CAUSAL ? "0" : "f.window[1]"};
    const long end = ${PACKED ? "i0 >= queries ? 0 : " : ""}interval(min(i0 + ${BQ}L, ${QUERIES}) - 1, keys, offset, left, right).y;
    const long first = interval(i0, keys, offset, left, right).x;
% if INVARIANT
    const long begin = first < end ? first / ${BK} * ${BK} : end; /* tiles begin where they would without a window */
% else
    const long begin = first < end ? first / 4 * 4 : end; /* so that vectors of biases and masks are aligned */
% end
% else
    const long end = ${PACKED ? "i0 >= queries ? 0 : " : ""}interval(min(i0 + ${BQ}L, ${QUERIES}) - 1, keys, offset);
% end
