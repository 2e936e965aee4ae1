%# The buffers of the features that every level has; they follow the buffers that every kernel takes.
% if BIAS != "none"
    __global const ${TYPE_BIAS} *bias,
% end
% if MASK
    __global const uchar *mask,
% end
% if ALIBI
    __global const float *slopes,
% end
% if SINK
    __global const float *sinks,
% end
% if PACKED
    __global const long *q_starts, __global const long *kv_starts,
% end
% if PAGED or (defined(IN_PAGES) ? IN_PAGES : 0)
    __global const int *pages,
% end
