"""Fused attention for this machine: kernels that are generated, checked, tuned and remembered.

    import attngen
    o = attngen.sdpa(q, k, v, is_causal=True)        # PyTorch's arguments; NumPy arrays, tensors, CUDA tensors, DLPack
    o, lse = attngen.attention(q, k, v, causal=True, window=(1024, 0), softcap=50.0, lse=True)
    attngen.tune("1,8,8,2048,2048,64", causal=True)  # searches for the fastest kernel and stores it in the cache

libattn, which the package contains, makes the kernels. Importing attngen loads neither NumPy nor PyTorch.
"""
from __future__ import annotations

import sys
from typing import Any, Optional

from . import _arrays, _c, _memory, _plans
from ._c import Error, Failed, Invalid, NoMemory, Unsupported
from ._call import attention, fallbacks, sdpa
from ._plan import Plan, supports, tune
from ._program import cache_path, devices, emit
from ._quantise import quantise

__all__ = ["Error", "Failed", "Invalid", "NoMemory", "Plan", "Unsupported", "attention", "cache_path", "configure",
           "devices", "emit", "fallbacks", "quantise", "sdpa", "supports", "tune"]
__version__ = "0.1"


def configure(*, rigor: Optional[str] = None, time_limit: Optional[float] = None, compiler: Optional[str] = None,
              threads: Optional[int] = None, cache_dir: Optional[str] = None, fallback: Optional[str] = None,
              openmp: Optional[bool] = None, invariant: Optional[bool] = None, kept_bytes: Optional[int] = None) -> None:
    """Sets defaults for the calls that follow in this process. What is not given keeps its value.

    rigor: how to choose a kernel if the cache has no winner for the sides of a call: "estimate" (the default; a model
        chooses, and nothing is timed), or "measure" or "patient" (the first such call searches for up to time_limit
        seconds; 0 means 30 and 600 seconds).
    compiler: "tcc" or "cc". threads: number of threads on the processor, 0 for all; the default is PyTorch's number for
        tensors.
    cache_dir: the directory of the cache, "" for no cache. Set it before the first call that makes a plan. The
        environment variable ATTNGEN_CACHE does the same.
    openmp: whether larger runs on tensors of the processor use the threads of PyTorch's OpenMP (libgomp), as its own
        operators do, so that these do not compete for processors with others: True by default. False: libattn's own
        threads, which sleep when they had nothing to do for 50 microseconds. The results have the same bits.
    invariant: True makes plans whose rows have the same bits whatever else a call holds (attngen.attention says exactly
        what is promised).
    kept_bytes: how much memory of results that are gone is kept for later results on the processor, 128 MiB by default; 0
        leaves all memory to NumPy and PyTorch.
    fallback: "torch" lets PyTorch compute what sdpa cannot; "" ends that.
    """
    if rigor is not None:
        _plans._choice("rigor", _c.RIGORS, rigor)
    if compiler is not None:
        _plans._choice("compiler", _c.COMPILERS, compiler)
    if threads is not None and not 0 <= _plans.int64("threads", threads) <= 1024:
        raise Invalid(f"threads is {threads}; expected 0..1024")
    if kept_bytes is not None and _plans.int64("kept_bytes", kept_bytes) < 0:
        raise Invalid(f"kept_bytes is {kept_bytes}; expected a number of bytes, or 0 for none")
    for name, on in (("openmp", openmp), ("invariant", invariant)):
        if on is not None:
            _plans.flag(name, on)
    if time_limit is not None and not 0 <= _plans.real("time_limit", time_limit) < float("inf"):
        raise Invalid(f"time_limit is {time_limit}; expected seconds, or 0 for the default")
    if fallback not in (None, "", "torch"):
        raise Invalid(f"fallback is {fallback!r}; expected 'torch', or '' for none")
    if cache_dir is not None:
        if _c.has_context():
            raise Invalid("cache_dir is set after a plan was made; expected it to be set earlier")
        _c.cache_dir = cache_dir
    for name, value in (("rigor", rigor), ("time_limit", time_limit), ("compiler", compiler), ("threads", threads),
                        ("openmp", openmp), ("invariant", invariant)):
        if value is not None:
            _plans.defaults[name] = value
    if kept_bytes is not None:
        _memory.keep(int(kept_bytes))
    if fallback is not None:
        _plans.defaults["fallback"] = fallback or None
    _plans.forget()


def _load_torch() -> Any:
    from . import _operators
    return _operators


_arrays.offer_torch(_load_torch)
if hasattr(sys.modules.get("torch"), "ops"):  # else the operators come with the first tensor
    _load_torch()


def __getattr__(name: str) -> Any:
    if name in ("transformers", "distributed"):
        import importlib
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
