"""Runs on the threads of PyTorch's OpenMP instead of libattn's own, for configure(openmp=True). After one of its operators,
PyTorch's threads look for work for some milliseconds before they sleep, and compete for processors with any other threads
that run meanwhile. What it is not: the default. Small runs, and runs with more threads than (sequence, KV head) pairs,
keep libattn's threads, and so does a forked child, in which OpenMP has no threads.
"""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, List, Optional

from . import _c

_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LEAST_WORK = 1e8  # the fewest multiply-adds of a run that uses OpenMP's threads
_lock = threading.Lock()
_process = os.getpid()
_parallel: Any = None
_looked = False


def _find() -> Any:
    """GOMP_parallel of the library that PyTorch loaded; None if there is none, or more than one."""
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
    if os.getpid() != _process:
        return None
    if not _looked:
        with _lock:
            if not _looked:
                try:
                    _parallel = _find()
                except OSError:
                    _parallel = None
                _looked = True
    return _parallel


def parts_for(units: int, threads: int) -> int:
    """How many parts a run of so many (sequence, KV head) pairs is cut into: a divisor, so that no pair is shared."""
    for parts in range(min(units, 8 * threads), threads - 1, -1):
        if units % parts == 0:
            return parts
    return 0


def run_in_team(call: Any, run: _c.Run, parts: int, threads: int) -> bool:
    """Runs in parts that the team's threads claim, with the bits of attn_execute. False: there is no team, nothing was done."""
    start = parallel()
    if start is None:
        return False
    lib, handle, at = _c.library(), call._handle, ctypes.addressof(run)
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
