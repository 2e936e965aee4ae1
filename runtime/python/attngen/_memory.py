"""Memory for large results on the processor, which later results use again: for new memory the system makes pages while the
kernel writes, which can take longer than the kernel, and the C library gives a freed array's pages back.

What it is not: an allocator of anything else. A block belongs to one array, and comes back when that array and all views of it
are gone. Freed blocks of at most `most` bytes are kept, those that were used last; the others go back to the system. A quarter of
that may be lent to calls that are made again and again: they find the memory of their last results without looking here.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import threading
from typing import Any, Dict, List

LEAST = 1 << 18  # bytes of the smallest result that gets a block: for less, the C library seldom asks the system
HUGE = 1 << 21  # bytes of a large page
FRESH = 1 << 25  # bytes: the C library takes so much from the system each time
most = 1 << 27  # bytes of freed blocks that are kept; configure() changes it

_lock = threading.Lock()  # never waited for where a block ends, since that may be anywhere, also in the middle of `block`
_freed: Dict[int, List[Any]] = {}  # mappings by their sizes; the size that was freed last comes last
_held = 0  # bytes of them
_lent: Dict[int, Any] = {}  # what calls have borrowed, by its id: a list, and the bytes of an element; the last borrower comes last
BORROWED = 2  # blocks that a call may have: one for the result that lives, one for the next
_kinds: Dict[int, Any] = {}
_madvise: Any = None


def _unlock() -> None:
    """A forked child has its parent's lock, but not the thread that may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


def _rounded(size: int) -> int:
    """Up to an eighth more, so that results of about the same size share blocks."""
    step = max(mmap.PAGESIZE, 1 << max(size.bit_length() - 4, 0))
    return -(-size // step) * step


def _map(size: int) -> Any:
    """New memory, in large pages where it is large enough, and its first byte in it that such a page can begin with."""
    if size < HUGE:
        return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), 0
    mapping = mmap.mmap(-1, size + HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(mapping)) % HUGE
    try:
        mapping.madvise(mmap.MADV_HUGEPAGE)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):  # pages are small then
        pass
    return mapping, start


def _borrowed() -> int:
    return sum(len(blocks) * size for blocks, size in list(_lent.values()))


def _keep(size: int, place: Any) -> None:
    """Keeps memory that no array uses now."""
    global _held
    if size > most or _lock is None or not _lock.acquire(blocking=False):  # None: Python is ending
        return  # the mapping ends with its last name
    try:
        _freed.setdefault(size, []).append(place)
        _freed[size] = _freed.pop(size)
        _held += size
        while _held and _held + _borrowed() > most:
            oldest = next(iter(_freed))
            _freed[oldest].pop(0)
            _held -= oldest
            if not _freed[oldest]:
                del _freed[oldest]
    finally:
        _lock.release()


def _kind(size: int) -> Any:
    """The class of blocks of a size: an array of bytes for whoever knows Python's buffers, which an array on it keeps alive."""
    def ended(self: Any, keep: Any = _keep) -> None:
        keep(size, self.place)

    return type("Block", (ctypes.Array,), {"_type_": ctypes.c_char, "_length_": size, "place": None, "__del__": ended})


def block(size: int) -> Any:
    """Memory of at least so many bytes, as a buffer; None if there shall be none for such a size, or the system has none."""
    global _held
    size = _rounded(size)
    if size > most:
        return None
    place = None
    with _lock:
        places = _freed.get(size)
        if places:
            place = places.pop()
            _held -= size
            if not places:
                del _freed[size]
    try:
        mapping, start = place or _map(size)
    except OSError:  # a process may have only so many mappings, and the C library has fewer for as much memory
        return None
    kind = _kinds.get(size)
    if kind is None:
        kind = _kinds[size] = _kind(size)
    found = kind.from_buffer(mapping, start)
    found.place = (mapping, start)
    return found


def lend(blocks: List[Any], block: Any, size: int) -> None:
    """Adds to a call's own blocks, whose memory comes back when it is taken from that list and no array uses it. Whoever takes
    one from the end of the list has it alone."""
    gone: List[Any] = []  # they end when the lock is free, since they come back then
    with _lock:
        if size > most // 4:
            return
        blocks.append(block)
        gone.extend(blocks[:-BORROWED])
        del blocks[:-BORROWED]
        _lent.pop(id(blocks), None)
        _lent[id(blocks)] = blocks, size
        while _borrowed() > most // 4:
            others, _ = _lent.pop(next(iter(_lent)))
            gone.extend(others)
            others.clear()


def keep(size: int) -> None:
    """Sets how many bytes of freed blocks are kept, and lets go of all that are kept now."""
    global most, _held
    with _lock:  # blocks that end now find it taken, and go back to the system
        most, _held = size, 0
        _freed.clear()
        for blocks, _ in _lent.values():
            blocks.clear()
        _lent.clear()


def want_huge_pages(address: int, size: int) -> None:
    """Asks for large pages for a library's new memory, as NumPy does itself, if it comes from the system each time."""
    global _madvise
    if size < FRESH:
        return
    if _madvise is None:
        _madvise = ctypes.CDLL(None).madvise
        _madvise.argtypes, _madvise.restype = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    begin, end = (address + HUGE - 1) // HUGE * HUGE, (address + size) // HUGE * HUGE
    if begin < end:
        _madvise(begin, end - begin, 14)  # MADV_HUGEPAGE; where it is refused, pages are small
