"""libattn's plans, by the problem that they are for, and calls prepared for arrays of given sides and strides."""
from __future__ import annotations

import ctypes
import math
import operator
import os
import struct
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _c, _memory, _openmp

# What a call uses if it does not say otherwise; configure() changes it.
defaults: Dict[str, Any] = {"rigor": "estimate", "compiler": "tcc", "time_limit": 0.0, "threads": None,
                            "fallback": None, "openmp": True, "invariant": False}


class Key(NamedTuple):
    """What a plan is for: the fields of struct attn_problem, with names instead of numbers."""
    device: str
    dtype: str
    kv_dtype: str
    o_dtype: str
    head_dim: int
    head_dim_v: int
    heads: int
    kv_heads: int
    max_batch: int
    max_q_len: int
    max_kv_len: int
    causal: bool = False
    window: bool = False
    softcap: bool = False
    bias: Optional[str] = None
    mask: bool = False
    alibi: bool = False
    sink: bool = False
    packed: bool = False
    paged: bool = False
    tune_window: Tuple[int, int] = (0, 0)
    invariant: bool = False
    threads: int = 0
    rigor: str = "estimate"
    compiler: str = "tcc"
    time_limit: float = 0.0
    variant: Optional[str] = None


def _choice(what: str, table: Dict[Any, int], value: Any) -> int:
    try:
        return table[value]
    except (KeyError, TypeError):
        names = ", ".join(str(name) for name in table)
        raise _c.Invalid(f"{what} is {value!r}; expected one of {names}") from None


_SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "fp8"}


def element_type(value: Any) -> Any:
    """The short name of an element type that is given by NumPy's or PyTorch's name, or as their object. What is none of
    these comes back, for an error to show."""
    if value is None:
        return None
    whole = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    name = whole.rpartition(".")[2] if isinstance(whole, str) else ""
    return _SHORT.get(name, name if name in _c.DTYPES else value)


def int64(name: str, value: Any) -> int:
    """A whole number as an int64_t of attn.h: ctypes would cut one that does not fit, without a word."""
    try:
        number = operator.index(value)
    except TypeError:
        raise _c.Invalid(f"{name} is {value!r}; expected a whole number") from None
    if not -2 ** 63 <= number < 2 ** 63:
        raise _c.Invalid(f"{name} is {number}; expected a number of less than 2^63 in size")
    return number


FLOAT_MOST = 2.0 ** 128 - 2.0 ** 103  # what is less rounds to a finite float32


def real(name: str, value: Any) -> float:
    """A number, also of NumPy or in a tensor."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise _c.Invalid(f"{name} is {value!r}; expected a number") from None
    if FLOAT_MOST <= abs(number) < math.inf:
        raise _c.Invalid(f"{name} is {value!r}; expected a size of at most 3.4e38, as float32 has it")
    return number


def flag(name: str, value: Any) -> int:
    """True or False, also of NumPy or in a tensor: any other thing counts as true in Python, even "no"."""
    try:
        known = not isinstance(value, (str, bytes)) and value in (True, False)
    except (TypeError, ValueError, RuntimeError):  # of an array or a tensor of several
        known = False
    if not known:
        raise _c.Invalid(f"{name} is {value!r}; expected True or False")
    return int(value)


def pair(name: str, value: Any) -> Tuple[int, int]:
    """Two whole numbers, as a window is."""
    try:
        left, right = value
    except (TypeError, ValueError):
        raise _c.Invalid(f"{name} is {value!r}; expected two numbers, (left, right)") from None
    return int64(name, left), int64(name, right)


def problem_of(key: Key) -> _c.Problem:
    p = _c.Problem(size=ctypes.sizeof(_c.Problem))
    p.dtype = _choice("dtype", _c.FLOATS, key.dtype)
    kv, o = _choice("kv_dtype", _c.DTYPES, key.kv_dtype), _choice("o_dtype", _c.FLOATS, key.o_dtype)
    if kv != p.dtype or o != p.dtype:
        p.mixed, p.kv_dtype, p.o_dtype = 1, kv, o
    p.bias = _choice("bias", _c.BIASES, key.bias)
    p.rigor, p.compiler = _choice("rigor", _c.RIGORS, key.rigor), _choice("compiler", _c.COMPILERS, key.compiler)
    for name in ("head_dim", "head_dim_v", "heads", "kv_heads", "threads"):
        value = int64(name, getattr(key, name))
        if not -2 ** 31 <= value < 2 ** 31:
            raise _c.Invalid(f"{name} is {value}; expected a number of less than 2^31 in size")
        setattr(p, name, value)
    for name in ("max_batch", "max_q_len", "max_kv_len"):
        setattr(p, name, int64(name, getattr(key, name)))
    for name in ("causal", "window", "softcap", "mask", "alibi", "sink", "packed", "paged", "invariant"):
        setattr(p, name, flag(name, getattr(key, name)))
    p.tune_window_left, p.tune_window_right = pair("tune_window", key.tune_window)
    p.time_limit = real("time_limit", key.time_limit)
    p.device = str(key.device).encode()
    if key.variant is not None:
        if not isinstance(key.variant, str):
            raise _c.Invalid(f"variant is {key.variant!r}; expected the name of a kernel")
        p.variant = key.variant.encode()
    return p


class Handle(ctypes.c_void_p):
    """The address of an attn_plan. Whoever executes the plan holds this object, and the plan is destroyed with it: so
    closing a plan while another thread executes it destroys it when that execution is over."""

    destroy: Any = None  # attn_plan_destroy, once the plan is to be destroyed

    def __del__(self) -> None:
        if self.destroy:
            self.destroy(self)


class Compiled:
    """One attn_plan. It is destroyed with this object, but on a card only by close(), because streams and graphs may
    still hold its launches."""

    def __init__(self, key: Key) -> None:
        self.handle: Optional[Handle] = None
        self.key = key
        out = Handle()
        problem = problem_of(key)
        _c.call("attn_plan_create", _c.context(), ctypes.byref(problem), ctypes.byref(out))
        self.handle = out
        self.process = os.getpid()
        info = _c.PlanInfo(size=ctypes.sizeof(_c.PlanInfo))
        _c.call("attn_plan_describe", self.handle, ctypes.byref(info))
        self.variant, self.compiler = info.variant.decode(), info.compiler.decode()
        self.device, self.cached = info.device.decode(), bool(info.cached)
        self.threads, self.compile_ms = info.threads, info.compile_ms
        self.on_card = self.device.startswith("cuda")
        self._destroy = _c.library().attn_plan_destroy

    def close(self, getpid: Any = os.getpid) -> None:
        handle, self.handle = self.handle, None
        # OpenCL and CUDA do not survive a fork: a child leaves its parent's plans alone.
        if handle and (self.device == "cpu" or self.process == getpid()):
            handle.destroy = self._destroy

    def __del__(self, getpid: Any = os.getpid) -> None:
        if getattr(self, "_destroy", None) and not self.on_card:
            self.close(getpid)


_lock = threading.Lock()


def _unlock() -> None:
    """A forked child has its parent's locks, but not the thread that may have held one."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)
_plans: Dict[Key, Compiled] = {}
_retired: List[Compiled] = []


LEAST_KEYS = 64  # fewer keys are rounded up to this


def rounded(length: int, least: int = 1) -> int:
    """The next power of two: lengths up to it share a plan, as they share a winner in tuning."""
    return max(least, 1 << max(length - 1, 0).bit_length())


def find(key: Key) -> Compiled:
    """The plan for a key: the existing one, or else a new one."""
    plan = _plans.get(key)
    if plan is None:
        with _lock:
            plan = _plans.get(key)
            if plan is None:
                plan = _plans[key] = Compiled(key)
    return plan


def any_on(device: int) -> Compiled:
    """A plan for a card, for calls to which any will do."""
    return find(Key(device=f"cuda:{device}", dtype="f16", kv_dtype="f16", o_dtype="f16", head_dim=64, head_dim_v=64, heads=1,
                    kv_heads=1, max_batch=1, max_q_len=1, max_kv_len=64))


def forget() -> None:
    """Drops all plans, so that later calls look for new ones, as after tuning. Those on cards live on: a graph may hold them."""
    with _lock:
        _retired.extend(plan for plan in _plans.values() if plan.on_card)
        _plans.clear()
    for cache in _caches:
        cache.clear()


# ---- prepared calls --------------------------------------------------------------------------------------------------

_caches: List[Dict[Any, Any]] = []
MOST_CALLS = 4096  # in a cache: a growing KV cache makes one for each token, which is never used again
_FIVE = struct.Struct("5Q").pack_into
_ONE = struct.Struct("Q").pack_into
_Q_AT = _c.Run.q.offset


def call_cache() -> Dict[Any, "Call"]:
    """A new dict of calls, by what they depend on, that forget() empties."""
    cache: Dict[Any, Call] = {}
    _caches.append(cache)
    return cache


def remember(cache: Dict[Any, Any], signature: Any, call: Any) -> None:
    if len(cache) >= MOST_CALLS:
        cache.clear()
    cache[signature] = call


class Call:
    """A run of which everything is known except the addresses. Any number of threads may execute it at once: each takes
    a struct of its own from `free`, or makes one."""

    __slots__ = ("plan", "run", "o_shape", "o_strides", "o_dtype", "lse_shape", "free", "like_q", "device", "parts",
                 "large", "own", "apart", "starts", "_execute", "_execute_cuda", "_handle")
    _execute_cuda: Any
    starts: Any  # of packed sequences, whose ends are looked at: see Request in _prepare.py
    apart: Any  # see _overlap.py; only for calls that write to their caller's memory

    def __init__(self, plan: Compiled, run: _c.Run, o_shape: Tuple[int, ...], o_strides: Tuple[int, ...],
                 o_dtype: str, lse_shape: Tuple[int, ...], device: int) -> None:
        lib = _c.library()
        self.plan, self.run, self.device = plan, run, device
        self.parts = 0  # more than 0: for PyTorch's OpenMP threads, see _openmp.py
        self.like_q = False  # whether O has q's type, sides and strides
        self.o_shape, self.o_strides, self.o_dtype, self.lse_shape = o_shape, o_strides, o_dtype, lse_shape
        size = math.prod(o_shape) * (4 if o_dtype == "f32" else 2)
        self.large = size if device < 0 and size >= _memory.LEAST else 0  # bytes of a new O that gets a block of memory
        self.own: Any = None  # memory of results of this call, from its second one: a list that _memory.py lends to
        self.free: List[Any] = []
        self.apart, self.starts = None, ()
        self._execute, self._handle = lib.attn_execute, plan.handle
        self._execute_cuda = getattr(lib, "attn_execute_cuda", None)

    def _slot(self) -> Any:
        run, error = _c.Run.from_buffer_copy(self.run), _c.ErrorText()
        return run, ctypes.addressof(run), error, ctypes.addressof(error)

    def execute(self, q: int, k: int, v: int, o: int, lse: int, extras: Any, stream: Optional[int]) -> None:
        """Executes the run. extras: pairs of an offset in struct attn_run and an address. stream: None on the processor."""
        try:
            slot = self.free.pop()
        except IndexError:
            slot = self._slot()
        run, run_at, error, error_at = slot
        _FIVE(run, _Q_AT, q, k, v, o, lse)
        for at, pointer in extras:
            _ONE(run, at, pointer)
        if self.parts and _openmp.run_in_team(self, run, self.parts, self.plan.threads):
            status = 0
        elif stream is None:
            status = self._execute(self._handle, run_at, None, error_at)
        else:
            status = self._execute_cuda(self._handle, run_at, stream, error_at)
        if status:
            raise _c.failure(status, error)
        self.free.append(slot)
