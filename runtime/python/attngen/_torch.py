"""For PyTorch: the adapter of its tensors. Traced calls become the operators of _operators.py, which imports this file when the
first tensor is met."""
from __future__ import annotations

import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch.autograd import forward_ad

from . import _c, _memory
from ._arrays import NUMPY, View, adapter_of
from ._plans import LEAST_KEYS, element_type, rounded
from ._prepare import BLOCKS, EXTRAS, Options, dense_like, values_of

_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "bool", torch.uint8: "u8",
          torch.int8: "i8", torch.int32: "i32", torch.int64: "i64", torch.float64: "f64"}
if hasattr(torch, "float8_e4m3fn"):
    _NAMES[torch.float8_e4m3fn] = "fp8"
_TYPES = {name: dtype for dtype, name in _NAMES.items()}
_PLAIN = (torch.Tensor, torch.nn.Parameter)  # whose results are no tensors of a class of their own
_grad_is_on = torch.is_grad_enabled
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_threads = torch.get_num_threads
_compiling = torch.compiler.is_compiling
_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_autocasting = getattr(torch._C, "_is_any_autocast_enabled", lambda: False)
_negated = torch.Tensor.is_neg  # whether its memory has the numbers with the other sign, as the imaginary part of a conjugate has
_transforms = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None)
_increment = getattr(torch._C, "_increment_version", None)
_holders: Any = getattr(torch._C, "_storage_Use_Count", None)
_references = sys.getrefcount
_inference = torch.is_inference_mode_enabled
_NO_GRADIENTS = ("kernels compute no gradients; expected torch.no_grad(), torch.inference_mode() or tensor.detach()")


def _written() -> Any:
    """What tells autograd that a tensor was written to; None in a PyTorch that has no such thing."""
    if _increment is None:
        return None
    try:
        _increment((torch.empty(0),))
    except RuntimeError:  # before PyTorch 2.5 it takes one tensor
        return _increment
    return lambda tensor: _increment((tensor,))


_wrote = _written()


def _tracing() -> bool:
    """Whether operators are recorded or watched, by a compiler or a dispatch mode: then a call must be one."""
    return _compiling() or _modes() > 0


def _has_tangent(*tensors: Any) -> bool:
    return any(isinstance(t, torch.Tensor) and forward_ad.unpack_dual(t).tangent is not None for t in tensors)


def refuse_gradients(*given: Any) -> None:
    """For calls that become operators: one without a formula for gradients would give wrong ones, with a warning at most."""
    if _grad_is_on() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in given):
        raise _c.Unsupported("a tensor requires grad, and " + _NO_GRADIENTS)


def _stream(device: int) -> int:
    if _current_stream is not None:
        return _current_stream(device)
    return torch.cuda.current_stream(device).cuda_stream


def _tensor_of(a: Any) -> Any:
    """An array of any library as a tensor of the same memory."""
    if isinstance(a, torch.Tensor):
        return a
    return torch.from_numpy(a) if adapter_of(a) is NUMPY else torch.from_dlpack(a)


def order_like(shape: Any, q: Any) -> Any:
    """A tensor of that shape whose sides have the order in memory of q's, as prepared calls make it."""
    strides = dense_like(shape, q.stride() if len(shape) <= 4 else range(len(shape), 0, -1))
    return torch.empty_strided(shape, strides, dtype=q.dtype, device=q.device)


def o_like(q: Any, v: Any, o_dtype: Optional[str], kv_dtype: Optional[str]) -> Any:
    o = order_like(tuple(q.shape[:-1]) + (values_of(v.shape[-1], kv_dtype),), q)
    return o if o_dtype is None else o.to(_TYPES[o_dtype])


def lse_like(q: Any, q_starts: Any, layout: str) -> Any:
    order = (1, 0) if q_starts is not None else (0, 1, 2) if layout == "bhsd" else (0, 2, 1)
    return torch.empty([q.shape[i] for i in order], dtype=torch.float32, device=q.device)


def scales_shape(x: Any, share: str) -> Any:
    return {"row": tuple(x.shape[:3]), "head": (x.shape[0], x.shape[1], 1), "all": (1, 1, 1)}[share]


class Spare(NamedTuple):
    """A tensor that only lends its memory: results are made of it by `data`, which are tensors of their own."""
    tensor: Any
    storage: Any  # which users get too, if they ask a result for its storage
    storage_at: int
    memory: int  # where it lies; a result that was moved to shared memory has taken the storage along
    inference: bool  # whether results are tensors of inference mode

    def users(self) -> Any:
        """The same as at first if no result lives, nor a view of one or its storage."""
        return _holders(self.storage_at), _references(self.storage)


def _spare(tensor: Any) -> Tuple[Spare, Any]:
    """A spare one and its users, of whom the tensor itself is one."""
    storage = tensor.untyped_storage()
    spare = Spare(tensor, storage, storage._cdata, tensor.data_ptr(), tensor.is_inference())
    del storage
    return spare, spare.users()


def _from_spares(spares: List[Tuple[Spare, Any]]) -> Any:
    """A tensor in memory of an earlier result of the same call; None if those still live. Other threads may look at the same time:
    what one has taken from the list is its own."""
    found, passed, inference = None, [], _inference()
    try:
        while found is None:
            entry = spares.pop()
            spare, alone = entry
            if spare.users() == alone and spare.inference is inference:
                found = spare.tensor.data
                if found.data_ptr() != spare.memory:
                    found = None
                    continue
            passed.append(entry)
    except IndexError:
        pass
    spares.extend(passed)
    return found


class TorchAdapter:
    """Tensors in the processor's memory or on a CUDA device."""

    name = "torch"
    threads = staticmethod(_threads)
    pointer = staticmethod(torch.Tensor.data_ptr)
    stream = staticmethod(_stream)
    tracing = staticmethod(_tracing)
    casts = staticmethod(_autocasting)

    @staticmethod
    def describe(t: Any) -> Any:
        return (t.shape, t.stride(), t.dtype, t.device, t.requires_grad and _grad_is_on(),
                forward_ad._current_level >= 0 and _has_tangent(t), _negated(t))

    @staticmethod
    def signature(q: Any, k: Any, v: Any, mask: Any, out: Any) -> Any:
        """What a prepared sdpa depends on, in as few steps as possible: this is half of the cost of a call. A negated tensor is
        every second number of a complex one, which the rows of q, k and v cannot be."""
        first = (q.shape, q.stride(), k.shape, k.stride(), v.shape, v.stride(), q.dtype, k.dtype, v.dtype,
                 q.device, k.device, v.device,
                 _grad_is_on() and (q.requires_grad or k.requires_grad or v.requires_grad), _threads(),
                 forward_ad._current_level >= 0 and _has_tangent(q, k, v))
        if mask is None and out is None:
            return first
        describe = TorchAdapter.describe
        return first, None if mask is None else describe(mask), None if out is None else describe(out)

    @staticmethod
    def apart_from_keys(q: Any, k: Any, v: Any, mask: Any) -> Any:
        """What a prepared sdpa depends on apart from the number of keys and their strides; None for unusual tensors."""
        sides, at, v_sides, v_at = k.shape, k.stride(), v.shape, v.stride()
        if len(sides) != 4 or sides[:3] != v_sides[:3] or q.dim() != 4 or sides[0] != q.shape[0] or \
                at[3] != 1 or v_at[3] != 1 or at[1] <= 0 or v_at[1] <= 0 or 0 in sides or 0 in v_sides or \
                forward_ad._current_level >= 0:
            return None
        graded = _grad_is_on() and (q.requires_grad or k.requires_grad or v.requires_grad)
        first = (q.shape, q.stride(), sides[1], sides[3], v_sides[3], rounded(sides[2], LEAST_KEYS), q.dtype, k.dtype,
                 v.dtype, q.device, k.device, v.device, graded, _threads())
        if mask is None:
            return first
        if graded or (_grad_is_on() and mask.requires_grad) or mask.layout is not torch.strided or _negated(mask):
            return None
        return first, mask.dtype, mask.device

    @staticmethod
    def from_list(kind: str, values: Any) -> Any:
        given = torch.tensor(values)
        if kind.startswith("int") and given.numel() and given.is_floating_point():
            raise _c.Invalid("a list holds numbers with fractions; expected whole numbers")
        return given.to(getattr(torch, kind))

    @staticmethod
    def check(*tensors: Any) -> None:
        """Refuses tensors without memory of their own, and tensors that require a gradient."""
        for t in tensors:
            if not isinstance(t, torch.Tensor):
                if t is None:
                    continue
                raise _c.Invalid(f"an argument is of type {type(t).__module__}.{type(t).__qualname__} and query is a PyTorch "
                                 "tensor; expected all of one library")
            if t.requires_grad and _grad_is_on():
                raise _c.Unsupported("a tensor requires grad, and " + _NO_GRADIENTS)
            if forward_ad._current_level >= 0 and _has_tangent(t):
                raise _c.Unsupported("a tensor has a tangent of forward-mode gradients, and " + _NO_GRADIENTS)
            if torch._C._get_tracing_state() is not None:
                raise _c.Unsupported("torch.jit.trace is recording; expected torch.compile or torch.export instead")
            if t.is_nested or t.layout is not torch.strided or t.is_conj() or _negated(t):
                raise _c.Unsupported("a tensor is nested, sparse, conjugated or negated; expected a strided one")
            if t.device.type not in ("cpu", "cuda"):
                raise _c.Unsupported(f"a tensor is on {t.device}; expected the processor or CUDA")

    @staticmethod
    def view(t: Any) -> View:
        return View(t.data_ptr(), tuple(t.shape), t.stride(), _NAMES.get(t.dtype, str(t.dtype)), t.get_device())

    @staticmethod
    def empty(shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str, like: Any) -> Any:
        kind = _TYPES[dtype]
        if like.dtype is kind:
            return like.new_empty_strided(shape, strides)
        return torch.empty_strided(shape, strides, dtype=kind, device=like.device)

    empty_like = staticmethod(torch.empty_like)

    @staticmethod
    def large(call: Any, like: Any) -> Any:
        """A new tensor for the large result of a prepared call: in memory that earlier results had, else of PyTorch. A call
        that was made before looks among its own first, which takes few steps: a kernel drives all code from a core's caches, so
        that each step behind it takes ten times as long."""
        if type(like) in _PLAIN:
            o = _from_spares(call.own) if call.own else None
            if o is not None:
                return o
            block = _memory.block(call.large)
            if block is not None:
                kind = _TYPES[call.o_dtype]
                o = torch.frombuffer(block, dtype=kind, count=call.large // kind.itemsize)
                o.as_strided_(call.o_shape, call.o_strides)  # in place, so that it is no view
                if call.own is None:
                    call.own = []
                elif _holders is not None:
                    spare = _spare(o)
                    o = o.data
                    _memory.lend(call.own, spare, call.large)
                return o
        o = TorchAdapter.empty(call.o_shape, call.o_strides, call.o_dtype, like)
        _memory.want_huge_pages(o.data_ptr(), call.large)
        return o

    @staticmethod
    def wrote(out: Any) -> None:
        """Tells autograd that `out` was written to, as PyTorch's own functions do."""
        if _wrote is not None:
            _wrote(out)

    @staticmethod
    def cast(query: Any, key: Any, value: Any, attn_mask: Any) -> Tuple[Any, Any, Any, Any]:
        """What autocast makes of the arguments of PyTorch's sdpa."""
        where = query.device.type
        if not torch.is_autocast_enabled(where):
            return query, key, value, attn_mask
        to = torch.get_autocast_dtype(where)
        tensors = [t.to(to) if isinstance(t, torch.Tensor) and t.is_floating_point() and t.dtype != torch.float64 else t
                   for t in (query, key, value, attn_mask)]
        return tensors[0], tensors[1], tensors[2], tensors[3]

    @staticmethod
    def transformed() -> bool:
        """Whether this runs inside torch.vmap or another transform of torch.func, whose tensors have no memory."""
        return _transforms() is not None

    @staticmethod
    def empty_on(shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str, device: int) -> Any:
        return torch.empty_strided(shape, strides, dtype=_TYPES[dtype], device=f"cuda:{device}")

    @staticmethod
    def torch_sdpa(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
                   scale: Optional[float], enable_gqa: bool, out: Any) -> Any:
        """PyTorch's own sdpa, for `fallback`; it also takes NumPy arrays and those with DLPack, without copies."""
        tensors: Any = [None if t is None else _tensor_of(t) for t in (query, key, value, attn_mask)]
        more = {"enable_gqa": True} if enable_gqa else {}  # which older versions do not know
        own: Any = torch.nn.functional.scaled_dot_product_attention
        o = own(*tensors, dropout_p=dropout_p, is_causal=is_causal, scale=scale, **more)
        if not isinstance(query, torch.Tensor):
            o = o.numpy()
        if out is None:
            return o
        _tensor_of(out).copy_(_tensor_of(o))
        return out

    @staticmethod
    def traced_sdpa(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
                    scale: Optional[float], enable_gqa: bool, out: Any, fallback: Optional[str]) -> Any:
        refuse_gradients(query, key, value, attn_mask, out)
        if out is not None:
            torch.ops.attngen.sdpa_out(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out)
            return out
        return torch.ops.attngen.sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, fallback)

    @staticmethod
    def traced_attention(q: Any, k: Any, v: Any, out: Any, lse: Any, given: Dict[str, Any], options: Options) -> Any:
        refuse_gradients(q, k, v, out, lse, *given.values())
        given = {name: given.get(name) for name in EXTRAS}
        window = None if options.window is None else list(options.window)
        o_dtype, kv_dtype = element_type(options.o_dtype), element_type(options.kv_dtype)
        asked = lse is not False and lse is not None  # for LSE: True, or a tensor that it goes to
        features = (given["bias"], given["mask"], given["alibi_slopes"], given["sinks"], given["kv_lens"],
                    given["q_starts"], given["kv_starts"], given["block_table"], given["k_scales"],
                    given["v_scales"], kv_dtype, options.causal, options.align,
                    options.q_offset, options.scale, window, options.softcap, options.layout, options.q_len, options.kv_len,
                    o_dtype, asked, options.variant, options.invariant)
        if out is None and (not asked or lse is True):
            o, found = torch.ops.attngen.attention(q, k, v, *features)
            return (o, found) if asked else o
        if out is None:
            out = o_like(q, v, o_dtype, kv_dtype)
        if lse is True:
            lse = lse_like(q, given["q_starts"], options.layout)
        found = lse if asked else None
        torch.ops.attngen.attention_out(out, found, q, k, v, *features)
        return out if found is None else (out, found)

    @staticmethod
    def traced_quantise(x: Any, to: str, scales: Any, share: str, out: Any, out_scales: Any, slots: Any) -> Any:
        refuse_gradients(x, scales, out, out_scales)
        if out is None and out_scales is None and slots is None:
            stored, found = torch.ops.attngen.quantise(x, to, scales, share)
            return stored, found if scales is None and to not in BLOCKS else scales
        if out is None:
            raise _c.Invalid("out_scales or slots are given and out is not; expected all of them under torch.compile")
        if scales is None and out_scales is None and slots is None and to not in BLOCKS:
            out_scales = x.new_empty(scales_shape(x, share), dtype=torch.float32)
        torch.ops.attngen.quantise_out(out, out_scales, x, to, scales, share, slots)
        return out, out_scales if scales is None else scales


class WrapperAdapter(TorchAdapter):
    """Tensors of a class with a __torch_dispatch__ of its own, as FakeTensor and DTensor are: they reach a kernel only as
    that class says, so that a call is always an operator."""

    @staticmethod
    def tracing() -> bool:
        return True


ADAPTER, WRAPPERS = TorchAdapter(), WrapperAdapter()


def adapter_for(kind: Any) -> TorchAdapter:
    """The adapter of a class of tensors. Nested ones have no operator here, and are refused."""
    plain = kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__ or kind.__module__.startswith("torch.nested")
    return ADAPTER if plain else WRAPPERS
