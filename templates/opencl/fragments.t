%# The table in the comment that begins a file: where a fragment's elements are. WITHIN says which rows are counted.
 * What, in a work-item or in shared memory       | row of ${WITHIN}| column
 * -----------------------------------------------|-------------------------------------|---------------------------
% if defined(FEW) and FEW or defined(IN_FOURS) and IN_FOURS
 * element n of scores S                          | lane/4 + 8*(n/2%2)                  | 8*(n/4) + 2*(lane%4) + n%2
 * element n of output O                          | lane/4 + 8*(n/2%2)                  | 4*(n/8*4+lane%4)+2*(n%2)+n/4%2
% elif ISA == "sm90" and LOOP != "joint"
 * element n of scores S, and of output O         | 16*warp + lane/4 + 8*(n/2%2)        | 8*(n/4) + 2*(lane%4) + n%2
% else
 * element n of scores S, and of output O         | lane/4 + 8*(n/2%2)                  | 8*(n/4) + 2*(lane%4) + n%2
% end
 * half n%2 of word n/2 of probabilities P        | the same                            | the same
% if UNSWIZZLED
 * 16 bytes c of row r of a box                   | r                                   | from 8*c on
% elif ISA == "sm80"
 * 16 bytes c of row r, of w bytes, of a box      | r                                   | from 8*(c^(r*w/128%(w/16))) on
% else
 * 16 bytes c of row r of a box                   | r                                   | from 8*(c^(r%8)) on
% end
