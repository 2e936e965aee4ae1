%# What each language calls things, as text that templates insert. CUDA is 1 in CUDA C++, else 0; only this file, head.t and begin.t
%# ask for it. MAPS_WHOLE: the host knows addresses, so tensor maps come complete, in the launch's parameter.
% if defined(CUDA) ? CUDA : 0
% include "cuda/words.t"
% else
% include "opencl/words.opencl.t"
% end
