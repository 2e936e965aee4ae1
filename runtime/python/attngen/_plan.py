"""Plan, tune and supports: kernels that users keep, look for and ask about. What it is not: calls (_call.py)."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from . import _c, _plans
from ._arrays import adapter_of
from ._call import arrays_given, as_arrays, attend
from ._prepare import NARROWED, Options, fail


class Plan:
    """One compiled kernel for a problem, made once and called in a loop with any strides, and any lengths up to its maxima.

    dtype, kv_dtype, o_dtype: "f32", "f16" or "bf16", and for kv_dtype also "int8", "fp8", "q8_0" or "q4_0", or the types
    as NumPy and PyTorch have them; kv_dtype and o_dtype are dtype by default. head_dim, head_dim_v: elements of a row.
    max_batch, max_q_len, max_kv_len: the largest that calls may have, and what is tuned for. causal, window, softcap, bias
    (None or an element type), mask, alibi, sink, packed, paged: the features, which calls must then use, as in struct
    attn_problem. invariant: a row has the same bits in all such plans, as attn_problem says. tune_window: the window to
    tune for, (left, right), or (0, 0) if it is not known. device: "cpu", "cuda" or "cuda:N"; or "opencl", "opencl:N" or
    "reference" (the definition in double precision), which take arrays in the processor's memory. threads: 0 for all
    processors. rigor, time_limit (seconds), variant, compiler: as for attention. Raises as attngen.attention does. One
    plan gives a row the same bits whatever else is in a call.

    Under torch.compile a call becomes the operator attngen::attention, which is told the kernel's name: the results have
    the same bits, and PyTorch's number of threads computes them.

    A plan for a card is kept until close(), because streams and graphs may still hold its launches.
    """

    def __init__(self, *, dtype: str = "f32", head_dim: int, heads: int, max_q_len: int, max_kv_len: int,
                 kv_heads: Optional[int] = None, head_dim_v: Optional[int] = None, max_batch: int = 1,
                 kv_dtype: Optional[str] = None, o_dtype: Optional[str] = None, causal: bool = False,
                 window: bool = False, softcap: bool = False, bias: Optional[str] = None, mask: bool = False,
                 alibi: bool = False, sink: bool = False, packed: bool = False, paged: bool = False,
                 invariant: bool = False, tune_window: Tuple[int, int] = (0, 0), device: str = "cpu",
                 threads: int = 0, rigor: Optional[str] = None, time_limit: Optional[float] = None,
                 variant: Optional[str] = None, compiler: Optional[str] = None) -> None:
        has = _plans.defaults
        self._calls: Dict[Any, Any] = {}
        dtype, kv_dtype, o_dtype, bias = (_plans.element_type(t) for t in (dtype, kv_dtype or dtype, o_dtype or dtype, bias))
        self._compiled = _plans.Compiled(_plans.Key(
            device=str(device), dtype=dtype, kv_dtype=kv_dtype, o_dtype=o_dtype, head_dim=head_dim,
            head_dim_v=head_dim_v or head_dim, heads=heads, kv_heads=kv_heads or heads, max_batch=max_batch,
            max_q_len=max_q_len, max_kv_len=max_kv_len, causal=causal, window=window, softcap=softcap, bias=bias,
            mask=mask, alibi=alibi, sink=sink, packed=packed, paged=paged, invariant=invariant, tune_window=tune_window,
            threads=threads, rigor=rigor or has["rigor"], compiler=compiler or has["compiler"],
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
        """Executes the plan on arrays as for attngen.attention. Returns O, or (O, LSE) if lse is given."""
        if self._compiled.handle is None:
            raise fail("the plan is closed; expected an open one")
        has, adapter = self._compiled.key, adapter_of(q, "q")
        tracing = adapter.tracing()
        if window is not None and not tracing:
            window = _plans.pair("window", window)
        threads = rigor = compiler = time_limit = None  # the plan has them
        options = (has.causal, align, q_offset, scale, window, softcap, layout, q_len, kv_len, has.o_dtype, lse is not False,
                   threads, rigor, compiler, time_limit, self._compiled.variant if tracing else None,
                   has.kv_dtype if has.kv_dtype in NARROWED else None, has.invariant)
        given = arrays_given(bias, mask, alibi_slopes, sinks, kv_lens, q_starts, kv_starts, block_table, k_scales, v_scales)
        if tracing:  # an operator holds no plan, but it can name the kernel
            return adapter.traced_attention(q, k, v, out, lse, as_arrays(adapter, given), Options(*options))
        return attend(self._compiled, self._calls, q, k, v, out, lse, given, options)

    variant = property(lambda self: self._compiled.variant, doc="The kernel's name, with which it can be pinned.")
    compiler = property(lambda self: self._compiled.compiler, doc='"tcc", "cc", "opencl", "cuda" or "reference".')
    device = property(lambda self: self._compiled.device, doc='"cpu", or a device with its number.')
    cached = property(lambda self: self._compiled.cached, doc="Whether the kernel is the cache's winner.")
    threads = property(lambda self: self._compiled.threads, doc="The number of threads, or of a device's compute units.")
    compile_ms = property(lambda self: self._compiled.compile_ms, doc="Milliseconds that compiling or loading the kernel took.")

    def close(self) -> None:
        """Destroys the plan, at once or when the last thread that executes it on the processor is done. No stream may be
        executing it, and graphs that hold its launches must be gone."""
        self._calls.clear()
        self._compiled.close()

    def __enter__(self) -> "Plan":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a plan holds compiled code, which cannot be copied or pickled; expected one made where it is used, "
                        f"by attngen.Plan(..., variant={self.variant!r}) for the same kernel")

    def __repr__(self) -> str:
        return f"attngen.Plan({self.variant}, device={self.device!r}, threads={self.threads}, cached={self.cached})"


def tune(shape: Union[str, Sequence[int]], *, rigor: str = "measure", time_limit: float = 0.0, **problem: Any) -> Plan:
    """Searches for the fastest kernel, stores it in the cache, and returns a plan with it. Later calls of sdpa and attention
    for such sides use that kernel, in this process and in others.

    shape: "B,Hq,Hkv,Sq,Skv,D[,Dv]", or these numbers. rigor: "measure" or "patient". time_limit: seconds; 0 means 30 and
    600 seconds. problem: Plan's other keywords (dtype, causal, window, mask, bias, device, threads and so on). Each
    number of threads has a winner of its own: tune for the number that calls will use.
    """
    try:
        numbers = [int(x) for x in shape.split(",")] if isinstance(shape, str) else [_plans.int64("a side", x) for x in shape]
        if len(numbers) not in (6, 7):
            raise ValueError
    except (TypeError, ValueError):
        raise fail(f"shape is {shape!r}; expected B,Hq,Hkv,Sq,Skv,D or B,Hq,Hkv,Sq,Skv,D,Dv") from None
    if rigor == "estimate":
        raise fail("rigor is 'estimate', which times nothing; expected 'measure' or 'patient'")
    batch, heads, kv_heads, q_len, kv_len, head_dim = numbers[:6]
    plan = Plan(head_dim=head_dim, head_dim_v=numbers[6] if len(numbers) == 7 else None, heads=heads, kv_heads=kv_heads,
                max_batch=batch, max_q_len=q_len, max_kv_len=kv_len, rigor=rigor, time_limit=time_limit, **problem)
    _plans.forget()
    return plan


def supports(**problem: Any) -> Optional[str]:
    """Returns None if attngen.Plan(**problem) would find a kernel, or else the message with which it would refuse."""
    rest = dict(problem)
    rest.setdefault("dtype", "f32")
    for name in ("dtype", "kv_dtype", "o_dtype", "bias"):
        if name in rest:
            rest[name] = _plans.element_type(rest[name])
    for name, of in (("kv_dtype", "dtype"), ("o_dtype", "dtype"), ("head_dim_v", "head_dim"), ("kv_heads", "heads")):
        rest.setdefault(name, rest.get(of))
    rest.setdefault("max_batch", 1)
    rest.setdefault("device", "cpu")
    try:
        wanted = _plans.problem_of(_plans.Key(**rest))
        _c.call("attn_supports", _c.context(), ctypes.byref(wanted))
    except TypeError as error:
        raise TypeError(str(error).replace("Key.__new__", "supports")) from None
    except _c.Error as error:
        return str(error)
    return None
