%# Forward attention in C. This file is what a kernel is made of; the algorithm is tiles.t, or few.t where the keys are split.
% include "c/attn.sizes.t"
% include "c/header.t"
% own
% lower
% include "c/sequence.t"
% include "c/rows.t"
% if SPLIT
% include "c/few.t"
% else
% include "c/tiles.t"
% end
% end_own
#endif
