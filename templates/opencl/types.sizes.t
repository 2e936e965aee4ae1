%# What types.t calls the storage types and the vectors of f32 that kernels compute with.
% let TYPE = DTYPE == "f32" ? "float" : "ushort"
% let TYPE_KV = DTYPE_KV == "f32" ? "float" : "ushort"
% let TYPE_O = DTYPE_O == "f32" ? "float" : "ushort"
% let VEC = VW == 1 ? "float" : VW == 2 ? "float2" : VW == 4 ? "float4" : VW == 8 ? "float8" : "float16"
% let INT = VW == 1 ? "int" : VW == 2 ? "int2" : VW == 4 ? "int4" : VW == 8 ? "int8" : "int16"
% let SUFFIX = VW == 1 ? "" : VW == 2 ? "2" : VW == 4 ? "4" : VW == 8 ? "8" : "16"
