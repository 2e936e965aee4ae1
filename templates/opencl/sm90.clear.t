%# Clears keys or values that exist but take no part.
/* What lies behind a sequence's end may be NaN, and 0 * NaN is NaN. So it is set to zero, as what lies outside the tensor is
 * already. */
INLINED void clear_behind(struct source *f, uint at, int end, uint full)
{
    const uint shared = f->shared;
    await(LANDED, f->landed++ & 1);
    for (int c = 0; c < ${(1 + V_TWO)*VB}; c++)
        for (int byte = end * 128 + f->lane * 16; byte < ${BK*128}; byte += 512)
            zero16(at + c * ${BK*128} + byte);
    shared_written();
    warp_sync();
    if (f->lane == 0)
        arrive(full);
}
