%# Which keys a query sees. Causal masks, windows, offsets and lengths together leave one interval of keys for each query.
% if WINDOW
/* Query i sees the keys x to y - 1; neither bound falls from a query to the next. */
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
