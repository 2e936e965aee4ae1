"""libattn by ctypes: where the library is, its structs and functions, and its errors as exceptions.

What it is not: it knows nothing about arrays. tests/python/test_abi.py holds every struct to runtime/attn.h.
"""
from __future__ import annotations

import ctypes
import os
import sys
import threading
from ctypes import Structure, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Dict, List, Optional

F32, F16, BF16 = 0, 1, 2
FLOATS = {"f32": F32, "f16": F16, "bf16": BF16}
DTYPES = {**FLOATS, "int8": 3, "fp8": 4, "q8_0": 5, "q4_0": 6}
BIASES = {None: 0, "f32": 1, "f16": 2, "bf16": 3}
ALIGNS = {"bottom-right": 0, "top-left": 1, "q-offset": 2}
COMPILERS = {"tcc": 0, "cc": 1}
RIGORS = {"estimate": 0, "measure": 1, "patient": 2}


class Error(RuntimeError):
    """libattn refused or failed; the message is libattn's own."""


class Invalid(Error, ValueError):
    """An argument is wrong; the message says which one and what is expected."""


class Unsupported(Error, NotImplementedError):
    """There is no kernel for this problem here; the message gives the rule or the reason."""


class NoMemory(Error, MemoryError):
    """Memory ran out."""


class Failed(Error):
    """A compiler, a driver, the system or a check failed."""


STATUSES = {1: Invalid, 2: Unsupported, 3: NoMemory, 4: Failed}


class ErrorText(Structure):
    _fields_ = [("text", c_char * 640)]


LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Options(Structure):
    _fields_ = [
        ("size", c_size_t), ("cache_dir", c_char_p), ("allocate", c_void_p), ("release", c_void_p), ("log", LOG),
        ("user", c_void_p),
    ]


class Problem(Structure):
    _fields_ = [
        ("size", c_size_t), ("dtype", c_int), ("head_dim", c_int), ("head_dim_v", c_int), ("heads", c_int),
        ("kv_heads", c_int), ("causal", c_int), ("max_batch", c_int64), ("max_q_len", c_int64),
        ("max_kv_len", c_int64), ("threads", c_int), ("rigor", c_int), ("time_limit", c_double),
        ("variant", c_char_p), ("compiler", c_int), ("device", c_char_p), ("cl_context", c_void_p),
        ("cl_device", c_void_p), ("mixed", c_int), ("kv_dtype", c_int), ("o_dtype", c_int), ("window", c_int),
        ("softcap", c_int), ("bias", c_int), ("mask", c_int), ("alibi", c_int), ("sink", c_int), ("packed", c_int),
        ("paged", c_int), ("tune_window_left", c_int64), ("tune_window_right", c_int64),
        ("invariant", c_int),
    ]


class PlanInfo(Structure):
    _fields_ = [
        ("size", c_size_t), ("variant", c_char_p), ("compiler", c_char_p), ("device", c_char_p), ("cached", c_int),
        ("threads", c_int), ("compile_ms", c_double), ("cl_context", c_void_p), ("cl_device", c_void_p),
    ]


class Run(Structure):
    _fields_ = [
        ("size", c_size_t), ("q", c_void_p), ("k", c_void_p), ("v", c_void_p), ("o", c_void_p), ("lse", c_void_p),
        ("batch", c_int64), ("q_len", c_int64), ("kv_len", c_int64), ("q_stride", c_int64 * 3),
        ("k_stride", c_int64 * 3), ("v_stride", c_int64 * 3), ("o_stride", c_int64 * 3), ("kv_lens", c_void_p),
        ("align", c_int), ("q_offset", c_int64), ("scale", c_float), ("has_scale", c_int), ("window_left", c_int64),
        ("window_right", c_int64), ("softcap", c_float), ("bias", c_void_p), ("bias_stride", c_int64 * 4),
        ("mask", c_void_p), ("mask_stride", c_int64 * 4), ("alibi_slopes", c_void_p), ("sinks", c_void_p),
        ("q_starts", c_void_p), ("kv_starts", c_void_p), ("block_table", c_void_p), ("block_table_stride", c_int64),
        ("page_size", c_int64), ("pages", c_int64), ("k_scales", c_void_p), ("v_scales", c_void_p),
        ("k_scales_stride", c_int64 * 3), ("v_scales_stride", c_int64 * 3),
    ]


class Team(Structure):
    _fields_ = [
        ("size", c_size_t), ("plan", c_void_p), ("run", c_void_p), ("parts", c_int), ("members", c_int),
        ("workspace", c_void_p), ("workspace_size", c_size_t), ("next", c_int), ("seated", c_int), ("failed", c_int),
        ("status", c_int), ("error", ErrorText),
    ]


class Partials(Structure):
    _fields_ = [
        ("size", c_size_t), ("count", c_int64), ("part_o", c_void_p), ("part_lse", c_void_p), ("part_dtype", c_int),
        ("dtype", c_int), ("part_stride", c_int64 * 3), ("o_stride", c_int64 * 3), ("o", c_void_p),
        ("lse", c_void_p), ("batch", c_int64), ("q_len", c_int64), ("heads", c_int), ("head_dim_v", c_int),
        ("sinks", c_void_p),
    ]


class Quantisation(Structure):
    _fields_ = [
        ("size", c_size_t), ("from_", c_int), ("to", c_int), ("batch", c_int64), ("heads", c_int64), ("rows", c_int64),
        ("width", c_int), ("in_", c_void_p), ("out", c_void_p), ("in_stride", c_int64 * 3),
        ("out_stride", c_int64 * 3), ("scales", c_void_p), ("scales_stride", c_int64 * 3), ("given", c_int),
        ("slots", c_void_p), ("page_size", c_int64), ("pages", c_int64),
    ]


# The structs by their names in attn.h, for the test that compares the two.
STRUCTS = {
    "attn_error": ErrorText, "attn_options": Options, "attn_problem": Problem, "attn_plan_info": PlanInfo,
    "attn_run": Run, "attn_team": Team, "attn_partials": Partials, "attn_quantisation": Quantisation,
}

HERE = os.path.dirname(os.path.abspath(__file__))
SONAME = "libattn.so.0"


def place_of(name: str, built: str) -> Optional[str]:
    """The path of a file in the wheel or in the source tree that this file belongs to; None if it is in neither."""
    tree = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    candidates = [os.path.join(HERE, name)]
    if os.path.exists(os.path.join(tree, "runtime", "attn.h")):
        candidates.append(os.path.join(tree, "out", built))
    for path in candidates:
        if os.path.exists(path):
            return path
    return None


def _open_library() -> ctypes.CDLL:
    path = os.environ.get("ATTNGEN_LIBRARY") or place_of("lib/" + SONAME, "lib/" + SONAME) or SONAME
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{path}: {error}; expected libattn, which the wheel of attngen contains, `make` builds, "
                          "and ATTNGEN_LIBRARY may name") from None
    pointer = c_void_p
    prototypes: Dict[str, List[Any]] = {
        "attn_context_create": [pointer, pointer, pointer], "attn_context_destroy": [pointer],
        "attn_plan_create": [pointer, pointer, pointer, pointer], "attn_plan_destroy": [pointer],
        "attn_supports": [pointer, pointer, pointer], "attn_plan_describe": [pointer, pointer, pointer],
        "attn_execute": [pointer, pointer, pointer, pointer], "attn_merge": [pointer, pointer, pointer],
        "attn_workspace_size": [pointer, pointer, c_int, pointer, pointer],
        "attn_team_work": [pointer],
        "attn_quantise": [pointer, pointer], "attn_quantise_cuda": [pointer, pointer, pointer, pointer],
        "attn_execute_cuda": [pointer, pointer, pointer, pointer],
        "attn_merge_cuda": [pointer, pointer, pointer, pointer], "attn_version": [],
    }
    for name, arguments in prototypes.items():
        try:
            function = getattr(lib, name)
        except AttributeError:  # an older libattn; `call` reports it when it is needed
            continue
        function.argtypes = arguments
        function.restype = None if name.endswith(("_destroy", "_work")) else c_int
    return lib


_lock = threading.RLock()
_lib: Optional[ctypes.CDLL] = None
_context: Optional[int] = None
_kept: List[Any] = []  # what libattn holds pointers to: the log's callback
cache_dir: Optional[str] = None  # what configure() was told; None: libattn's own rule


def _unlock() -> None:
    """A forked child has its parent's locks, but not the thread that may have held one."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_unlock)


def library() -> ctypes.CDLL:
    """libattn, opened at the first call."""
    global _lib
    if _lib is None:
        with _lock:
            if _lib is None:
                _lib = _open_library()
    return _lib


def _log(_user: Any, level: int, text: bytes) -> None:
    if level and "logging" not in sys.modules:  # nobody can have asked for information, and importing it takes milliseconds
        return
    import logging
    logging.getLogger("attngen").log(logging.INFO if level else logging.WARNING, "%s",
                                     text.decode("utf-8", "replace"))


def context() -> int:
    """The process's only attn_context, made at the first call. It lives as long as the process."""
    global _context
    if _context is None:
        with _lock:
            if _context is None:
                log = LOG(_log)
                directory = None if cache_dir is None else os.fsencode(cache_dir)
                options = Options(size=ctypes.sizeof(Options), cache_dir=directory, log=log)
                out = c_void_p()
                call("attn_context_create", ctypes.byref(options), ctypes.byref(out))
                _kept.append(log)
                _context = out.value
    assert _context is not None
    return _context


def has_context() -> bool:
    return _context is not None


def failure(status: int, error: ErrorText) -> Error:
    """The exception of a status other than ATTN_OK."""
    return STATUSES.get(status, Failed)(error.text.decode("utf-8", "replace"))


def call(name: str, *arguments: Any) -> None:
    """Calls a function of attn.h, adds the last argument, and raises its error."""
    function = getattr(library(), name, None)
    if function is None:
        raise Unsupported(f"this libattn has no {name}; expected a newer one")
    error = ErrorText()
    status = function(*arguments, ctypes.byref(error))
    if status:
        raise failure(status, error)
