"""Runs on the threads of PyTorch's OpenMP in place of libattn's own, for configure(openmp=True). After an operator of its own
PyTorch's threads look for work for some milliseconds before they sleep; others that run meanwhile share the processors
with them. What it is not: the default, nor for small runs, or more threads than (sequence, KV head) pairs: these keep
libattn's threads, and so does a child of fork, in which OpenMP has none.
"""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, List, Optional

from . import _c

_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LEAST_WORK = 1e8  # multiply-adds of a run for which threads of OpenMP are asked
_lock = threading.Lock()
_process = os.getpid()
_parallel: Any = None
_looked = False


def _find() -> Any:
    """GOMP_parallel of the library that PyTorch loaded; None where it is not found, or not the only one."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "/lib" in line and "omp" in line.rsplit("/", 1)[-1]}
    paths = {p for p in paths if os.path.basename(p).startswith(("libgomp", "libiomp5", "libomp."))}
    ours = {p for p in paths if os.sep + "torch" + os.sep in p} or paths
    if len(ours) != 1:
        return None
    function = getattr(ctypes.CDLL(ours.pop()), "GOMP_parallel", None)
    if function is not None:
        function.argtypes, function.restype = [_BODY, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return function


def parallel() -> Any:
    global _parallel, _looked
    if not _looked:
        with _lock:
            if not _looked:
                try:
                    _parallel = _find()
                except OSError:
                    _parallel = None
                _looked = True
    return _parallel if os.getpid() == _process else None


def parts_for(units: int, threads: int) -> int:
    """Into how many parts a run of so many (sequence, KV head) pairs is cut: a divisor, so that no part shares a pair."""
    for parts in range(min(units, 8 * threads), threads - 1, -1):
        if units % parts == 0:
            return parts
    return 0


def run_in_team(call: Any, run: _c.Run, parts: int, threads: int) -> bool:
    """Whether the run was done here, by parts that the team's threads claim; the bits are those of attn_execute."""
    start = parallel()
    if start is None:
        return False
    lib, handle, at = _c.library(), call.plan.handle, ctypes.addressof(run)
    size = ctypes.c_size_t()
    _c.call("attn_workspace_size", handle, at, parts, ctypes.byref(size))
    left, busy = list(range(parts)), threading.local()
    failures: List[_c.Error] = []
    rooms: List[Any] = [ctypes.create_string_buffer(size.value + 64) for _ in range(threads)]

    def work(_: Optional[int]) -> None:
        error = _c.ErrorText()
        try:
            busy.room = rooms.pop()
            space = (ctypes.addressof(busy.room) + 63) // 64 * 64
            while left and not failures:
                status = lib.attn_execute_part(handle, at, left.pop(), parts, space, ctypes.byref(error))
                if status:
                    failures.append(_c.failure(status, error))
        except IndexError:  # another thread took the last part, or there are more threads than were asked for
            pass

    body = _BODY(work)
    start(body, None, threads, 0)
    if failures:
        raise failures[0]
    return True
