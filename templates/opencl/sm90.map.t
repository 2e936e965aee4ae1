%# How both of sm90's ways to drive the copy engine begin.
/* The first 64 bits of a map are its tensor's address, which the host does not know. */
INLINED void place_map(__global ulong *to, const ulong *words, ulong address)
{
    to[0] = address;
    #pragma unroll
    for (int i = 1; i < 16; i++)
        to[i] = words[i];
    map_written((ulong)to);
}
% if PACKED

/* The same; the map also gets the number of rows of all sequences. */
INLINED void place_rows(__global ulong *to, const ulong *words, ulong address, long rows)
{
    to[0] = address;
    #pragma unroll
    for (int i = 1; i < 16; i++)
        to[i] = i == 4 ? (words[i] & 0xffffffff) | (ulong)(rows > 0 ? rows - 1 : 0) << 32 : words[i];
    map_written((ulong)to);
}
% end
