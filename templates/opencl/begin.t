%# What the language needs before a file's own functions.
% if defined(CUDA) ? CUDA : 0
% include "cuda/begin.t"
% end
