"""Whether arrays share memory: a kernel writes results while it still reads its inputs, so that results must lie apart.

Bounds of addresses decide nearly always. Where they cross, as for two parts of one tensor, strides decide exactly. What it
is not: libattn's own check. attn_execute trusts its caller.
"""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

from . import _c
from ._arrays import View

_SIZES = {"f32": 4, "f16": 2, "bf16": 2, "bool": 1, "u8": 1, "i8": 1, "fp8": 1, "i32": 4, "i64": 8}
MOST_STEPS = 20000  # of a search; then arrays count as sharing memory
MOST_KNOWN = 256


class Extent(NamedTuple):
    """The bytes of an array, relative to its address: bounds, the bytes of a run without gaps, and how often and by how many
    bytes the run is repeated. An empty array has no run."""
    low: int
    high: int
    run: int
    steps: Tuple[Tuple[int, int], ...]  # stride and number, largest stride first


def extent_of(view: View) -> Extent:
    run = _SIZES.get(view.dtype, 1)
    if 0 in view.shape:
        return Extent(0, 0, 0, ())
    steps, low, high = [], 0, 0
    for side, stride in sorted(((n, s * run) for n, s in zip(view.shape, view.strides) if n > 1 and s), key=lambda x: abs(x[1])):
        low, high = low + min(stride, 0) * (side - 1), high + max(stride, 0) * (side - 1)
        steps.append((stride, side))
    high += run
    while steps and steps[0][0] == run:
        run *= steps.pop(0)[1]
    return Extent(low, high, run, tuple(reversed(steps)))


def _reaches(terms: Sequence[Tuple[int, int, int]], low: int, high: int) -> bool:
    """Whether numbers z, each from its bounds, give low <= sum of stride * z <= high. terms: positive strides, largest first,
    and the bounds of z. True if that takes too long to find out."""
    least, most = [0], [0]  # of the sums of the last terms
    for stride, first, last in reversed(terms):
        least.append(least[-1] + stride * first)
        most.append(most[-1] + stride * last)
    left = [(0, low, high)]
    for _ in range(MOST_STEPS):
        if not left:
            return False
        at, low, high = left.pop()
        if at == len(terms):
            if low <= 0 <= high:
                return True
            continue
        stride, first, last = terms[at]
        rest = len(terms) - at - 1
        first = max(first, -((most[rest] - low) // stride))
        last = min(last, (high - least[rest]) // stride)
        left.extend((at + 1, low - stride * z, high - stride * z) for z in range(first, min(last, first + MOST_STEPS) + 1))
    return True


def share(a: Extent, a_at: int, b: Extent, b_at: int) -> bool:
    """Whether two arrays at these addresses have a byte in common."""
    if not a.run or not b.run or a_at + a.low >= b_at + b.high or b_at + b.low >= a_at + a.high:
        return False
    bounds: Dict[int, Tuple[int, int]] = {}
    for sign, steps in ((-1, a.steps), (1, b.steps)):
        for stride, number in steps:
            first, last = bounds.get(abs(stride), (0, 0))
            end = (number - 1) * (sign if stride > 0 else -sign)
            bounds[abs(stride)] = (first + min(end, 0), last + max(end, 0))
    terms = [(stride, *bounds[stride]) for stride in sorted(bounds, reverse=True)]
    return _reaches(terms, a_at - b_at - b.run + 1, a_at - b_at + a.run - 1)


def shares_itself(view: View) -> bool:
    """Whether two elements of an array lie at the same place, as in an expanded tensor."""
    if 0 in view.shape:
        return False
    if any(n > 1 and not s for n, s in zip(view.shape, view.strides)):
        return True
    a = extent_of(view)
    steps = [(abs(stride), number) for stride, number in a.steps]
    if all(stride >= inner for (stride, _), inner in zip(steps, [n * s for s, n in steps[1:]] + [a.run])):
        return False
    for i, (stride, number) in enumerate(steps):  # two places that first differ along side i
        terms = [(s, 1 - n, n - 1) for s, n in steps[i + 1:]]
        if any(_reaches(terms, -stride * z - a.run + 1, -stride * z + a.run - 1) for z in range(1, min(number, MOST_STEPS))):
            return True
    return False


class Apart:
    """What a prepared call that writes to its caller's memory writes and reads."""

    def __init__(self, written: Dict[str, View], read: Dict[str, View]) -> None:
        for name, view in written.items():
            if shares_itself(view):
                raise _c.Invalid(f"{name} is {list(view.shape)} with strides {list(view.strides)}, by which elements share memory; "
                                 "expected an array in which each has its own")
        self.arrays: List[Tuple[str, Extent]] = [(name, extent_of(view)) for name, view in (*written.items(), *read.items())]
        self.last: Any = None  # the addresses of the last call
        self.known: Set[Any] = set()  # arrays whose bounds cross, and their distances at which they are apart
        # Bounds of two arrays cross where one address less the other is between these two numbers.
        self.pairs = [(i, j, a.low - b.high, a.high - b.low) for i, (_, a) in enumerate(self.arrays[:len(written)])
                      for j, (_, b) in enumerate(self.arrays) if j > i and a.run and b.run]

    def check(self, at: Tuple[int, ...]) -> None:
        """Raises Invalid if an array that is written shares memory with any other. The addresses are in the order of the
        arrays that this was made with."""
        if at == self.last:
            return
        for i, j, low, high in self.pairs:
            if low < at[j] - at[i] < high:
                self._look(i, j, at[j] - at[i])
        self.last = at

    def _look(self, i: int, j: int, distance: int) -> None:
        if (i, j, distance) in self.known:
            return
        (name, a), (other, b) = self.arrays[i], self.arrays[j]
        if share(a, 0, b, distance):
            raise _c.Invalid(f"{name} shares memory with {other}; expected memory of its own, since inputs are still read while "
                             "results are written")
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known.add((i, j, distance))
