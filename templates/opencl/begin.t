%# What the language needs before a file's own functions.
% if CUDA
% include "cuda/begin.t"
% end
