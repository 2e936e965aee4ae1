%# What both of NVIDIA's levels share: whether features ask for the struct of their numbers, and (where keys are split too) for
%# tiles of keys that begin at one of their own; and the order of tiles.
% let FEATURES = WINDOW or SOFTCAP or SINK
% let FROM = WINDOW or SPLIT
% assert ORDER == "heavy" or CAUSAL and not SPLIT, "order: straight says something of causal runs alone, and not of splits; it must be left out"
% let NEAR = ORDER == "heavy" ? "In a causal run near heads, 1 or more, have their tiles done together, the heavy ones first." : "near is not read."
