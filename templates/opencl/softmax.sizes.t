%# The sizes that a row of a softmax implies in OpenCL, and what must hold of them.
% assert VW == 0 or VW == 4, "vector must be 4, or left out: rows are read four elements at a time"
% assert GX == 0 or GX == 2 or GX == 4 or GX == 8 or GX == 16 or GX == 32 or GX == 64, "group.lanes must be a power of two from 2 on, or left out: lanes are joined in pairs"
% let VW = max(VW, 1)
% let LANES = max(GX, 1)
% let GROUP = LANES > 1 ? LANES : 64
% let STEP = LANES*VW
% let LOCAL = LANES > 1 ? LANES*4 : 0
% let EXP = "exp2"
% include "opencl/types.sizes.t"
%# What a launch needs to know: struct gen_launch in gen/gen.h says what each is.
% let LAUNCH_GROUP_0 = GROUP
% let LAUNCH_GROUP_1 = 1
% let LAUNCH_ROWS = LANES > 1 ? 1 : GROUP
% let LAUNCH_COLUMNS = 0
% let LAUNCH_GROUPS_0 = "ceil(rows / tile[0])"
% let LAUNCH_GROUPS_1 = "heads"
% let LAUNCH_GROUPS_2 = "batch"
% let LAUNCH_LOCAL = LOCAL
% include "opencl/launch.sizes.t"
