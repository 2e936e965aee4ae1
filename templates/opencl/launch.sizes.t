%# What a launch need not know of a kernel that neither splits keys nor takes tensor maps, and has a work-group for each tile: struct
%# gen_launch in gen/gen.h says what each is.
% let LAUNCH_SPLIT = 0
% let LAUNCH_BEGIN = "anywhere"
% let LAUNCH_ONE_TILE = 1
% let LAUNCH_MAPS = 0
% let LAUNCH_EARLY = 0
