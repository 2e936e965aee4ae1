%# What the language needs before a file's own functions.
% if defined(CUDA) ? CUDA : 0
% include "cuda/begin.t"
% elif defined(INVARIANT) ? INVARIANT : 0
#pragma OPENCL FP_CONTRACT OFF /* otherwise a row's bits would depend on how a compiler contracts the text around it */
% end
