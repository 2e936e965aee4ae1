%# Of the scales of values that exponents bear: what they do not.

/* What a value is times, where exponents bear the logarithm of its scale: its sign, or all of a scale that is 0 or no number; and what a
 * scale is beyond 2**-60 and 2**60, where exponents end. */
static float rest_of(float scale)
{
    const float least = 8.67361738e-19f, most = 1.15292150e18f, size = scale < 0 ? -scale : scale;
    return size < least ? scale / least : size > most ? scale / most : size != size ? scale : scale < 0 ? -1.0f : 1.0f;
}
