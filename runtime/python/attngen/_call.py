"""sdpa and attention: the functions that users call. What it is not: plans that users keep (_plan.py)."""
from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any, Dict, Optional, Tuple

from . import _c, _openmp, _plans
from ._arrays import DLPACK, NUMPY, Exported, View, adapter_of, contiguous, torch_adapters
from ._overlap import Apart
from ._plans import Call
from ._prepare import (EXTRA_AT, FLOATS, Options, broadcast, check_writable, collapse, dense_like, fail,
                       plain, request, spread, type_name)

#: Stands for the address of a tensor without elements, which PyTorch says is 0: to libattn that is an array not given.
NOWHERE = 64
#: How often `fallback="torch"` made PyTorch compute instead, by libattn's message.
fallbacks: "Counter[str]" = Counter()

_sdpa_calls: Any = _plans.call_cache()
_sdpa_bases: Any = _plans.call_cache()  # calls that differ only in the number of keys


def _prepare(views: Dict[str, View], o: Optional[View], options: Options, threads: int,
             plan: Optional[_plans.Compiled] = None) -> Call:
    r = request(views, o, options, threads)
    compiled = plan or _plans.find(r.key)
    if plan is not None:
        _check_plan(plan.key, r.key)
    call = Call(compiled, r.run, r.o_shape, r.o_strides, r.o_dtype, r.lse_shape, views["q"].device)
    call.starts = r.starts if views["q"].device < 0 else ()  # a card's memory is not read here
    key, run = compiled.key, r.run
    alike = not views.keys() & {"kv_lens", "q_starts", "kv_starts"}  # else attn_execute balances lengths that differ
    if _plans.defaults["openmp"] and alike and threads > 1 and compiled.device == "cpu" and compiled.threads == threads and \
            run.batch * key.heads * run.q_len * run.kv_len * (key.head_dim + key.head_dim_v) >= _openmp.LEAST_WORK:
        call.parts = _openmp.parts_for(run.batch * key.kv_heads, compiled.threads)
    return call


def _check_plan(has: _plans.Key, wants: _plans.Key) -> None:
    """Refuses differences between a call and its plan that struct attn_run cannot show."""
    for name in ("device", "dtype", "kv_dtype", "o_dtype", "head_dim", "head_dim_v", "heads", "kv_heads", "causal",
                 "window", "softcap", "bias", "mask", "alibi", "sink", "packed", "paged"):
        if name == "device" and wants.device == "cpu" and not has.device.startswith("cuda"):
            continue  # attn_execute copies host arrays to an OpenCL device and back, and the reference computes on them
        if getattr(has, name) != getattr(wants, name):
            raise fail(f"{name} is {getattr(wants, name)} in the call and {getattr(has, name)} in the plan; expected "
                       "the plan's")


# ---- sdpa ------------------------------------------------------------------------------------------------------------

def _prepare_sdpa(adapter: Any, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
                  scale: Optional[float], enable_gqa: bool, out: Any) -> Tuple[Call, Any]:
    """The call, and where in struct attn_run the mask's address goes."""
    if dropout_p:
        raise _c.Unsupported(f"dropout_p is {dropout_p}; expected 0.0, since kernels have no dropout")
    if is_causal and attn_mask is not None:
        raise fail("attn_mask is given and is_causal is True; expected one of them, as for PyTorch (attngen.attention "
                   "takes both)")
    is_causal, enable_gqa = bool(_plans.flag("is_causal", is_causal)), bool(_plans.flag("enable_gqa", enable_gqa))
    adapter.check(query, key, value, attn_mask, out)
    given = {"q": adapter.view(query), "k": adapter.view(key), "v": adapter.view(value)}
    shape, strides = given["q"].shape, given["q"].strides
    views = {name: collapse({"q": "query", "k": "key", "v": "value"}[name], view) for name, view in given.items()}
    views["k"], views["v"] = spread(views["k"], views["v"])
    heads, kv_heads = views["q"].shape[1], views["k"].shape[1]
    if heads != kv_heads and not enable_gqa and kv_heads != 1:
        raise fail(f"query has {heads} heads and key has {kv_heads}; expected the same number, or enable_gqa=True")
    mask_at = None
    if attn_mask is not None:
        mask = adapter_of(attn_mask, "attn_mask").view(attn_mask)
        name = "mask" if mask.dtype == "bool" else "bias"
        if name == "bias" and mask.dtype not in FLOATS:
            raise _c.Unsupported(f"attn_mask has type {type_name(mask.dtype)}; expected bool, float32, float16 or bfloat16")
        views[name] = _spread_mask(mask, shape[:-1] + (views["k"].shape[2],))
        mask_at = EXTRA_AT[name]
    o_shape = tuple(shape[:-1]) + (views["v"].shape[-1],)
    o = None
    if out is not None:
        whole = adapter_of(out, "out").view(out)
        if tuple(whole.shape) != o_shape:
            raise fail(f"out is {list(whole.shape)}; expected {list(o_shape)}")
        o = collapse("out", whole)
    o_strides = dense_like(o_shape, strides if len(shape) <= 4 else range(len(shape), 0, -1))
    if o is None:
        o = collapse("out", View(0, o_shape, o_strides, views["q"].dtype, views["q"].device))
    call = _prepare(views, o, Options(causal=is_causal, align="top-left", scale=scale), adapter.threads())
    call.o_shape, call.o_strides = o_shape, o_strides
    call.like_q = (o_shape, o_strides) == (tuple(shape), tuple(strides)) and 0 not in o_shape
    if out is not None:
        read = {"query": views["q"], "key": views["k"], "value": views["v"]}
        if mask_at is not None:
            read["attn_mask"] = views[name]
        call.apart = Apart({"out": o}, read)
    return call, mask_at


def _grown(adapter: Any, query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, scale: Optional[float],
           enable_gqa: bool) -> Any:
    """Makes a call from an earlier one that differs only in the number of keys: a growing cache needs a new one for each
    token. None if there is no such earlier call."""
    signature = adapter.apart_from_keys(query, key, value, attn_mask)
    if signature is None:
        return None
    signature = (signature, is_causal, scale, enable_gqa)
    found = _sdpa_bases.get(signature)
    if found is None:
        found = _prepare_sdpa(adapter, query, key, value, attn_mask, 0.0, is_causal, scale, enable_gqa, None)
        _plans.remember(_sdpa_bases, signature, found)
        return found
    base, mask_at = found
    run = _c.Run.from_buffer_copy(base.run)
    run.kv_len, run.k_stride[:], run.v_stride[:] = key.shape[2], key.stride()[:3], value.stride()[:3]
    if mask_at is not None:
        steps = broadcast("attn_mask", adapter.view(attn_mask), tuple(query.shape[:3]) + (key.shape[2],))
        (run.mask_stride if mask_at == EXTRA_AT["mask"] else run.bias_stride)[:] = steps
    call = Call(base.plan, run, base.o_shape, base.o_strides, base.o_dtype, base.lse_shape, base.device)
    call.like_q = base.like_q
    return call, mask_at


def _spread_mask(mask: View, sides: Tuple[int, ...]) -> View:
    """attn_mask over [..., heads, rows, keys] as four sides, with stride 0 along those that are broadcast."""
    steps = broadcast("attn_mask", mask, sides)
    whole = mask._replace(shape=tuple(sides), strides=steps)
    return collapse("attn_mask", whole)


def sdpa(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
         scale: Optional[float] = None, enable_gqa: bool = False, *, out: Any = None,
         fallback: Optional[str] = None) -> Any:
    """Attention with the arguments and the meaning of torch.nn.functional.scaled_dot_product_attention.

    query is [..., heads, rows, D], key is [..., KV heads, keys, D] and value is [..., KV heads, keys, Dv], with D in
    1..576 and Dv in 1..512. The result is [..., heads, rows, Dv], of query's type. Leading dimensions may be missing.
    Arrays are NumPy's (float32, float16, ml_dtypes.bfloat16), PyTorch's on the processor or on a CUDA card, or any with
    __dlpack__. Nothing is copied: strides may be arbitrary, except that the elements of a row are contiguous. A side of
    1 of key and value serves every batch or head.

    attn_mask: bool (True: the key takes part) or float (added to the scores), with sides that are 1 or those of
        [..., heads, rows, keys]. A query for which no key is left gives zeros.
    dropout_p: must be 0.0. is_causal: row i sees keys 0..i (PyTorch's alignment, at the top left); excludes attn_mask.
    scale: multiplies the scores; default 1/sqrt(D). enable_gqa: query may have a multiple of key's heads.
    out: the array for the result, of its shape, with any strides, not overlapping an input. By default the result is a
        new array whose sides have the order in memory of query's.
    fallback: "torch" lets PyTorch compute what attngen cannot, and counts that in attngen.fallbacks.

    On CUDA tensors, the kernel is launched on PyTorch's current stream and the call returns at once; it can be captured
    into a graph (the first call for new sides may compile a kernel: make it before a capture). On the processor, the
    call uses PyTorch's number of threads for tensors, and all processors for other arrays. Any number of threads may
    call at the same time. On the processor, the first use of a kernel takes about a millisecond. The kernel is the
    cache's winner for such sides (see attngen.tune), or else a model's choice. Raises attngen.Invalid or
    attngen.Unsupported with a message that gives the broken rule; a tensor that requires grad is refused while
    gradients are recorded. Works in torch.compile(fullgraph=True).
    """
    adapter = adapter_of(query, "query")
    if fallback is not None and fallback != "torch":
        raise fail(f"fallback is {fallback!r}; expected None or 'torch'")
    if out is None and adapter.casts():
        query, key, value, attn_mask = adapter.cast(query, key, value, attn_mask)
    if adapter.tracing():
        return adapter.traced_sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out, fallback)
    return sdpa_now(adapter, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out, fallback)


def sdpa_now(adapter: Any, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
             scale: Optional[float], enable_gqa: bool, out: Any, fallback: Optional[str]) -> Any:
    """sdpa where nothing records operators: finds or makes the prepared call that fits, and executes it."""
    if adapter is DLPACK:
        return _sdpa_exported(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out, fallback)
    try:
        signature = (adapter.signature(query, key, value, attn_mask, out), is_causal, scale, enable_gqa, dropout_p)
        try:
            found: Any = _sdpa_calls.get(signature)
        except TypeError:  # an option is an array
            found = None
        if found is None:
            options = (is_causal, scale, enable_gqa, dropout_p)
            numbers = plain(("is_causal", "scale", "enable_gqa", "dropout_p"), options)
            if numbers is not options:
                is_causal, scale, enable_gqa, dropout_p = numbers
                return sdpa_now(adapter, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out, fallback)
            if out is None and not dropout_p:
                found = _grown(adapter, query, key, value, attn_mask, is_causal, scale, enable_gqa)
            found = found or _prepare_sdpa(adapter, query, key, value, attn_mask, dropout_p, is_causal, scale,
                                           enable_gqa, out)
            _plans.remember(_sdpa_calls, signature, found)
        call, mask_at = found
        pointer = adapter.pointer
        if out is not None:
            o = out
        elif call.large:
            o = adapter.large(call, query)
        elif call.like_q and adapter is not NUMPY:
            o = adapter.empty_like(query)
        else:
            o = adapter.empty(call.o_shape, call.o_strides, call.o_dtype, query)
        q_at, k_at, v_at, o_at = pointer(query), pointer(key), pointer(value), pointer(o)
        extras = () if mask_at is None else ((mask_at, pointer(attn_mask)),)
        if out is not None:
            call.apart.check((o_at, q_at, k_at, v_at, *[at for _, at in extras]))
        call.execute(q_at, k_at, v_at, o_at, 0, extras, None if call.device < 0 else adapter.stream(call.device))
        if out is not None:
            adapter.wrote(out)
        return o
    except (RuntimeError, AttributeError) as error:
        if not isinstance(error, _c.Error):
            if adapter.transformed():
                return adapter.traced_sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out,
                                           fallback)
            # An array is not of the library that it was taken for.
            _check_same(adapter, query=query, key=key, value=value)
            _check_same(adapter, **{name: a for name, a in (("attn_mask", attn_mask), ("out", out)) if a is not None})
            adapter.check(query, key, value, attn_mask, out)
            raise
        wanted = fallback or _plans.defaults["fallback"]
        if wanted is None:
            raise
        return _fall_back(error, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out)


def _check_same(adapter: Any, **arrays: Any) -> None:
    """Refuses arrays of different libraries."""
    for name, a in arrays.items():
        if adapter_of(a, name) is not adapter:
            raise fail(f"{name} is of type {type(a).__module__}.{type(a).__qualname__} and query is an array of "
                       f"{adapter.name}; expected all of one library")


def _sdpa_exported(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
                   scale: Optional[float], enable_gqa: bool, out: Any, fallback: Optional[str]) -> Any:
    """sdpa for arrays with DLPack: a call is prepared each time."""
    try:
        q, k, v = Exported(query), Exported(key), Exported(value)
        mask = None if attn_mask is None else Exported(attn_mask)
        o = None if out is None else Exported(out)
        call, mask_at = _prepare_sdpa(DLPACK, q, k, v, mask, dropout_p, is_causal, scale, enable_gqa, o)
    except _c.Error as error:
        if not (fallback or _plans.defaults["fallback"]):
            raise
        return _fall_back(error, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out)
    result = out if o is not None else _new(DLPACK, call, q)
    at = o.view.pointer if o is not None else adapter_of(result).pointer(result)
    extras = () if mask is None else ((mask_at, mask.view.pointer),)
    if o is not None:
        call.apart.check((at, q.view.pointer, k.view.pointer, v.view.pointer, *[place for _, place in extras]))
    call.execute(q.view.pointer, k.view.pointer, v.view.pointer, at, 0, extras, DLPACK.stream(call.device))
    return result


def _fall_back(error: _c.Error, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
               scale: Optional[float], enable_gqa: bool, out: Any) -> Any:
    try:
        adapter = torch_adapters().ADAPTER
    except ImportError:
        raise type(error)(f"{error}; fallback is 'torch', but PyTorch is not installed") from None
    result = adapter.torch_sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out)
    fallbacks[str(error)] += 1
    return result


# ---- attention -------------------------------------------------------------------------------------------------------

_attention_calls = _plans.call_cache()
_NOTHING: Dict[str, Any] = {}


def arrays_given(bias: Any, mask: Any, alibi_slopes: Any, sinks: Any, kv_lens: Any, q_starts: Any, kv_starts: Any,
                 block_table: Any, k_scales: Any, v_scales: Any) -> Dict[str, Any]:
    """The arrays that are given besides Q, K and V, by name; _NOTHING itself if there is none."""
    if bias is mask is alibi_slopes is sinks is kv_lens is q_starts is kv_starts is block_table is k_scales is v_scales \
            is None:
        return _NOTHING
    return {"bias": bias, "mask": mask, "alibi_slopes": alibi_slopes, "sinks": sinks, "kv_lens": kv_lens,
            "q_starts": q_starts, "kv_starts": kv_starts, "block_table": block_table, "k_scales": k_scales,
            "v_scales": v_scales}


# What may also be a list of numbers on the processor, and its element type.
_NUMBERS = {"kv_lens": "int64", "q_starts": "int64", "kv_starts": "int64", "block_table": "int32",
            "alibi_slopes": "float32", "sinks": "float32", "bias": "float32", "mask": "bool", "k_scales": "float32",
            "v_scales": "float32"}


def as_arrays(adapter: Any, given: Dict[str, Any]) -> Dict[str, Any]:
    """The arrays that are given, with arrays in place of lists."""
    return {name: _from_list(adapter, name, values) if isinstance(values, (list, tuple)) else values
            for name, values in given.items() if values is not None}


def _from_list(adapter: Any, name: str, values: Any) -> Any:
    try:
        return adapter.from_list(_NUMBERS[name], values)
    except (TypeError, ValueError) as error:
        raise fail(f"{name}: {error}") from None


def attend(plan: Optional[_plans.Compiled], cache: Dict[Any, Any], q: Any, k: Any, v: Any, out: Any, lse: Any,
           given: Dict[str, Any], options: Tuple[Any, ...]) -> Any:
    """The body of attention and of a Plan's call: finds or makes the prepared call that fits, and executes it."""
    adapter = adapter_of(q, "q")
    if adapter is not DLPACK and given is _NOTHING and (lse is False or lse is True):
        return _attend_plain(plan, cache, adapter, q, k, v, out, lse, options)
    options = Options(*plain(Options._fields, options))
    arrays = {"q": q, "k": k, "v": v, **as_arrays(adapter, given)}
    if adapter is DLPACK:
        arrays = {name: Exported(a) if adapter_of(a, name) is DLPACK else a for name, a in arrays.items()}
    adapters = {name: adapter_of(a, name) for name, a in arrays.items()}
    wants_lse, lse_out = lse is not False and lse is not None, lse if lse is not True and lse is not False else None
    o_adapter: Any = None if out is None else adapter_of(out, "out")
    o_array = Exported(out) if o_adapter is DLPACK else out
    signature = (tuple([(name, adapters[name].describe(a)) for name, a in arrays.items()]),
                 None if out is None else o_adapter.describe(o_array), options, adapter.threads())
    call = cache.get(signature)
    if call is None:
        adapter.check(*arrays.values(), out)
        views = {name: adapters[name].view(a) for name, a in arrays.items()}
        o_view = None if out is None else o_adapter.view(o_array)
        call = _prepare(views, o_view, options, adapter.threads(), plan)
        _plans.remember(cache, signature, call)
    first = arrays["q"]
    o = out if out is not None else _new(adapter, call, first)
    o_at = (o_adapter or adapter_of(o)).pointer(o_array if out is not None else o)
    lse_at = 0
    if wants_lse:
        lse_out = _lse_array(adapter, call, lse_out, first)
        lse_at = adapter_of(lse_out).pointer(lse_out)
    at = {name: adapters[name].pointer(a) for name, a in arrays.items()}
    extras = [(EXTRA_AT[name], place or NOWHERE) for name, place in at.items() if name in EXTRA_AT]
    for name, before, rows in call.starts:
        last = ctypes.c_int64.from_address(at[name] + before).value
        if last > rows:
            raise fail(f"{name} ends at {last}; expected at most {rows}, the rows of {'q' if name == 'q_starts' else 'k'}")
    if out is not None or (wants_lse and lse is not True):
        if call.apart is None:
            call.apart = Apart(_written(call, wants_lse), {name: adapters[name].view(a) for name, a in arrays.items()})
        call.apart.check((o_at, *((lse_at,) if wants_lse else ()), *at.values()))
    call.execute(at["q"], at["k"], at["v"], o_at, lse_at, extras,
                 None if call.device < 0 else adapter.stream(call.device))
    if out is not None:
        o_adapter.wrote(out)
    if wants_lse and lse is not True:
        adapter_of(lse).wrote(lse)
    return (o, lse_out) if wants_lse else o


def _new(adapter: Any, call: Call, like: Any) -> Any:
    return adapter.large(call, like) if call.large else adapter.empty(call.o_shape, call.o_strides, call.o_dtype, like)


def _written(call: Call, lse: bool) -> Dict[str, View]:
    """What a prepared call writes: O, and LSE if it is asked for."""
    o = {"out": View(0, call.o_shape, call.o_strides, call.o_dtype, call.device)}
    return {**o, "lse": View(0, call.lse_shape, contiguous(call.lse_shape), "f32", call.device)} if lse else o


def _attend_plain(plan: Optional[_plans.Compiled], cache: Dict[Any, Any], adapter: Any, q: Any, k: Any, v: Any,
                  out: Any, lse: bool, options: Tuple[Any, ...]) -> Any:
    """The same for arrays of one library and nothing beside Q, K, V and O, in as few steps as can be."""
    try:
        signature = (adapter.signature(q, k, v, None, out), options)
    except (RuntimeError, AttributeError):
        _check_same(adapter, **{name: a for name, a in (("q", q), ("k", k), ("v", v), ("out", out))
                                if a is not None or name != "out"})
        adapter.check(q, k, v, out)
        raise
    try:
        call = cache.get(signature)
    except TypeError:  # an option is an array
        call = None
    if call is None:
        numbers = plain(Options._fields, options)
        if numbers is not options:
            return _attend_plain(plan, cache, adapter, q, k, v, out, lse, numbers)
        adapter.check(q, k, v, out)
        views = {"q": adapter.view(q), "k": adapter.view(k), "v": adapter.view(v)}
        call = _prepare(views, None if out is None else adapter.view(out), Options(*options), adapter.threads(), plan)
        call.like_q = adapter is not NUMPY and 0 not in call.o_shape and \
            (call.o_shape, call.o_strides, call.o_dtype) == tuple(views["q"][1:4])
        _plans.remember(cache, signature, call)
    if out is not None:
        o = out
    elif call.large:
        o = adapter.large(call, q)
    elif call.like_q:
        o = adapter.empty_like(q)
    else:
        o = adapter.empty(call.o_shape, call.o_strides, call.o_dtype, q)
    found = _lse_array(adapter, call, None, q) if lse else None
    pointer = adapter.pointer
    q_at, k_at, v_at, o_at = pointer(q), pointer(k), pointer(v), pointer(o)
    if out is not None:
        if call.apart is None:
            call.apart = Apart(_written(call, False), {"q": adapter.view(q), "k": adapter.view(k), "v": adapter.view(v)})
        call.apart.check((o_at, q_at, k_at, v_at))
    call.execute(q_at, k_at, v_at, o_at, 0 if found is None else pointer(found), (),
                 None if call.device < 0 else adapter.stream(call.device))
    if out is not None:
        adapter.wrote(out)
    return (o, found) if lse else o


def _lse_array(adapter: Any, call: Call, given: Any, like: Any) -> Any:
    if given is None:
        return adapter.empty(call.lse_shape, contiguous(call.lse_shape), "f32", like)
    own = adapter_of(given, "lse")
    own.check(given)
    view = own.view(given)
    if view.dtype != "f32" or tuple(view.shape) != call.lse_shape or view.device != call.device or \
            (view.strides != contiguous(call.lse_shape) and 0 not in view.shape):
        raise fail(f"lse is {list(view.shape)} of {type_name(view.dtype)}; expected {list(call.lse_shape)} of float32, contiguous, "
                   "on q's device")
    check_writable("lse", view)
    return given


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, align: str = "bottom-right",
              q_offset: Optional[int] = None, scale: Optional[float] = None, window: Optional[Tuple[int, int]] = None,
              softcap: Optional[float] = None, bias: Any = None, mask: Any = None, alibi_slopes: Any = None,
              sinks: Any = None, kv_lens: Any = None, q_starts: Any = None, kv_starts: Any = None,
              block_table: Any = None, k_scales: Any = None, v_scales: Any = None, kv_dtype: Optional[str] = None,
              q_len: Optional[int] = None, kv_len: Optional[int] = None, layout: str = "bhsd", out: Any = None,
              o_dtype: Optional[str] = None, lse: Any = False, threads: Optional[int] = None,
              rigor: Optional[str] = None, compiler: Optional[str] = None, time_limit: Optional[float] = None,
              variant: Optional[str] = None, invariant: Optional[bool] = None) -> Any:
    """O = softmax(scale * Q K^T -> softcap -> + bias, ALiBi -> mask; sinks) V, with every feature of attn.h by keyword.

    q is [batch, heads, q_len, D], k is [batch, KV heads, kv_len, D], v is [batch, KV heads, kv_len, Dv], and O is
    [batch, heads, q_len, Dv]. With layout="bshd" all of them are [batch, rows, heads, elements]. heads is a multiple of
    KV heads. Types are float32, float16 and bfloat16; k and v may have another type than q, and so may O (that of out,
    or o_dtype: "f32", "f16" or "bf16", or NumPy's or PyTorch's type). Arrays are as for attngen.sdpa. Row i of a sequence
    stands at position p = i + offset on the axis of keys.

    causal: only keys j <= p take part. align: what offset is: "bottom-right" (number of keys - number of queries of the
        sequence) or "top-left" (0). q_offset: the offset itself instead, a number of any sign, which is the position of
        the first query, for example with a KV cache.
    window: (left, right), numbers of keys: only keys p - left <= j <= p + right take part; -1 means no bound.
    scale: default 1/sqrt(D). softcap: c; a score s becomes c tanh(s / c).
    bias: float, added to the scores. mask: bool or uint8, 1 where a key takes part. Both have sides that are 1 or those
        of [batch, heads, q_len, kv_len], in this order for both layouts.
    alibi_slopes: float32 [heads]. sinks: float32 [heads], logits that join the denominator only.
    kv_lens: int64 [batch], the number of keys of each sequence, on q's device (on the processor also a list).
    q_starts, kv_starts: int64 [batch + 1], cumulative lengths of packed sequences. With q_starts, q and O are
        [rows, heads, elements]; with kv_starts, k and v are [rows, KV heads, elements]. q_len and kv_len are then the
        lengths of the longest sequences, or more; by default the number of rows.
        On the processor they may not end past the rows of q and k; on a card nothing looks.
        Rows of q behind the last sequence are left out: O and LSE are not written there.
    block_table: int32 [batch, pages]. k and v are then [page, KV heads, row, elements] (bshd: [page, row, KV heads,
        elements]), and kv_lens or kv_starts say how many keys each sequence has.
    k_scales, v_scales: float32 with sides that are 1 or those of [batch, KV heads, kv_len] (pages: [page, KV heads,
        row]; packed: [1, KV heads, rows]): what stored numbers are multiplied by if k and v are int8 or float8 (E4M3).
    kv_dtype: what k and v of uint8 hold: "fp8", or "q8_0" or "q4_0", which are ggml's blocks of 32 values; a row then
        consists of the bytes of its blocks. attngen.quantise makes all of these.
    out: the array for O. lse: True returns (O, LSE), where LSE is the natural logarithm of each row's sum of exp(score),
        float32 [batch, heads, q_len] ([heads, rows] if packed), and -inf for a row for which no key is left. An array of
        that shape receives the LSE.
    threads: number of threads on the processor; default: PyTorch's number for tensors, and all for other arrays. rigor
        ("estimate", "measure", "patient"), time_limit (seconds), compiler ("tcc", "cc") and variant (the name of a
        kernel) are as in attn.h; configure() sets their defaults.
    invariant: True promises a row the same bits whatever else is in the call, however its sequence is packed, paged and
        cut into chunks, and whatever was tuned; struct attn_problem in attn.h says it exactly.

    Errors, threads and streams are as for attngen.sdpa.
    """
    adapter = adapter_of(q, "q")
    tracing = adapter.tracing()
    if window is not None and not tracing:  # a compiler's numbers stay what they are
        window = _plans.pair("window", window)
    options = (causal, align, q_offset, scale, window, softcap, layout, q_len, kv_len, o_dtype, lse is not False, threads,
               rigor, compiler, time_limit, variant, kv_dtype, invariant)
    given = arrays_given(bias, mask, alibi_slopes, sinks, kv_lens, q_starts, kv_starts, block_table, k_scales, v_scales)
    if tracing:
        return adapter.traced_attention(q, k, v, out, lse, as_arrays(adapter, given), Options(*options))
    try:
        return attend(None, _attention_calls, q, k, v, out, lse, given, options)
    except RuntimeError as error:
        if isinstance(error, _c.Error) or not adapter.transformed():
            raise
        return adapter.traced_attention(q, k, v, out, lse, as_arrays(adapter, given), Options(*options))
