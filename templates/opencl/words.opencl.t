%# The words of OpenCL C 1.2.
% let LANGUAGE_OPTION = ""
% let LANGUAGE = "OpenCL C 1.2"
% let LANGUAGE_ALONE = "OpenCL C 1.2; no extension is needed"
%# For headers: words for a launch, and for local memory.
% let LAUNCH_IT = "enqueue it with local size"
% let GRID = "global size"
% let GRID_X = defined(LAUNCH_GROUP_0) ? LAUNCH_GROUP_0 : 0
% let GRID_Y = defined(LAUNCH_GROUP_1) ? LAUNCH_GROUP_1 : 0
% let TIMES = " * "
% let LOCAL_COMES = ""
% let BUILDING_1 = "Building: a driver that compiles for sm_90 refuses wgmma, but gives out the PTX; in it, make `.target sm_90` `.target"
% let BUILDING_2 = "sm_90a`, add `.minnctapersm 1` behind `.reqntid`, and build that (clCreateProgramWithBinary)."
%# A kernel for groups of so many work-items: the number stands between the two words. A struct that it takes; its shared memory.
% let KERNEL = "__kernel __attribute__((reqd_work_group_size"
% let KERNEL_END = "))"
% let GIVEN = "const"
% let SHARED = "__local"
% let SHARED_ALL = "__local"
% let SHARED_BYTES = defined(LOCAL) ? LOCAL : 0
% let MEMORY_AT = "(uint)(ulong)memory"
% let POINTER_OF_TO = "(ulong)to"
%# What functions begin with: in kernels for tensor cores, and in portable ones.
% let INLINED = "static inline __attribute__((always_inline))"
% let FUNCTION = "static"
%# Vectors made of the elements that follow in parentheses.
% let FLOAT2 = "(float2)"
% let UINT2 = "(uint2)"
% let UINT4 = "(uint4)"
% let FLOAT4 = "(float4)"
% let LONG2 = "(long2)"
% let VECTOR = (defined(VW) ? VW : 1) == 1 ? "" : VW == 2 ? "(float2)" : VW == 4 ? "(float4)" : VW == 8 ? "(float8)" : "(float16)"
% let INTS = (defined(VW) ? VW : 1) == 1 ? "" : VW == 2 ? "(int2)" : VW == 4 ? "(int4)" : VW == 8 ? "(int8)" : "(int16)"
%# The halves of a vector; and IF condition THEN x ELSE y END_IF, element by element.
% let LO = ".lo"
% let HI = ".hi"
% let IF = ""
% let THEN = " ? "
% let ELSE = " : "
% let END_IF = ""
%# A struct that is written to volatile memory.
% let PUT = "*"
% let PUT_IS = " = "
% let PUT_END = ""
% let MAPS_WHOLE = 0
%# Whether launches in this language may begin while those before them are still running, whose end kernels then await. (LAUNCH_EARLY is
%# another thing: whether a kernel does so where the language has it, which is 1 for those of sm90.)
% let AWAITS_LAUNCHES = 0
% let MAPS = "attn_cl_maps"
% let MAP_Q = "(ulong)room"
% let MAP_K = "(ulong)(room + 16)"
% let MAP_V = "(ulong)(room + 32)"
% let MAP_O = "(ulong)(room + 48)"
%# Atomic operations on integers in global memory: the larger number stays; a new one takes the place of the one that is expected.
% let ATOMIC_MOST = "atomic_max"
% let ATOMIC_SWAP = "atomic_cmpxchg"
