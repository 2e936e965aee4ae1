"""Attention by its definition, in double precision, and the bound on errors that every kernel is held to."""
import numpy as np

U = {"f32": 0.0, "f16": 2.0 ** -12, "bf16": 2.0 ** -9}


def masked(q_len, kv_len, causal=False, offset=0, window=None, keys=None):
    """Which keys take part, bool [q_len, kv_len]."""
    p, j = np.arange(q_len)[:, None] + offset, np.arange(kv_len)[None, :]
    take = np.ones((q_len, kv_len), bool)
    if causal:
        take &= j <= p
    if window is not None:
        if window[0] >= 0:
            take &= j >= p - window[0]
        if window[1] >= 0:
            take &= j <= p + window[1]
    if keys is not None:
        take &= j < keys
    return take


def attend(q, k, v, take=None, scale=None, softcap=None, bias=None, slopes=None, offset=0, sinks=None,
           kind=np.float64):
    """O, LSE and the largest score, of [batch, heads, rows, elements]; `kind` is what is computed in."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.astype(kind), np.repeat(k.astype(kind), group, 1), np.repeat(v.astype(kind), group, 1)
    s = q @ k.swapaxes(-1, -2) * kind(scale if scale is not None else q.shape[-1] ** -0.5)
    if softcap is not None:
        s = kind(softcap) * np.tanh(s / kind(softcap))
    most = float(np.abs(s).max()) if s.size else 0.0
    if bias is not None:
        s = s + bias.astype(kind)
    if slopes is not None:
        p, j = np.arange(q.shape[2])[:, None] + offset, np.arange(k.shape[2])[None, :]
        s = s - slopes.astype(kind)[:, None, None] * np.abs(p - j)
    if take is not None:
        s = np.where(take, s, -np.inf)
    top = s.max(-1, keepdims=True) if s.shape[-1] else np.full(s.shape[:-1] + (1,), -np.inf, kind)
    safe = np.where(np.isinf(top), 0, top)
    p = np.exp(s - safe)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + safe)[..., 0]
    below = total
    if sinks is not None:
        below = total + np.exp(sinks.astype(kind)[:, None, None] - safe)
    o = np.where(total > 0, p @ v / np.where(total > 0, below, 1), 0)
    return o, lse, most


def check(o, q, k, v, dtype="f32", lse=None, **features):
    """Asserts that O, and LSE if given, are within the bound."""
    exact, exact_lse, most = attend(q, k, v, **features)
    naive, naive_lse, _ = attend(q, k, v, kind=np.float32, **features)
    if dtype != "f32":
        naive = narrow(naive.astype(np.float32), dtype)
    u, top = U[dtype], float(np.abs(np.asarray(v, np.float64)).max()) if v.size else 0.0
    bound = 2 * np.abs(naive - exact).max(initial=0) + (2.0 ** -23 * (2 + most) + u) * top
    error = np.abs(np.asarray(o, np.float64) - exact).max(initial=0)
    assert error <= bound, f"error {error}, bound {bound}"
    if lse is not None:
        there = ~np.isinf(exact_lse)
        assert (np.isinf(lse) == ~there).all()
        exact_lse, naive_lse, lse = exact_lse[there], naive_lse[there], lse[there]
        bound = (2 * np.abs(naive_lse - exact_lse).max(initial=0) + 2.0 ** -22 * (1 + most) + u
                 + 2.0 ** -23 * np.abs(exact_lse).max(initial=0))
        assert np.abs(lse - exact_lse).max(initial=0) <= bound


def narrow(x, dtype):
    """float32 values rounded to f16 or bf16, as float32."""
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
