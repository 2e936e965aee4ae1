%# Which keys a query sees. Masks are intervals: causal masks, windows, offsets and lengths are one for each query.
% if WINDOW
/* Query i sees the keys from x on, up to and without y; neither falls from a query to the next. */
${FUNCTION} long2 interval(long i, long keys, long offset, long left, long right)
{
    return ${LONG2}(left < 0 ? 0L : clamp(i + offset - left, 0L, keys), right < 0 ? keys : clamp(i + offset + right + 1, 0L, keys));
}
% else
/* Query i sees the keys before this one. */
${FUNCTION} long interval(long i, long keys, long offset)
{
% if CAUSAL
    return clamp(i + offset + 1, 0L, keys);
% else
    return keys;
% end
}
% end
