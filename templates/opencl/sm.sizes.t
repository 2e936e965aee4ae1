%# What features ask of both of NVIDIA's levels: the struct of their numbers, and tiles of keys that begin at one of their own.
% let FEATURES = WINDOW or SOFTCAP or SINK
% let FROM = WINDOW
