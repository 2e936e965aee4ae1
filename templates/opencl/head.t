%# What the language needs before the structs that host and device share.
% if CUDA
% include "cuda/head.t"
% end
