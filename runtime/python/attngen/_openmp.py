"""Runs on tensors on the threads of PyTorch's OpenMP instead of libattn's own. After one of its operators, PyTorch's threads look
for work for some milliseconds before they sleep, and compete for processors with any other threads that run meanwhile: two threads on
two processors then take up to twice as long. What it is not: for small runs, for those whose (sequence, KV head) pairs do not keep all
threads busy, or with another number of threads than PyTorch's. These keep libattn's threads, and so does a forked child, in which
OpenMP has no threads.
"""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, List

from . import _c

MOST_ROOMS = 4  # that are kept: as many threads of Python may call at once without making new ones
LEAST_WORK = 3e7  # the fewest multiply-adds of a run that uses OpenMP's threads: waking them takes some microseconds
MOST_IDLE = 0.05  # of the threads' time, while the last parts are computed
_lock = threading.Lock()
_process = os.getpid()
_parallel: Any = None
_work: Any = None  # the address of attn_team_work
_rooms: List[Any] = []
_looked = False


def _find() -> Any:
    """GOMP_parallel of the library that PyTorch loaded; None if there is none, or more than one."""
    global _work
    _work = ctypes.cast(_c.library().attn_team_work, ctypes.c_void_p).value
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "/lib" in line and "omp" in line.rsplit("/", 1)[-1]}
    paths = {p for p in paths if os.path.basename(p).startswith(("libgomp", "libiomp5", "libomp."))}
    ours = {p for p in paths if os.sep + "torch" + os.sep in p} or paths
    if len(ours) != 1:
        return None
    function = getattr(ctypes.CDLL(ours.pop()), "GOMP_parallel", None)
    if function is not None:
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
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
                except (OSError, AttributeError):  # no such file, or an older libattn
                    _parallel = None
                _looked = True
    return _parallel


def parts_for(units: int, threads: int) -> int:
    """How many parts a run of so many (sequence, KV head) pairs is cut into: a divisor, so that no pair is shared. 0: threads would
    wait for the last parts, where attn_execute divides more finely."""
    for parts in range(min(units, 8 * threads), threads - 1, -1):
        turns = -(-parts // threads)
        if units % parts == 0 and parts >= (1 - MOST_IDLE) * turns * threads:
            return parts
    return 0


def run_in_team(call: Any, run: _c.Run, parts: int, threads: int) -> bool:
    """Runs in parts that the team's threads claim, with the bits of attn_execute; they need no lock of Python for that. False: there
    is no team, nothing was done."""
    start = parallel()
    if start is None:
        return False
    size = ctypes.c_size_t()
    at = ctypes.addressof(run)
    _c.call("attn_workspace_size", call._handle, at, parts, ctypes.byref(size))
    room = _room(threads * size.value + 64)
    team = _c.Team(size=ctypes.sizeof(_c.Team), plan=call._handle.value, run=at, parts=parts, members=threads,
                   workspace=(ctypes.addressof(room) + 63) // 64 * 64, workspace_size=size.value)
    start(_work, ctypes.addressof(team), threads, 0)
    if len(_rooms) < MOST_ROOMS:
        _rooms.append(room)
    if team.failed:
        raise _c.failure(team.status, team.error)
    return True


def _room(size: int) -> Any:
    """Memory for the workspaces of a team: that of an earlier run, if it is large enough."""
    try:
        room = _rooms.pop()
        if ctypes.sizeof(room) >= size:
            return room
    except IndexError:
        pass
    return ctypes.create_string_buffer(size)
