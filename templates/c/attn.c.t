%# Forward attention in C. This file is what a kernel is made of; the algorithm is tiles.t, few.t where the keys are split, or woven.t
%# where the ISA has tiles.
% include "c/types.sizes.t"
% if WOVEN
% include "c/woven.sizes.t"
% else
% include "c/attn.sizes.t"
% end
% include "c/header.t"
% own
% lower
% include "c/sequence.t"
% include "c/rows.t"
% if WOVEN
% include "c/woven.t"
% elif SPLIT
% include "c/few.t"
% else
% include "c/tiles.t"
% end
% end_own
#endif
