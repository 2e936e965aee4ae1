%# The names by which types.t calls the storage types and the vectors of f32 that kernels compute with.
% let TYPE = type_opencl(DTYPE)
% let TYPE_KV = type_opencl(DTYPE_KV)
% let TYPE_O = type_opencl(DTYPE_O)
%# How each type becomes f32, and f32 becomes the type; types.t has the code.
% let WIDENING = type_widening(DTYPE)
% let WIDENING_KV = type_widening(DTYPE_KV)
% let ROUNDING = type_widening(DTYPE_O)
%# For keys and values of bytes or blocks, whose code is in narrow.t.
% let NARROW_KV = OP == "attn" and (type_scaled(DTYPE_KV) or type_values(DTYPE_KV) > 1)
% let NARROW = WIDENING != "none" or WIDENING_KV != "none" or ROUNDING != "none"
% let VEC = VW == 1 ? "float" : VW == 2 ? "float2" : VW == 4 ? "float4" : VW == 8 ? "float8" : "float16"
% let INT = VW == 1 ? "int" : VW == 2 ? "int2" : VW == 4 ? "int4" : VW == 8 ? "int8" : "int16"
% let SUFFIX = VW == 1 ? "" : VW == 2 ? "2" : VW == 4 ? "4" : VW == 8 ? "8" : "16"
