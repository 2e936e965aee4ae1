%# Which of the caller's fields change scores one by one, before the softmax, and which make a kernel take a struct of features:
%# for algorithms that have all of them. One that lacks some asks for those that it has, so that the others are refused.
% let MODIFY = SOFTCAP or BIAS != "none" or MASK or ALIBI
% let SCALED = type_scaled(DTYPE_KV)
% let FEATURES = MODIFY or WINDOW or SINK or PACKED or PAGED or SCALED
