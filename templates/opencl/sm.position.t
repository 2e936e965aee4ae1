%# Where the queries of tile x stand among its keys, and so which keys query i sees. q_len is the number of queries that are attended
%# to.
    const long at = a->offset + (a->bottom_right ? x.keys - q_len : 0); /* the position of query 0; lengths are below 2^30 */
% if ALIBI
    x.origin = (int)clamp(at, -(1L << 30), 1L << 30);
% end
% if WINDOW
    const long left = features->window[0], right = ${CAUSAL ? "0" : "features->window[1]"};
    x.low = left < 0 ? -(1 << 30) : (int)clamp(at - left, -(1L << 30), 1L << 30);
    x.offset = right < 0 ? 1 << 30 : (int)clamp(at + right, -(1L << 30), 1L << 30);
% else
    x.offset = (int)clamp(at, -(1L << 30), 1L << 30);
% end
