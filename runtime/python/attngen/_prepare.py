"""Turns arrays and numbers into struct attn_run and the plan that it needs: what a call is prepared from, once for each
combination of sides, strides and types.

What it is not: libattn's checks. Only what ctypes cannot express is refused here. attn_plan_create and attn_execute
check lengths, strides and numbers, and the caller gets their messages.
"""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _c, _plans
from ._arrays import View
from ._plans import int64

FLOATS = ("f32", "f16", "bf16")
# Arrays of struct attn_run that a call may have besides Q, K, V, O and LSE, and the element types of each.
EXTRAS = {"bias": FLOATS, "mask": ("bool", "u8"), "kv_lens": ("i64",), "q_starts": ("i64",), "kv_starts": ("i64",),
          "block_table": ("i32",), "alibi_slopes": ("f32",), "sinks": ("f32",), "k_scales": ("f32",),
          "v_scales": ("f32",)}
# Types that only K and V may have, by the element type of the array: bytes, and blocks as bytes, which kv_dtype names.
NARROW = {"i8": ("int8",), "fp8": ("fp8",), "u8": ("fp8", "q8_0", "q4_0")}
NARROWED = ("int8", "fp8", "q8_0", "q4_0")
BLOCKS = {"q8_0": 34, "q4_0": 18}  # bytes of a block of 32 values
EXTRA_AT = {name: getattr(_c.Run, name).offset for name in EXTRAS}


class Sides(NamedTuple):
    """A tensor as struct attn_run has it: batch (or pages), heads, rows, the elements of a row, and the strides of the
    first three."""
    batch: int
    heads: int
    rows: int
    dim: int
    strides: Tuple[int, int, int]


def fail(text: str) -> _c.Invalid:
    return _c.Invalid(text)


def check_writable(name: str, view: View) -> None:
    if not view.writable:
        raise fail(f"{name} is read-only; expected an array that may be written to")


def check_row(name: str, view: View) -> None:
    if view.shape[-1] > 1 and view.strides[-1] != 1 and 0 not in view.shape:
        raise _c.Unsupported(f"{name} has a stride of {view.strides[-1]} elements within a row; expected 1, since the "
                             "elements of a row are contiguous")


def usable(sides: Sequence[int], strides: Sequence[int], dim: int) -> Tuple[int, int, int]:
    """Strides in which those along sides of 0 or 1 are the elements of a row: they do not matter, but three 0 mean
    contiguous."""
    batch, head, row = (stride if side > 1 else dim for side, stride in zip(sides, strides))
    kept = (batch, head, row)
    if not any(kept):
        raise _c.Unsupported("an array has strides of 0 along batch, head and row; expected one that is not 0, since "
                             "three zeros mean contiguous to libattn")
    return kept


def sides_of(name: str, view: View, layout: str, packed: bool) -> Sides:
    check_row(name, view)
    shape, strides = view.shape, view.strides
    if packed:
        if len(shape) != 3:
            raise fail(f"{name} has {len(shape)} dimensions; expected 3, [rows, heads, elements], since it is packed")
        sides, steps = (1, shape[1], shape[0]), (0, strides[1], strides[0])
    else:
        if len(shape) != 4:
            raise fail(f"{name} has {len(shape)} dimensions; expected 4, "
                       f"{'[batch, heads, rows, elements]' if layout == 'bhsd' else '[batch, rows, heads, elements]'}")
        order = (0, 1, 2) if layout == "bhsd" else (0, 2, 1)
        sides = tuple(shape[i] for i in order)  # type: ignore[assignment]
        steps = tuple(strides[i] for i in order)  # type: ignore[assignment]
    dim = shape[-1]
    return Sides(sides[0], sides[1], sides[2], dim, usable(sides, steps, max(dim, 1)))


def broadcast(name: str, view: View, sides: Tuple[int, ...]) -> Tuple[int, ...]:
    """Strides of an array over the given sides: 0 along a side of the array that is 1 where the given one is not."""
    shape, strides = view.shape, view.strides
    if len(shape) > len(sides):
        raise fail(f"{name} has {len(shape)} dimensions; expected at most {len(sides)}")
    missing = len(sides) - len(shape)
    steps: List[int] = [0] * missing
    for i, (side, stride) in enumerate(zip(shape, strides)):
        whole = sides[missing + i]
        if side != whole and side != 1:
            raise fail(f"{name} is {list(shape)}; expected sides that are 1 or those of {list(sides)}")
        steps.append(stride if side == whole and whole != 1 else 0)
    return tuple(steps)


def dense_like(shape: Sequence[int], strides: Sequence[int]) -> Tuple[int, ...]:
    """Strides of an array without gaps whose sides have the order in memory of `strides`, with the last side innermost."""
    out, step = [0] * len(shape), shape[-1] if shape[-1] > 1 else 1
    out[-1] = 1
    for i in sorted(range(len(shape) - 1), key=lambda i: (strides[i], -i)):
        out[i] = step
        step *= max(shape[i], 1)
    return tuple(out)


def collapse(name: str, view: View) -> View:
    """The same array with four dimensions: missing ones become 1, and surplus leading ones are joined."""
    shape, strides = view.shape, view.strides
    if len(shape) == 4:
        return view
    if len(shape) < 2:
        raise fail(f"{name} is {list(shape)}; expected at least two sides, [rows, elements]")
    if len(shape) < 4:
        missing = 4 - len(shape)
        return view._replace(shape=(1,) * missing + tuple(shape), strides=(0,) * missing + tuple(strides))
    batch, step = 1, 0
    for side, stride in zip(reversed(shape[:-3]), reversed(strides[:-3])):
        if side != 1 and batch > 1 and stride != step * batch and 0 not in shape:
            raise _c.Unsupported(f"the leading sides of {name}, {list(shape[:-3])} with strides {list(strides[:-3])}, do "
                                 "not form one side with one stride; expected sides that do, since nothing is copied")
        if side != 1:
            step = stride if batch == 1 else step
            batch *= side
    return view._replace(shape=(batch,) + tuple(shape[-3:]), strides=(step,) + tuple(strides[-3:]))


def spread(k: View, v: View) -> Tuple[View, View]:
    """Key and value of four sides: where one has a side of 1 for batch or heads and the other has more, it serves all."""
    def over(one: View, other: View) -> View:
        alone = [i < 2 and side == 1 < other.shape[i] for i, side in enumerate(one.shape)]
        return one._replace(shape=tuple(other.shape[i] if lone else side for i, (side, lone) in enumerate(zip(one.shape, alone))),
                            strides=tuple(0 if lone else stride for stride, lone in zip(one.strides, alone)))
    return over(k, v), over(v, k)


def kv_type(view: View, kv_dtype: Optional[str]) -> str:
    """What K and V hold; refuses an array whose element type cannot hold it."""
    types = NARROW.get(view.dtype, (view.dtype,))
    if kv_dtype is None and len(types) == 1:
        return types[0]
    if kv_dtype not in types:
        raise fail(f"kv_dtype is {kv_dtype!r} and k has type {type_name(view.dtype)}; expected one of {', '.join(types)}")
    return kv_dtype


def values_of(elements: int, kv_dtype: Optional[str]) -> int:
    """The number of values in so many elements of a row, which are bytes if the row consists of blocks."""
    size = BLOCKS.get(kv_dtype or "")
    if size is None:
        return elements
    if elements % size:
        raise fail(f"a row of {kv_dtype} has {elements} bytes; expected a multiple of {size}, the bytes of a block")
    return elements // size * 32


def in_blocks(name: str, s: Sides, kv_dtype: str) -> Sides:
    """The sides and strides of rows of bytes as those of rows of blocks."""
    size = BLOCKS.get(kv_dtype)
    if size is None:
        return s
    if any(step % size for side, step in zip((s.batch, s.heads, s.rows), s.strides) if side > 1):
        raise _c.Unsupported(f"strides of {name} are {list(s.strides)} bytes; expected multiples of {size}, the bytes of "
                             "a block")
    batch, head, row = (max(step // size, 1) if side <= 1 else step // size
                        for side, step in zip((s.batch, s.heads, s.rows), s.strides))
    return Sides(s.batch, s.heads, s.rows, values_of(s.dim, kv_dtype), (batch, head, row))


def _type_of(name: str, value: Any) -> str:
    found = _plans.element_type(value)
    _plans._choice(name, _c.FLOATS if name == "o_dtype" else _c.DTYPES, found)
    return found


_PLAIN = frozenset((bool, int, float, str, tuple, type(None)))
_READ = {"causal": _plans.flag, "is_causal": _plans.flag, "enable_gqa": _plans.flag, "invariant": _plans.flag, "lse": _plans.flag,
         "q_offset": int64, "q_len": int64, "kv_len": int64, "threads": int64, "scale": _plans.real, "softcap": _plans.real,
         "time_limit": _plans.real, "dropout_p": _plans.real, "kv_dtype": _type_of, "o_dtype": _type_of}


def plain(names: Sequence[str], values: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """Options as Python's own numbers: prepared calls are found by them, and an array or a tensor may change later. The
    same object, if they are such numbers already."""
    if _PLAIN.issuperset(map(type, values)):
        return values
    found = []
    for name, value in zip(names, values):
        if type(value) not in _PLAIN:
            if name not in _READ:
                raise fail(f"{name} is {value!r}; expected a string")
            value = _READ[name](name, value)
        found.append(value)
    return tuple(found)


class Options(NamedTuple):
    """The options of a call that are not arrays."""
    causal: bool = False
    align: str = "bottom-right"
    q_offset: Optional[int] = None
    scale: Optional[float] = None
    window: Optional[Tuple[int, int]] = None
    softcap: Optional[float] = None
    layout: str = "bhsd"
    q_len: Optional[int] = None
    kv_len: Optional[int] = None
    o_dtype: Optional[str] = None
    lse: bool = False
    threads: Optional[int] = None
    rigor: Optional[str] = None
    compiler: Optional[str] = None
    time_limit: Optional[float] = None
    variant: Optional[str] = None
    kv_dtype: Optional[str] = None
    invariant: Optional[bool] = None


def tuned_window(left: int, right: int) -> Tuple[int, int]:
    """The window that all windows of about this size share, as in tuning."""
    return (-1 if left < 0 else _plans.rounded(left + 1) - 1, -1 if right < 0 else _plans.rounded(right + 1) - 1)


_TYPE_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i64": "int64", "i32": "int32",
               "i8": "int8", "u8": "uint8", "fp8": "float8_e4m3fn"}


def type_name(dtype: str) -> str:
    """An element type as NumPy and PyTorch call it."""
    return _TYPE_NAMES.get(dtype, dtype)


def check_type(name: str, view: View, types: Sequence[str]) -> None:
    if view.dtype not in types:
        raise _c.Unsupported(f"{name} has type {type_name(view.dtype)}; expected " + " or ".join(type_name(t) for t in types))


def check_devices(views: Dict[str, View]) -> None:
    where = views["q"].device
    for name, view in views.items():
        if view.device != where:
            here, there = (f"cuda:{d}" if d >= 0 else "the processor" for d in (where, view.device))
            raise fail(f"q is on {here} and {name} is on {there}; expected all on one device")


def put_vector(name: str, view: View, sides: Tuple[int, ...]) -> None:
    """Checks an array that struct attn_run takes without strides."""
    step = 1
    for side, stride in zip(reversed(view.shape), reversed(view.strides)):
        if side > 1 and stride != step:
            raise _c.Unsupported(f"{name} has strides {list(view.strides)}; expected it to be contiguous")
        step *= side
    if tuple(view.shape) != sides:
        raise fail(f"{name} is {list(view.shape)}; expected {list(sides)}")


class Request(NamedTuple):
    """A whole call apart from the plan: the key to find a plan by, and struct attn_run without addresses."""
    key: _plans.Key
    run: _c.Run
    o_shape: Tuple[int, ...]
    o_strides: Tuple[int, ...]
    o_dtype: str
    lse_shape: Tuple[int, ...]
    starts: Tuple[Tuple[str, int, int], ...]  # starts of packed sequences: name, bytes before the last, most that it may be


def layout_shape(layout: str, batch: int, heads: int, rows: int, dim: int) -> Tuple[int, ...]:
    return (batch, heads, rows, dim) if layout == "bhsd" else (batch, rows, heads, dim)


def request(views: Dict[str, View], o: Optional[View], options: Options, threads: int) -> Request:
    """Reads arrays and options. Refuses what struct attn_run and struct attn_problem cannot express."""
    q, k, v = views["q"], views["k"], views["v"]
    check_devices(views)
    check_type("q", q, FLOATS)
    for name, view in (("k", k), ("v", v)):
        check_type(name, view, FLOATS + tuple(NARROW))
    kv_dtype = kv_type(k, _plans.element_type(options.kv_dtype))
    if v.dtype != k.dtype:
        raise _c.Unsupported(f"k has type {type_name(k.dtype)} and v has type {type_name(v.dtype)}; expected one type for both")
    if options.layout not in ("bhsd", "bshd"):
        raise fail(f"layout is {options.layout!r}; expected 'bhsd' or 'bshd'")
    q_packed, paged = "q_starts" in views, "block_table" in views
    kv_packed = "kv_starts" in views and not paged
    qs = sides_of("q", q, options.layout, q_packed)
    ks, vs = (sides_of(name, view, options.layout, kv_packed) for name, view in (("k", k), ("v", v)))
    ks, vs = in_blocks("k", ks, kv_dtype), in_blocks("v", vs, kv_dtype)
    if (ks.batch, ks.heads, ks.rows) != (vs.batch, vs.heads, vs.rows):
        raise fail(f"k is {list(k.shape)} and v is {list(v.shape)}; expected the same except for the last side")
    if ks.dim != qs.dim:
        raise fail(f"rows of q have {qs.dim} elements and rows of k have {ks.dim}; expected the same number")

    if vs.dim < 1:  # as head_dim_v, 0 means head_dim
        raise fail(f"v is {list(v.shape)}; expected a last side of 1..512")

    batch = qs.batch
    for name in ("q_starts", "kv_starts"):
        if name in views:
            batch = views[name].shape[0] - 1 if len(views[name].shape) == 1 else -1
            if batch < 0:
                raise fail(f"{name} is {list(views[name].shape)}; expected [batch + 1]")
    q_len = int64("q_len", options.q_len) if options.q_len is not None else qs.rows
    if q_len != qs.rows and not q_packed:
        raise fail(f"q_len is {q_len} and q has {qs.rows} rows; expected the same number, or q_starts")
    held = ks.rows
    if paged:
        table = views["block_table"].shape
        held *= table[-1] if table else 0
    kv_len = int64("kv_len", options.kv_len) if options.kv_len is not None else held
    if kv_len > held and not kv_packed:
        raise fail(f"kv_len is {kv_len}; expected at most {held}, the rows of k" + (" in a sequence's pages" if paged else ""))
    if not q_packed and qs.batch != batch:
        raise fail(f"q has a batch of {qs.batch} and the starts have {batch} sequences; expected the same number")
    if not kv_packed and not paged and ks.batch != batch:
        if ks.batch != 1:
            raise fail(f"k has a batch of {ks.batch} and q has one of {batch}; expected the same number, or 1")
        ks, vs = (Sides(s.batch, s.heads, s.rows, s.dim, usable((2, s.heads, s.rows), (0,) + s.strides[1:], s.dim))
                  for s in (ks, vs))

    o_dtype = o.dtype if o is not None else _plans.element_type(options.o_dtype) or q.dtype
    o_shape = (qs.rows, qs.heads, vs.dim) if q_packed else \
        layout_shape(options.layout, qs.batch, qs.heads, qs.rows, vs.dim)
    o_strides = dense_like(o_shape, q.strides)
    if o is not None:
        check_type("out", o, FLOATS)
        check_writable("out", o)
        if o.device != q.device:
            raise fail("out is on another device than q; expected both on one device")
        if tuple(o.shape) != o_shape:
            raise fail(f"out is {list(o.shape)}; expected {list(o_shape)}")
        o_strides = o.strides
    os = sides_of("out", View(0, o_shape, o_strides, o_dtype, q.device), options.layout, q_packed)

    run = _c.Run(size=ctypes.sizeof(_c.Run), batch=batch, q_len=q_len, kv_len=kv_len)
    run.q_stride[:], run.k_stride[:], run.v_stride[:], run.o_stride[:] = qs.strides, ks.strides, vs.strides, os.strides
    run.align = _plans._choice("align", _c.ALIGNS, options.align)
    if options.q_offset is not None:
        if options.align != "bottom-right":
            raise fail(f"q_offset is {options.q_offset} and align {options.align!r}; expected one of them")
        run.align, run.q_offset = _c.ALIGNS["q-offset"], int64("q_offset", options.q_offset)
    if options.scale is not None:
        run.scale, run.has_scale = _plans.real("scale", options.scale), 1
    if options.window is not None:
        run.window_left, run.window_right = (int64("window", n) for n in options.window)
    if options.softcap is not None:
        run.softcap = _plans.real("softcap", options.softcap)
    for name, strides in (("k_scales", run.k_scales_stride), ("v_scales", run.v_scales_stride)):
        if name in views:
            strides[:] = broadcast(name, views[name], (batch if not paged and not kv_packed else ks.batch, ks.heads, ks.rows))
    _put_extras(run, views, batch, qs.heads, q_len, kv_len)
    if paged:
        run.page_size, run.pages = ks.rows, ks.batch

    chosen: Dict[str, Any] = dict(_plans.defaults)
    for name in chosen:
        value = getattr(options, name, None)
        if value is not None:
            chosen[name] = value
    key = _plans.Key(
        device="cpu" if q.device < 0 else f"cuda:{q.device}", dtype=q.dtype, kv_dtype=kv_dtype, o_dtype=o_dtype,
        head_dim=qs.dim, head_dim_v=vs.dim, heads=qs.heads, kv_heads=ks.heads, max_batch=_plans.rounded(batch),
        max_q_len=_plans.rounded(q_len), max_kv_len=_plans.rounded(kv_len, _plans.LEAST_KEYS),
        causal=bool(_plans.flag("causal", options.causal)), window=options.window is not None, softcap=options.softcap is not None,
        bias=views["bias"].dtype if "bias" in views else None, mask="mask" in views, alibi="alibi_slopes" in views,
        sink="sinks" in views, packed="q_starts" in views or "kv_starts" in views, paged=paged,
        tune_window=(0, 0) if options.window is None else tuned_window(*options.window),
        invariant=bool(_plans.flag("invariant", chosen["invariant"])),
        threads=0 if q.device >= 0 else threads if chosen["threads"] is None else chosen["threads"],
        rigor=chosen["rigor"], compiler=chosen["compiler"], time_limit=chosen["time_limit"], variant=options.variant)
    lse_shape = (qs.heads, qs.rows) if q_packed else (batch, qs.heads, q_len)
    starts = tuple((name, 8 * batch, rows) for name, packed, rows in (("q_starts", q_packed, qs.rows),
                                                                      ("kv_starts", kv_packed, ks.rows)) if packed)
    return Request(key, run, o_shape, o_strides, o_dtype, lse_shape, starts)


def _put_extras(run: _c.Run, views: Dict[str, View], batch: int, heads: int, q_len: int, kv_len: int) -> None:
    for name, types in EXTRAS.items():
        if name in views:
            check_type(name, views[name], types)
    for name, strides in (("bias", run.bias_stride), ("mask", run.mask_stride)):
        if name in views:
            strides[:] = broadcast(name, views[name], (batch, heads, q_len, kv_len))
    for name in ("alibi_slopes", "sinks"):
        if name in views:
            put_vector(name, views[name], (heads,))
    if "kv_lens" in views:
        put_vector("kv_lens", views["kv_lens"], (batch,))
    for name in ("q_starts", "kv_starts"):
        if name in views:
            put_vector(name, views[name], (batch + 1,))
    if "block_table" in views:
        table = views["block_table"]
        if len(table.shape) != 2 or table.shape[0] not in (1, batch):
            raise fail(f"block_table is {list(table.shape)}; expected [batch, pages of a sequence]")
        if table.shape[1] > 1 and table.strides[1] != 1:
            raise _c.Unsupported("the entries of a row of block_table are not contiguous; expected contiguous rows")
        run.block_table_stride = table.strides[0] if table.shape[0] > 1 else 0

