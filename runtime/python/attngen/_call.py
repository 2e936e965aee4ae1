"""sdpa, attention, Plan and tune: the calls that people make."""
from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from . import _c, _openmp, _plans
from ._arrays import DLPACK, NUMPY, Exported, View, adapter_of, contiguous, torch_adapter
from ._plans import Call
from ._prepare import (BLOCKS, EXTRA_AT, FLOATS, Options, broadcast, collapse, dense_like, fail, request,
                       sides_of)

#: How often `fallback="torch"` had PyTorch compute instead, by libattn's words for why.
fallbacks: "Counter[str]" = Counter()

_sdpa_calls: Any = _plans.call_cache()
_sdpa_bases = _plans.call_cache()  # of calls that differ in the number of keys alone


def _prepare(views: Dict[str, View], o: Optional[View], options: Options, threads: int,
             plan: Optional[_plans.Compiled] = None) -> Call:
    r = request(views, o, options, threads)
    compiled = plan or _plans.find(r.key)
    if plan is not None:
        _check_plan(plan.key, r.key)
    call = Call(compiled, r.run, r.o_shape, r.o_strides, r.o_dtype, r.lse_shape, views["q"].device)
    key, run = compiled.key, r.run
    if _plans.defaults["openmp"] and threads > 1 and compiled.device == "cpu" and compiled.threads > 1 and \
            run.batch * key.heads * run.q_len * run.kv_len * (key.head_dim + key.head_dim_v) >= _openmp.LEAST_WORK:
        call.parts = _openmp.parts_for(run.batch * key.kv_heads, compiled.threads)
    return call


def _check_plan(has: _plans.Key, wants: _plans.Key) -> None:
    """What struct attn_run cannot show to differ from its plan."""
    for name in ("device", "dtype", "kv_dtype", "o_dtype", "head_dim", "head_dim_v", "heads", "kv_heads", "causal",
                 "window", "softcap", "bias", "mask", "alibi", "sink", "packed", "paged"):
        if getattr(has, name) != getattr(wants, name):
            raise fail(f"{name} is {getattr(wants, name)} in the call and {getattr(has, name)} in the plan; expected "
                       "the plan's")


# ---- sdpa ------------------------------------------------------------------------------------------------------------

def _prepare_sdpa(adapter: Any, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
                  scale: Optional[float], enable_gqa: bool, out: Any) -> Tuple[Call, Any]:
    """The call, and where in struct attn_run the mask's address goes."""
    if dropout_p:
        raise _c.Unsupported(f"dropout_p is {dropout_p}; expected 0.0, as kernels have no dropout")
    if is_causal and attn_mask is not None:
        raise fail("attn_mask is given and is_causal is True; expected one of them, as for PyTorch (attngen.attention "
                   "takes both)")
    adapter.check(query, key, value, attn_mask, out)
    given = {"q": adapter.view(query), "k": adapter.view(key), "v": adapter.view(value)}
    shape, strides = given["q"].shape, given["q"].strides
    views = {name: collapse({"q": "query", "k": "key", "v": "value"}[name], view) for name, view in given.items()}
    heads, kv_heads = views["q"].shape[1], views["k"].shape[1]
    if heads != kv_heads and not enable_gqa and kv_heads != 1:
        raise fail(f"query has {heads} heads and key {kv_heads}; expected as many, or enable_gqa=True")
    mask_at = None
    if attn_mask is not None:
        mask = adapter_of(attn_mask).view(attn_mask)
        name = "mask" if mask.dtype == "bool" else "bias"
        if name == "bias" and mask.dtype not in FLOATS:
            raise _c.Unsupported(f"attn_mask is of {mask.dtype}; expected bool, float32, float16 or bfloat16")
        views[name] = _spread_mask(mask, shape[:-1] + (views["k"].shape[2],))
        mask_at = EXTRA_AT[name]
    o_shape = tuple(shape[:-1]) + (views["v"].shape[-1],)
    o = None
    if out is not None:
        whole = adapter_of(out).view(out)
        if tuple(whole.shape) != o_shape:
            raise fail(f"out is {list(whole.shape)}; expected {list(o_shape)}")
        o = collapse("out", whole)
    o_strides = dense_like(o_shape, strides if len(shape) <= 4 else range(len(shape), 0, -1))
    if o is None:
        o = collapse("out", View(0, o_shape, o_strides, views["q"].dtype, views["q"].device))
    call = _prepare(views, o, Options(causal=bool(is_causal), align="top-left", scale=scale), adapter.threads())
    call.o_shape, call.o_strides = o_shape, o_strides
    call.like_q = (o_shape, o_strides) == (tuple(shape), tuple(strides)) and 0 not in o_shape
    return call, mask_at


def _grown(adapter: Any, query: Any, key: Any, value: Any, is_causal: bool, scale: Optional[float],
           enable_gqa: bool) -> Any:
    """The call for keys that are more or fewer than those of an earlier one and nothing else, from that one: a cache
    that grows asks for a new one with each token. None where there is no such earlier call."""
    signature = adapter.apart_from_keys(query, key, value)
    if signature is None:
        return None
    signature = (signature, is_causal, scale, enable_gqa)
    base = _sdpa_bases.get(signature)
    if base is None:
        call, _ = _prepare_sdpa(adapter, query, key, value, None, 0.0, is_causal, scale, enable_gqa, None)
        _plans.remember(_sdpa_bases, signature, call)
    else:
        run = _c.Run.from_buffer_copy(base.run)
        run.kv_len, run.k_stride[:], run.v_stride[:] = key.shape[2], key.stride()[:3], value.stride()[:3]
        call = Call(base.plan, run, base.o_shape, base.o_strides, base.o_dtype, base.lse_shape, base.device)
        call.like_q = base.like_q
    return call, None


def _spread_mask(mask: View, sides: Tuple[int, ...]) -> View:
    """attn_mask over [..., heads, rows, keys] as four sides, of which those that are shared have stride 0."""
    steps = broadcast("attn_mask", mask, sides)
    whole = mask._replace(shape=tuple(sides), strides=steps)
    return collapse("attn_mask", whole)


def sdpa(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
         scale: Optional[float] = None, enable_gqa: bool = False, *, out: Any = None,
         fallback: Optional[str] = None) -> Any:
    """Attention with the arguments, and the meaning, of torch.nn.functional.scaled_dot_product_attention.

    query [..., heads, rows, D], key [..., KV heads, keys, D], value [..., KV heads, keys, Dv], with D 1..576 and Dv
    1..512; the result is [..., heads, rows, Dv], of query's type. Dimensions may be missing from the front. Arrays are
    NumPy's (float32, float16, ml_dtypes.bfloat16), PyTorch's on the processor or a CUDA card, or anyone's with
    __dlpack__; nothing is copied, strides are as they are, but elements of a row lie side by side. A side of 1 of key
    and value serves every batch, or head.

    attn_mask: bool (True: the key takes part) or float (added to scores), of sides that are 1 or those of
        [..., heads, rows, keys]. A query that no key is left for gives zeros.
    dropout_p: 0.0. is_causal: row i sees keys 0..i (PyTorch's alignment, at the top left); without attn_mask.
    scale: of the scores; 1/sqrt(D) without. enable_gqa: query has a multiple of key's heads.
    out: where the result goes, of its shape, in any strides, not overlapping an input. Without it a new array, whose
        sides lie in memory in the order of query's.
    fallback: "torch" lets PyTorch compute what cannot be served here, and counts it in attngen.fallbacks.

    On CUDA tensors the kernel is put on PyTorch's current stream and the call returns at once; it can be captured in a
    graph. On the processor it uses PyTorch's number of threads for tensors, all processors for other arrays. Any number
    of threads may call at once. A kernel's first use takes a millisecond; it is the cache's winner for such sides (see
    attngen.tune), else a model's choice. Raises attngen.Invalid or attngen.Unsupported, in the words of the rule that
    is broken; a tensor that requires grad is refused while gradients are recorded. Works in
    torch.compile(fullgraph=True).
    """
    adapter = adapter_of(query)
    if adapter.tracing():
        return adapter.traced_sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out)
    if adapter is DLPACK:
        return _sdpa_exported(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out, fallback)
    try:
        signature = (adapter.signature(query, key, value, attn_mask, out), is_causal, scale, enable_gqa, dropout_p)
        found: Any = _sdpa_calls.get(signature)
        if found is None:
            if attn_mask is None and out is None and not dropout_p:
                found = _grown(adapter, query, key, value, is_causal, scale, enable_gqa)
            found = found or _prepare_sdpa(adapter, query, key, value, attn_mask, dropout_p, is_causal, scale,
                                           enable_gqa, out)
            _plans.remember(_sdpa_calls, signature, found)
        call, mask_at = found
        pointer = adapter.pointer
        if out is not None:
            o = out
        elif call.like_q and adapter is not NUMPY:
            o = adapter.empty_like(query)
        else:
            o = adapter.empty(call.o_shape, call.o_strides, call.o_dtype, query)
        call.execute(pointer(query), pointer(key), pointer(value), pointer(o), 0,
                     () if mask_at is None else ((mask_at, pointer(attn_mask)),),
                     None if call.device < 0 else adapter.stream(call.device))
        return o
    except (RuntimeError, AttributeError) as error:
        if not isinstance(error, _c.Error):  # an array that is not what it was taken for
            _check_same(adapter, query=query, key=key, value=value, attn_mask=attn_mask, out=out)
            adapter.check(query, key, value, attn_mask, out)
            raise
        wanted = fallback or _plans.defaults["fallback"]
        if wanted is None:
            raise
        return _fall_back(error, wanted, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out)


def _check_same(adapter: Any, **arrays: Any) -> None:
    """Whether all arrays are of one library."""
    for name, a in arrays.items():
        if a is not None and adapter_of(a) is not adapter:
            raise fail(f"{name} is of type {type(a).__module__}.{type(a).__qualname__} and query an array of "
                       f"{adapter.name}; expected all of one library")


def _sdpa_exported(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
                   scale: Optional[float], enable_gqa: bool, out: Any, fallback: Optional[str]) -> Any:
    """sdpa of arrays that speak DLPack: a call is prepared each time."""
    q, k, v = Exported(query), Exported(key), Exported(value)
    mask = None if attn_mask is None else Exported(attn_mask)
    o = None if out is None else Exported(out)
    call, mask_at = _prepare_sdpa(DLPACK, q, k, v, mask, dropout_p, is_causal, scale, enable_gqa, o)
    result = out if o is not None else DLPACK.empty(call.o_shape, call.o_strides, call.o_dtype, q)
    at = o.view.pointer if o is not None else adapter_of(result).pointer(result)
    extras = () if mask is None else ((mask_at, mask.view.pointer),)
    call.execute(q.view.pointer, k.view.pointer, v.view.pointer, at, 0, extras, DLPACK.stream(call.device))
    return result


def _fall_back(error: _c.Error, wanted: str, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float,
               is_causal: bool, scale: Optional[float], enable_gqa: bool, out: Any) -> Any:
    if wanted != "torch":
        raise fail(f"fallback is {wanted!r}; expected None or 'torch'") from error
    result = torch_adapter().torch_sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out)
    fallbacks[str(error)] += 1
    return result


# ---- attention -------------------------------------------------------------------------------------------------------

_attention_calls = _plans.call_cache()
_NARROW = ("int8", "fp8", "q8_0", "q4_0")
_NOTHING: Dict[str, Any] = {}


def _given(bias: Any, mask: Any, alibi_slopes: Any, sinks: Any, kv_lens: Any, q_starts: Any, kv_starts: Any,
           block_table: Any, k_scales: Any, v_scales: Any) -> Dict[str, Any]:
    """The arrays beside Q, K and V that there are, by name; _NOTHING itself where there is none."""
    if bias is mask is alibi_slopes is sinks is kv_lens is q_starts is kv_starts is block_table is k_scales is v_scales \
            is None:
        return _NOTHING
    return {"bias": bias, "mask": mask, "alibi_slopes": alibi_slopes, "sinks": sinks, "kv_lens": kv_lens,
            "q_starts": q_starts, "kv_starts": kv_starts, "block_table": block_table, "k_scales": k_scales,
            "v_scales": v_scales}


# What may be a list of numbers too, on the processor, and its element type.
_NUMBERS = {"kv_lens": "int64", "q_starts": "int64", "kv_starts": "int64", "block_table": "int32",
            "alibi_slopes": "float32", "sinks": "float32", "bias": "float32", "mask": "bool", "k_scales": "float32",
            "v_scales": "float32"}


def _attend(plan: Optional[_plans.Compiled], cache: Dict[Any, Any], q: Any, k: Any, v: Any, out: Any, lse: Any,
            given: Dict[str, Any], options: Tuple[Any, ...]) -> Any:
    """attention, and a Plan's call: the prepared call that fits is found or made, and executed."""
    adapter = adapter_of(q)
    if adapter is not DLPACK and given is _NOTHING and (lse is False or lse is True):
        return _attend_plain(plan, cache, adapter, q, k, v, out, lse, options)
    options = Options(*options)
    arrays = {"q": q, "k": k, "v": v}
    for name, values in given.items():
        if values is not None:
            arrays[name] = adapter.from_list(_NUMBERS[name], values) if isinstance(values, (list, tuple)) else values
    if adapter is DLPACK:
        arrays = {name: Exported(a) if adapter_of(a) is DLPACK else a for name, a in arrays.items()}
    adapters = {name: adapter_of(a) for name, a in arrays.items()}
    wants_lse, lse_out = lse is not False and lse is not None, lse if lse is not True and lse is not False else None
    o_adapter: Any = None if out is None else adapter_of(out)
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
    o = out if out is not None else adapter.empty(call.o_shape, call.o_strides, call.o_dtype, first)
    o_at = (o_adapter or adapter_of(o)).pointer(o_array if out is not None else o)
    lse_at = 0
    if wants_lse:
        lse_out = _lse_array(adapter, call, lse_out, first)
        lse_at = adapter_of(lse_out).pointer(lse_out)
    extras = [(EXTRA_AT[name], adapters[name].pointer(a)) for name, a in arrays.items() if name in EXTRA_AT]
    call.execute(adapter.pointer(first), adapters["k"].pointer(arrays["k"]), adapters["v"].pointer(arrays["v"]), o_at,
                 lse_at, extras, None if call.device < 0 else adapter.stream(call.device))
    return (o, lse_out) if wants_lse else o


def _attend_plain(plan: Optional[_plans.Compiled], cache: Dict[Any, Any], adapter: Any, q: Any, k: Any, v: Any,
                  out: Any, lse: bool, options: Tuple[Any, ...]) -> Any:
    """The same for arrays of one library and nothing beside Q, K, V and O, in as few steps as can be."""
    try:
        signature = (adapter.signature(q, k, v, None, out), options)
    except (RuntimeError, AttributeError):
        _check_same(adapter, q=q, k=k, v=v, out=out)
        adapter.check(q, k, v, out)
        raise
    call = cache.get(signature)
    if call is None:
        adapter.check(q, k, v, out)
        views = {"q": adapter.view(q), "k": adapter.view(k), "v": adapter.view(v)}
        call = _prepare(views, None if out is None else adapter.view(out), Options(*options), adapter.threads(), plan)
        call.like_q = adapter is not NUMPY and 0 not in call.o_shape and \
            (call.o_shape, call.o_strides, call.o_dtype) == tuple(views["q"][1:4])
        _plans.remember(cache, signature, call)
    if out is not None:
        o = out
    elif call.like_q:
        o = adapter.empty_like(q)
    else:
        o = adapter.empty(call.o_shape, call.o_strides, call.o_dtype, q)
    found = _lse_array(adapter, call, None, q) if lse else None
    pointer = adapter.pointer
    call.execute(pointer(q), pointer(k), pointer(v), pointer(o), 0 if found is None else pointer(found), (),
                 None if call.device < 0 else adapter.stream(call.device))
    return (o, found) if lse else o


def _lse_array(adapter: Any, call: Call, given: Any, like: Any) -> Any:
    if given is None:
        return adapter.empty(call.lse_shape, contiguous(call.lse_shape), "f32", like)
    view = adapter_of(given).view(given)
    if view.dtype != "f32" or tuple(view.shape) != call.lse_shape or view.device != call.device or \
            (view.strides != contiguous(call.lse_shape) and 0 not in view.shape):
        raise fail(f"lse is {list(view.shape)} of {view.dtype}; expected {list(call.lse_shape)} of float32, contiguous, "
                   "on q's device")
    return given


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, align: str = "bottom-right",
              q_offset: Optional[int] = None, scale: Optional[float] = None, window: Optional[Tuple[int, int]] = None,
              softcap: Optional[float] = None, bias: Any = None, mask: Any = None, alibi_slopes: Any = None,
              sinks: Any = None, kv_lens: Any = None, q_starts: Any = None, kv_starts: Any = None,
              block_table: Any = None, k_scales: Any = None, v_scales: Any = None, kv_dtype: Optional[str] = None,
              q_len: Optional[int] = None, kv_len: Optional[int] = None, layout: str = "bhsd", out: Any = None, o_dtype: Optional[str] = None, lse: Any = False,
              threads: Optional[int] = None, rigor: Optional[str] = None, compiler: Optional[str] = None,
              time_limit: Optional[float] = None, variant: Optional[str] = None, invariant: Optional[bool] = None) -> Any:
    """O = softmax(scale * Q K^T -> softcap -> + bias, ALiBi -> mask; sinks) V: all that attn.h has, by keyword.

    q [batch, heads, q_len, D], k [batch, KV heads, kv_len, D], v [batch, KV heads, kv_len, Dv]; O is [batch, heads,
    q_len, Dv]. layout="bshd" means [batch, rows, heads, elements] for all of them. heads is a multiple of KV heads.
    Types are float32, float16 and bfloat16; k and v may be of another than q, and O too (out's, or o_dtype: "f32",
    "f16", "bf16"). Arrays as for attngen.sdpa. Row i of a sequence stands at p = i + offset on the axis of keys.

    causal: keys j <= p take part. align: where offset comes from, "bottom-right" (keys - queries of the sequence),
        "top-left" (0); or q_offset, a number of keys of any sign, the position of the first query as with a KV cache.
    window: (left, right), numbers of keys: p - left <= j <= p + right take part; -1 is no bound.
    scale: 1/sqrt(D) without. softcap: c, scores become c tanh(s / c).
    bias: float, added to scores; mask: bool or uint8, 1 where a key takes part. Both have sides that are 1 or those of
        [batch, heads, q_len, kv_len], in this order for both layouts.
    alibi_slopes: float32 [heads]. sinks: float32 [heads], logits that join the denominator alone.
    kv_lens: int64 [batch], keys of each sequence, on the device of q (a list too on the processor).
    q_starts, kv_starts: int64 [batch + 1], cumulative lengths of packed sequences: q and O are [rows, heads, elements],
        k and v [rows, KV heads, elements]; q_len and kv_len are then the longest sequences' lengths, or more; without
        them as many as there are rows.
    block_table: int32 [batch, pages]: k and v are [page, KV heads, row, elements] (bshd: [page, row, KV heads,
        elements]); kv_lens or kv_starts say how many keys a sequence has.
    k_scales, v_scales: float32, of sides that are 1 or those of [batch, KV heads, kv_len] (in pages [page, KV heads, row],
        packed [1, KV heads, rows]), what the numbers stored in k and v are multiplied by, where these are int8 or float8
        (E4M3). kv_dtype: what arrays of uint8 hold: "fp8", or "q8_0" or "q4_0", ggml's blocks of 32 values, a row of
        them being its bytes. attngen.quantise makes them all.
    out: where O goes. lse: True returns (O, LSE), the natural logarithm of each row's sum of exp(score), float32
        [batch, heads, q_len] ([heads, rows] where packed), -inf for a row that no key is left for; or an array of that
        shape to write it to.
    threads: of the processor; without, PyTorch's number for tensors, else all. rigor ("estimate", "measure",
        "patient"), time_limit (seconds), compiler ("tcc", "cc") and variant (a kernel's name) as in attn.h; configure()
        sets defaults.
    invariant: True promises a row the same bits whatever else is in the call, however its sequence is packed, paged and cut into
        chunks, and whatever was tuned: struct attn_problem says it exactly.

    Errors, threads and streams as for attngen.sdpa.
    """
    options = (causal, align, q_offset, scale, None if window is None else (int(window[0]), int(window[1])), softcap,
               layout, q_len, kv_len, o_dtype, lse is not False, threads, rigor, compiler, time_limit, variant,
               kv_dtype, invariant)
    given = _given(bias, mask, alibi_slopes, sinks, kv_lens, q_starts, kv_starts, block_table, k_scales, v_scales)
    adapter = adapter_of(q)
    if adapter.tracing():
        return adapter.traced_attention(q, k, v, out, lse, given, Options(*options))
    return _attend(None, _attention_calls, q, k, v, out, lse, given, options)


class Plan:
    """One compiled kernel for a problem, for loops: made once, called with any lengths and strides up to its maxima.

    dtype, kv_dtype, o_dtype: "f32", "f16" or "bf16"; the latter two are dtype without. head_dim, head_dim_v: elements
    of a row. max_batch, max_q_len, max_kv_len: what calls stay within, and what is tuned for. causal, window, softcap,
    bias (None or an element type), mask, alibi, sink, packed, paged: features that calls must then use, as struct
    attn_problem says; invariant: a row's bits are the same in all such plans, as it says there; tune_window is the window to tune for, (left, right), (0, 0) if it is not known. device: "cpu",
    "cuda", "cuda:N". threads: 0 for all processors. rigor, time_limit (seconds), variant, compiler: as for
    attention. Raises as attngen.attention does. The same plan gives a row the same bits whatever else is in a call.

    A plan for a card is kept until close(): streams and graphs may still hold its launches when nobody else does.
    """

    def __init__(self, *, dtype: str = "f32", head_dim: int, heads: int, max_q_len: int, max_kv_len: int,
                 kv_heads: Optional[int] = None, head_dim_v: Optional[int] = None, max_batch: int = 1,
                 kv_dtype: Optional[str] = None, o_dtype: Optional[str] = None, causal: bool = False,
                 window: bool = False, softcap: bool = False, bias: Optional[str] = None, mask: bool = False,
                 alibi: bool = False, sink: bool = False, packed: bool = False, paged: bool = False,
                 invariant: bool = False, tune_window: Tuple[int, int] = (0, 0), device: str = "cpu", threads: int = 0, rigor: Optional[str] = None,
                 time_limit: Optional[float] = None, variant: Optional[str] = None,
                 compiler: Optional[str] = None) -> None:
        has = _plans.defaults
        self._calls: Dict[Any, Any] = {}
        self._compiled = _plans.Compiled(_plans.Key(
            device=device, dtype=dtype, kv_dtype=kv_dtype or dtype, o_dtype=o_dtype or dtype, head_dim=head_dim,
            head_dim_v=head_dim_v or head_dim, heads=heads, kv_heads=kv_heads or heads, max_batch=max_batch,
            max_q_len=max_q_len, max_kv_len=max_kv_len, causal=causal, window=window, softcap=softcap, bias=bias,
            mask=mask, alibi=alibi, sink=sink, packed=packed, paged=paged, invariant=invariant, tune_window=tune_window, threads=threads,
            rigor=rigor or has["rigor"], compiler=compiler or has["compiler"],
            time_limit=has["time_limit"] if time_limit is None else time_limit, variant=variant))
        if self._compiled.on_card:  # calls name their card by number
            self._compiled.key = self._compiled.key._replace(device=self._compiled.device)

    def __call__(self, q: Any, k: Any, v: Any, *, out: Any = None, lse: Any = False, align: str = "bottom-right",
                 q_offset: Optional[int] = None, scale: Optional[float] = None,
                 window: Optional[Tuple[int, int]] = None, softcap: Optional[float] = None, bias: Any = None,
                 mask: Any = None, alibi_slopes: Any = None, sinks: Any = None, kv_lens: Any = None,
                 q_starts: Any = None, kv_starts: Any = None, block_table: Any = None, k_scales: Any = None,
                 v_scales: Any = None, q_len: Optional[int] = None, kv_len: Optional[int] = None,
                 layout: str = "bhsd") -> Any:
        """Executes the plan on arrays, which are as for attngen.attention; O, or (O, LSE) when lse is asked for."""
        if self._compiled.handle is None:
            raise fail("the plan is closed; expected one that is not")
        has = self._compiled.key
        options = (has.causal, align, q_offset, scale, window, softcap, layout, q_len, kv_len, has.o_dtype,
                   lse is not False, None, None, None, None, None, has.kv_dtype if has.kv_dtype in _NARROW else None, has.invariant)
        given = _given(bias, mask, alibi_slopes, sinks, kv_lens, q_starts, kv_starts, block_table, k_scales, v_scales)
        return _attend(self._compiled, self._calls, q, k, v, out, lse, given, options)

    variant = property(lambda self: self._compiled.variant, doc="The kernel's name, to pin it.")
    compiler = property(lambda self: self._compiled.compiler, doc='"tcc", "cc", "opencl", "cuda" or "reference".')
    device = property(lambda self: self._compiled.device, doc='"cpu", or a device with its number.')
    cached = property(lambda self: self._compiled.cached, doc="Whether it is the cache's winner.")
    threads = property(lambda self: self._compiled.threads, doc="Threads, or a device's compute units.")
    compile_ms = property(lambda self: self._compiled.compile_ms, doc="Milliseconds of compiling or loading it.")

    def close(self) -> None:
        """Destroys the plan. Nobody may be executing it; streams must be done with it, and graphs that hold it gone."""
        self._calls.clear()
        self._compiled.close()

    def __repr__(self) -> str:
        return f"attngen.Plan({self.variant}, device={self.device!r}, threads={self.threads}, cached={self.cached})"


def tune(shape: Union[str, Sequence[int]], *, rigor: str = "measure", time_limit: float = 0.0, **problem: Any) -> Plan:
    """Looks for the fastest kernel, stores it in the cache, and returns the plan; later calls of sdpa and attention for
    such sides use it, in this process and in others.

    shape: "B,Hq,Hkv,Sq,Skv,D[,Dv]", or these numbers. rigor: "measure" or "patient"; time_limit: seconds, 0 for 30 and
    600. problem: Plan's other keywords (dtype, causal, window, mask, bias, device, threads and so on). Winners are
    remembered for each number of threads: tune for the one that calls use.
    """
    numbers = [int(x) for x in (shape.split(",") if isinstance(shape, str) else shape)]
    if len(numbers) not in (6, 7):
        raise fail(f"shape is {shape!r}; expected B,Hq,Hkv,Sq,Skv,D or with Dv behind")
    batch, heads, kv_heads, q_len, kv_len, head_dim = numbers[:6]
    plan = Plan(head_dim=head_dim, head_dim_v=numbers[6] if len(numbers) == 7 else None, heads=heads, kv_heads=kv_heads,
                max_batch=batch, max_q_len=q_len, max_kv_len=kv_len, rigor=rigor, time_limit=time_limit, **problem)
    _plans.forget()
    return plan


def quantise(x: Any, to: str, *, scales: Any = None, share: str = "row", out: Any = None, out_scales: Any = None,
             slots: Any = None) -> Any:
    """Rows of an array of NumPy's or tensor, on a CUDA card too, as rows of a type that keys and values alone may have.

    x: float32, float16 or bfloat16 [batch, KV heads, rows, D], or pages in place of batch. to: "int8", "fp8" (OCP's E4M3),
    "q8_0" or "q4_0" (ggml's blocks of 32 values; D is a multiple of 32). Returns (stored, scales): stored int8 or uint8
    [batch, KV heads, rows, D], for blocks uint8 [batch, KV heads, rows, bytes of a row]; scales float32, None for blocks.

    share: what shares a scale: "row" (scales [batch, KV heads, rows]), "head" ([batch, KV heads, 1]) or "all" ([1, 1, 1]).
    scales: float32 of one of these sides, given in place of found ones, as for rows that join a cache. Numbers are rounded
    to the nearest, ties to even, and what is too large becomes the largest; see attn_quantise in attn.h. On a card the call is
    put on PyTorch's current stream and returns at once.

    out, out_scales: where stored numbers, and scales that are found, are written; they are what is returned. slots: int64
    [batch, rows], for each row of x its place in a cache `out` [pages, KV heads, rows of a page, D]: row slot % rows of page
    slot // rows; below 0 the row is left out. Then out is needed, and out_scales where scales are to be found; both and scales
    have sides of the cache, of which any but KV heads and D may be 1 of scales.
    """
    import ctypes
    adapter = adapter_of(x)
    if adapter is DLPACK:
        raise fail("x is neither NumPy's nor PyTorch's; expected one of these")
    adapter.check(x, scales, out, out_scales, slots)
    view = adapter.view(x)
    if view.dtype not in FLOATS or len(view.shape) != 4:
        raise fail(f"x is {list(view.shape)} of {view.dtype}; expected [batch, KV heads, rows, D] of a float type")
    s = sides_of("x", view, "bhsd", False)
    if to not in _NARROW or share not in ("row", "head", "all"):
        raise fail(f"to is {to!r} and share {share!r}; expected one of {', '.join(_NARROW)}, and row, head or all")
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
            raise fail("slots are given and out is not; expected the cache that they are of")
        where = adapter.view(slots)
        if where.dtype != "i64" or where.shape != (s.batch, s.rows) or where.strides != contiguous(where.shape) or \
                where.device != view.device:
            raise fail(f"slots is {list(where.shape)} of {where.dtype}; expected {[s.batch, s.rows]} of int64, contiguous and "
                       "where x is")
        pages, _, page_size = adapter.view(out).shape[:3] if len(adapter.view(out).shape) == 4 else (0, 0, 1)
        p.slots, p.pages, p.page_size = where.pointer, pages, page_size
        sides = (pages, s.heads, page_size)
    kind = "i8" if to == "int8" else "u8"
    if out is None:
        out = adapter.empty(sides + (width,), contiguous(sides + (width,)), kind, x)
    stored = adapter.view(out)
    unit = size or 1
    if stored.shape != sides + (width,) or stored.dtype not in (kind, "fp8" if to == "fp8" else kind) or \
            stored.device != view.device or (width > 1 and stored.strides[3] != 1) or any(n % unit for n in stored.strides[:3]):
        raise fail(f"out is {list(stored.shape)} of {stored.dtype}; expected {list(sides + (width,))} of "
                   f"{'int8' if to == 'int8' else 'uint8'} where x is, whose rows are whole")
    p.out = stored.pointer
    p.out_stride[:] = [max(n // unit, 1) for n in stored.strides[:3]]
    scales = _quantise_scales(adapter, x, view, p, to, scales, share, out_scales, sides)
    if view.device < 0:
        _c.call("attn_quantise", ctypes.byref(p))
    else:
        _c.call("attn_quantise_cuda", _plans.any_on(view.device).handle, ctypes.byref(p), adapter.stream(view.device))
    return out, scales


def _quantise_scales(adapter: Any, x: Any, view: View, p: Any, to: str, scales: Any, share: str, out_scales: Any,
                     sides: Tuple[int, ...]) -> Any:
    """The scales of a quantisation: those that are given, or memory for those that are to be found."""
    if to in BLOCKS:
        if scales is not None or out_scales is not None:
            raise fail(f"scales are given and to is {to!r}; expected none, as blocks hold their own")
        return None
    if scales is not None and out_scales is not None:
        raise fail("scales are given, and out_scales too; expected one of the two")
    p.given = int(scales is not None)
    if scales is None:
        scales = out_scales
    if scales is None and p.slots:
        raise fail("slots are given, and neither scales nor out_scales; expected those of the cache")
    if scales is None:
        shared = {"row": sides, "head": sides[:2] + (1,), "all": (1, 1, 1)}[share]
        scales = adapter.empty(shared, contiguous(shared), "f32", x)
    of = adapter.view(scales)
    if of.dtype != "f32" or of.device != view.device:
        raise fail(f"scales are of {of.dtype}; expected float32, where x is")
    p.scales, p.scales_stride[:] = of.pointer, broadcast("scales", of, sides)
    return scales


def supports(**problem: Any) -> Optional[str]:
    """None when attngen.Plan(**problem) would find a kernel, else the words with which it would refuse."""
    import ctypes
    rest = dict(problem)
    rest.setdefault("dtype", "f32")
    for name, of in (("kv_dtype", "dtype"), ("o_dtype", "dtype"), ("head_dim_v", "head_dim"), ("kv_heads", "heads")):
        rest.setdefault(name, rest.get(of))
    rest.setdefault("max_batch", 1)
    rest.setdefault("device", "cpu")
    try:
        wanted = _plans.problem_of(_plans.Key(**rest))
        _c.call("attn_supports", _c.context(), ctypes.byref(wanted))
    except _c.Error as error:
        return str(error)
    return None
