%# The buffers that a kernel takes for features that every level has, behind what all take.
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
% if PAGED
    __global const int *pages,
% end
