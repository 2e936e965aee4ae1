%# What the language needs before the structs that host and device share.
% if defined(CUDA) ? CUDA : 0
% include "cuda/head.t"
% end
