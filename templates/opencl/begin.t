%# What the language needs before a file's own functions.
% if defined(CUDA) ? CUDA : 0
% include "cuda/begin.t"
% elif defined(INVARIANT) ? INVARIANT : 0
#pragma OPENCL FP_CONTRACT OFF /* or a row's bits would depend on what a compiler makes of the text around it */
% end
