% if MAPS_WHOLE
% include "cuda/maps.h"
% else
% include "opencl/maps.h"
% end
