%# What features ask of both of NVIDIA's levels: the struct of their numbers, and (where keys are split too) tiles of keys that
%# begin at one of their own.
% let FEATURES = WINDOW or SOFTCAP or SINK
% assert ORDER == "heavy" or CAUSAL and not SPLIT, "order: straight says something of causal runs alone, and not of splits; it must be left out"
% let FROM = WINDOW or SPLIT
