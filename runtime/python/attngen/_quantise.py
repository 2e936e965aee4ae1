"""quantise: rows to the types that only K and V may have, and into the pages of a cache."""
from __future__ import annotations

import ctypes
from typing import Any, Tuple

from . import _c, _plans
from ._arrays import DLPACK, View, adapter_of, contiguous
from ._overlap import Apart
from ._prepare import BLOCKS, FLOATS, NARROWED, broadcast, check_writable, fail, sides_of, type_name


def quantise(x: Any, to: str, *, scales: Any = None, share: str = "row", out: Any = None, out_scales: Any = None,
             slots: Any = None) -> Any:
    """Converts the rows of a NumPy array or of a tensor, also on a CUDA card, to a type that only K and V may have.

    x: float32, float16 or bfloat16 [batch, KV heads, rows, D], with pages instead of batch for a paged cache. to: "int8",
    "fp8" (OCP's E4M3), "q8_0" or "q4_0" (ggml's blocks of 32 values; D is then a multiple of 32). Returns (stored, scales).
    stored is int8 or uint8 [batch, KV heads, rows, D], and for blocks uint8 [batch, KV heads, rows, bytes of a row];
    scales is float32, and None for blocks.

    share: what shares a scale: "row" (scales [batch, KV heads, rows]), "head" ([batch, KV heads, 1]) or "all" ([1, 1, 1]).
    scales: float32 with one of these shapes: scales to use instead of computing them, as for rows that are added to a
    cache. Numbers are rounded to the nearest, ties to even, and those out of range become the largest of their sign; see
    attn_quantise in attn.h. On a card, the kernel is launched on PyTorch's current stream and the call returns at once.

    out, out_scales: the arrays for the stored numbers and for computed scales, which are then returned. slots: int64
    [batch, rows], the place of each row of x in a cache `out` [pages, KV heads, rows of a page, D]: row slot % rows of
    page slot // rows; a row with a negative slot is left out. out is then required, and so is out_scales if scales are
    computed. scales and out_scales have the sides of the cache, of which any but KV heads may be 1.
    """
    adapter = adapter_of(x, "x")
    if adapter is DLPACK:
        raise fail("x is neither a NumPy array nor a PyTorch tensor; expected one of these")
    if adapter.tracing():
        return adapter.traced_quantise(x, to, scales, share, out, out_scales, slots)
    adapter.check(x, scales, out, out_scales, slots)
    view = adapter.view(x)
    if view.dtype not in FLOATS or len(view.shape) != 4:
        raise fail(f"x is {list(view.shape)} of {type_name(view.dtype)}; expected [batch, KV heads, rows, D] of a float type")
    s = sides_of("x", view, "bhsd", False)
    if to not in NARROWED or share not in ("row", "head", "all"):
        raise fail(f"to is {to!r} and share {share!r}; expected one of {', '.join(NARROWED)}, and row, head or all")
    size = BLOCKS.get(to)
    if size and s.dim % 32:
        raise fail(f"D is {s.dim}; expected a multiple of 32 for {to}")
    width = s.dim // 32 * size if size else s.dim
    p = _c.Quantisation(size=ctypes.sizeof(_c.Quantisation), from_=_c.DTYPES[view.dtype], to=_c.DTYPES[to],
                        batch=s.batch, heads=s.heads, rows=s.rows, width=s.dim, in_=view.pointer)
    p.in_stride[:] = s.strides
    sides = (s.batch, s.heads, s.rows)
    if slots is not None:
        if out is None:
            raise fail("slots are given and out is not; expected the cache that they belong to")
        where = adapter.view(slots)
        if where.dtype != "i64" or where.shape != (s.batch, s.rows) or where.strides != contiguous(where.shape) or \
                where.device != view.device:
            raise fail(f"slots is {list(where.shape)} of {type_name(where.dtype)}; expected {[s.batch, s.rows]} of int64, contiguous, on "
                       "x's device")
        pages, _, page_size = adapter.view(out).shape[:3] if len(adapter.view(out).shape) == 4 else (0, 0, 1)
        p.slots, p.pages, p.page_size = where.pointer, pages, page_size
        sides = (pages, s.heads, page_size)
    kind = "i8" if to == "int8" else "u8"
    if out is None:
        out = adapter.empty(sides + (width,), contiguous(sides + (width,)), kind, x)
    stored = adapter.view(out)
    unit = size or 1
    if stored.shape != sides + (width,) or stored.dtype not in (kind, "fp8" if to == "fp8" else kind) or \
            stored.device != view.device or \
            (0 not in stored.shape and ((width > 1 and stored.strides[3] != 1) or any(n % unit for n in stored.strides[:3]))):
        raise fail(f"out is {list(stored.shape)} of {type_name(stored.dtype)}; expected {list(sides + (width,))} of "
                   f"{'int8' if to == 'int8' else 'uint8'} on x's device, with contiguous rows")
    check_writable("out", stored)
    p.out = stored.pointer
    p.out_stride[:] = [n // unit if side > 1 else 1 for side, n in zip(stored.shape, stored.strides[:3])]
    scales = _quantise_scales(adapter, x, view, p, to, scales, share, out_scales, sides)
    written, read = {"out": stored}, {"x": view}
    if scales is not None:
        (read if p.given else written)["scales"] = adapter.view(scales)
    if slots is not None:
        read["slots"] = where
    Apart(written, read).check(tuple(a.pointer for a in (*written.values(), *read.values())))
    if view.device < 0:
        _c.call("attn_quantise", ctypes.byref(p))
    else:
        _c.call("attn_quantise_cuda", _plans.any_on(view.device).handle, ctypes.byref(p), adapter.stream(view.device))
    return out, scales


def _quantise_scales(adapter: Any, x: Any, view: View, p: Any, to: str, scales: Any, share: str, out_scales: Any,
                     sides: Tuple[int, ...]) -> Any:
    """The scales of a quantisation: the given ones, or memory for computed ones."""
    if to in BLOCKS:
        if scales is not None or out_scales is not None:
            raise fail(f"scales are given and to is {to!r}; expected none, since blocks hold their own")
        return None
    if scales is not None and out_scales is not None:
        raise fail("scales and out_scales are both given; expected one of them")
    p.given = int(scales is not None)
    if scales is None and out_scales is not None:
        check_writable("out_scales", adapter.view(out_scales))
        scales = out_scales
    if scales is None and p.slots:
        raise fail("slots are given, but neither scales nor out_scales; expected those of the cache")
    if scales is None:
        shared = {"row": sides, "head": sides[:2] + (1,), "all": (1, 1, 1)}[share]
        scales = adapter.empty(shared, contiguous(shared), "f32", x)
    of = adapter.view(scales)
    if of.dtype != "f32" or of.device != view.device:
        raise fail(f"scales have type {type_name(of.dtype)}; expected float32 on x's device")
    p.scales, p.scales_stride[:] = of.pointer, broadcast("scales", of, sides)
    return scales
