%# What the language calls things, as text that templates put in. CUDA is 1 in CUDA C++, else 0: nobody asks for it but this file,
%# head.t and begin.t. MAPS_WHOLE: the host knows addresses, so that tensor maps come whole, in the launch's parameter.
% if defined(CUDA) ? CUDA : 0
% include "cuda/words.t"
% else
% include "opencl/words.opencl.t"
% end
