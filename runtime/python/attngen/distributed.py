"""Attention over a sequence that is shared among several processes, with torch.distributed (Gloo or NCCL).

    x = attngen.distributed.shard(x, group)                     # each rank's rows, in zigzag order
    o = attngen.distributed.attention(q, k, v, group, causal=True)          # for this rank's rows
    whole = attngen.distributed.unshard(o, group)

Keys and values travel round a ring while kernels run (Liu, Zaharia and Abbeel 2023, Ring Attention). The results for
the blocks of keys are merged by their LSE, in double precision on the processor. With N ranks, a sequence is cut into
2 N chunks, and rank r has chunks r and 2 N - 1 - r. In this zigzag order a causal mask costs every rank the same.
"""
from __future__ import annotations

import ctypes
from typing import Any, List, Optional, Set, Tuple

import torch
import torch.distributed as dist

from . import _c, _plans
from ._arrays import contiguous
from ._call import attention as _attend
from ._prepare import fail

_CODES = {torch.float32: _c.F32, torch.float16: _c.F16, torch.bfloat16: _c.BF16}


def _place(group: Any) -> Tuple[int, int]:
    return dist.get_rank(group), dist.get_world_size(group)


def shard(x: Any, group: Any = None, dim: int = 2) -> Any:
    """Returns a new tensor with this rank's rows of a sequence that every rank has whole, in zigzag order: chunks r and
    2 N - 1 - r of 2 N, one after the other. dim: the dimension of the rows (2 for [batch, heads, rows, elements]), whose
    length is a multiple of 2 N."""
    rank, ranks = _place(group)
    rows = x.shape[dim]
    if rows % (2 * ranks):
        raise fail(f"dimension {dim} has {rows} rows; expected a multiple of {2 * ranks}, twice the number of ranks")
    chunk = rows // (2 * ranks)
    return torch.cat([x.narrow(dim, rank * chunk, chunk), x.narrow(dim, (2 * ranks - 1 - rank) * chunk, chunk)], dim)


def unshard(x: Any, group: Any = None, dim: int = 2) -> Any:
    """Returns the whole sequence in its own order, on every rank, from each rank's zigzag rows: the reverse of shard. It
    also takes O and, with dim=2, LSE."""
    rank, ranks = _place(group)
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(parts, x, group=group)
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([h[0] for h in halves] + [h[1] for h in reversed(halves)], dim)


class _Sum:
    """Results for the same rows over different keys, merged as they arrive: O in float32 and LSE."""

    def __init__(self, o: Any, lse: Any) -> None:
        self.o, self.lse = o, lse

    def add(self, o: Any, lse: Any, first: int = 0) -> None:
        """Merges the rows from `first` on with a result over other keys."""
        mine = self.o[:, :, first:], self.lse[:, :, first:].contiguous()
        merged = merge([mine[0], o], [mine[1], lse])
        self.o[:, :, first:], self.lse[:, :, first:] = merged


def merge(parts: List[Any], lses: List[Any], dtype: Any = None, sinks: Any = None) -> Tuple[Any, Any]:
    """Returns O and LSE over all keys from results over parts of them. parts: tensors [batch, heads, rows, Dv] of the
    same sides and type. lses: their LSEs, float32 [batch, heads, rows]. dtype: O's type, by default that of the parts.
    sinks: float32 [heads]. On the processor this is attn_merge of attn.h, in double precision, rounded once; on a card
    it is attn_merge_cuda, in float32."""
    first = parts[0]
    batch, heads, rows, dim = first.shape
    for i, (o, lse) in enumerate(zip(parts, lses)):
        if o.shape != first.shape or o.dtype is not first.dtype or o.device != first.device:
            raise fail(f"part {i} is {list(o.shape)} of {o.dtype}; expected all as part 0")
        if lse.shape != first.shape[:-1] or lse.dtype is not torch.float32:
            raise fail(f"LSE {i} is {list(lse.shape)} of {lse.dtype}; expected {list(first.shape[:-1])} of float32")
    if first.is_cuda and not hasattr(_c.library(), "attn_merge_cuda"):
        return _merge_by_torch(parts, lses, dtype or first.dtype, sinks)
    if any(o.stride() != first.stride() for o in parts) or (dim > 1 and first.stride(-1) != 1):
        parts = [o.contiguous() for o in parts]
    lses = [lse.contiguous() for lse in lses]
    o = torch.empty(first.shape, dtype=dtype or first.dtype, device=first.device)
    lse = torch.empty(first.shape[:-1], dtype=torch.float32, device=first.device)
    if o.numel() == 0:
        return o, lse
    count = len(parts)
    pointers = (ctypes.c_void_p * count)(*[p.data_ptr() for p in parts])
    lse_pointers = (ctypes.c_void_p * count)(*[x.data_ptr() for x in lses])
    p = _c.Partials(size=ctypes.sizeof(_c.Partials), count=count, part_o=ctypes.addressof(pointers),
                    part_lse=ctypes.addressof(lse_pointers), part_dtype=_CODES[parts[0].dtype], dtype=_CODES[o.dtype],
                    o=o.data_ptr(), lse=lse.data_ptr(), batch=batch, q_len=rows, heads=heads, head_dim_v=dim,
                    sinks=None if sinks is None else sinks.data_ptr())
    p.part_stride[:] = [max(s, 1) for s in parts[0].stride()[:3]]
    p.o_stride[:] = contiguous(o.shape)[:3]
    if not first.is_cuda:
        _c.call("attn_merge", _c.context(), ctypes.byref(p))
        return o, lse
    plan = _plans.any_on(first.device.index)
    _c.call("attn_merge_cuda", plan.handle, ctypes.byref(p), torch.cuda.current_stream(first.device).cuda_stream)
    return o, lse


def _merge_by_torch(parts: List[Any], lses: List[Any], dtype: Any, sinks: Any) -> Tuple[Any, Any]:
    """The same with PyTorch's operators, for a libattn without attn_merge_cuda."""
    lse = torch.stack(lses)
    top = lse.amax(0)
    top = torch.where(top.isinf(), torch.zeros_like(top), top)
    weights = (lse - top).exp()
    total = weights.sum(0)
    below = total if sinks is None else total + (sinks[:, None] - top).exp()
    below = torch.where(total > 0, below, torch.ones_like(below))
    o = torch.zeros(parts[0].shape, dtype=torch.float32, device=top.device)
    for part, weight in zip(parts, weights):
        o += torch.where(weight[..., None] > 0, part.float() * weight[..., None], torch.zeros_like(o))
    return (o / below[..., None]).to(dtype), total.log() + top


def _part(q: Any, k: Any, v: Any, scale: Optional[float], causal: bool = False,
          q_offset: Optional[int] = None) -> Tuple[Any, Any]:
    """O in float32 and LSE of rows over a block of keys; O is rounded first if libattn has no kernel with float32 results."""
    kind = (q.dtype, q.shape[3], v.shape[3])
    if not q.is_cuda or kind not in _rounded:
        try:
            return _attend(q, k, v, causal=causal, q_offset=q_offset, scale=scale, lse=True, o_dtype="f32")
        except _c.Unsupported:
            if not q.is_cuda:
                raise
    o, lse = _attend(q, k, v, causal=causal, q_offset=q_offset, scale=scale, lse=True)  # may refuse the rest, too
    _rounded.add(kind)
    return o.float(), lse


_rounded: Set[Any] = set()  # kinds of rows for which kernels on a card write O only in q's type


class _Ring:
    """K and V on their way round the ring: while kernels use one block, the next one arrives from the previous rank."""

    def __init__(self, k: Any, v: Any, group: Any) -> None:
        rank, ranks = _place(group)
        self.group, self.ranks = group, ranks
        to, of = (rank + 1) % ranks, (rank - 1) % ranks
        self.to = dist.get_global_rank(group, to) if group is not None else to
        self.of = dist.get_global_rank(group, of) if group is not None else of
        self.now = torch.cat([k.reshape(-1), v.reshape(-1)])
        self.next = torch.empty_like(self.now)
        self.shapes = (k.shape, v.shape)
        self.requests: List[Any] = []

    def start(self) -> None:
        """Starts sending the current block on and receiving the next one."""
        self.requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, self.now, self.to, self.group),
                                                dist.P2POp(dist.irecv, self.next, self.of, self.group)])

    def turn(self) -> None:
        """Waits for the next block and makes it the current one."""
        for request in self.requests:
            request.wait()
        self.now, self.next = self.next, self.now

    def block(self) -> Tuple[Any, Any]:
        k, v = self.shapes
        return self.now[:k.numel()].view(k), self.now[k.numel():].view(v)


def attention(q: Any, k: Any, v: Any, group: Any = None, *, causal: bool = False, scale: Optional[float] = None,
              queries: str = "sharded", method: Optional[str] = None, lse: bool = False,
              q_offset: Optional[int] = None) -> Any:
    """Attention of this rank's queries to the keys of all ranks of a group. Every rank must call it.

    q is [batch, heads, rows, D], k is [batch, KV heads, keys, D] and v is [batch, KV heads, keys, Dv], with the same
    sides on every rank; float32, float16 or bfloat16, on the processor or this rank's card. scale: default 1/sqrt(D).
    Returns O [batch, heads, rows, Dv] of q's type, or with lse=True (O, LSE), where LSE is float32 [batch, heads, rows].

    queries="sharded": q, k and v hold this rank's rows, and so do O and LSE. With causal, all of them are in the order
        of shard(), there are as many queries as keys, and a query sees its own key and those before it in the whole
        sequence. method: "ring" sends K and V round; "partials" leaves them in place and sends queries and partial
        results, which is less if there are few queries. The default is the method that sends less, and with causal the
        ring.
    queries="replicated": every rank gives the same q and gets the same O, for decoding. Each rank computes over its own
        keys, and only partial results are sent. With causal, the keys of rank r follow those of rank r - 1, in order
        and not in zigzag; q_offset is the position of the first query, by default the keys - queries of the whole
        sequence.

    Kernels and messages overlap if the backend allows it. The same inputs on the same number of ranks give the same
    bits; O keeps the error bound of one process. Raises as attngen.attention does, before anything is sent.
    """
    if not dist.is_initialized():
        raise fail("torch.distributed is not initialised; expected a call of init_process_group before")
    if not all(isinstance(t, torch.Tensor) for t in (q, k, v)):
        raise fail(f"q, k and v are of types {', '.join(type(t).__name__ for t in (q, k, v))}; expected PyTorch tensors")
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise _c.Unsupported("a tensor requires grad, and kernels compute no gradients; expected torch.no_grad(), "
                             "torch.inference_mode() or tensor.detach()")
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4 or not q.dtype is k.dtype is v.dtype:
        raise fail("q, k and v do not all have 4 dimensions and one type; expected [batch, heads, rows, elements] of "
                   "one type")
    if queries not in ("sharded", "replicated") or method not in (None, "ring", "partials"):
        raise fail(f"queries is {queries!r} and method {method!r}; expected 'sharded' or 'replicated', and None, 'ring' or "
                   "'partials'")
    _, ranks = _place(group)
    if 0 in (q.numel(), k.numel(), v.numel()):  # on every rank, so there is nothing to send
        found = _part(q, k, v, scale)
    elif queries == "replicated":
        found = _replicated(q, k, v, group, causal, scale, q_offset)
    elif q_offset is not None:
        raise fail("q_offset is given and queries are sharded; expected it only with queries='replicated'")
    elif causal:
        if method == "partials":
            raise _c.Unsupported("method is 'partials' with causal and sharded queries; expected 'ring'")
        if q.shape[2] != k.shape[2] or q.shape[2] % 2:
            raise fail(f"q has {q.shape[2]} rows and k has {k.shape[2]}; expected the same even number, as shard() gives")
        found = _ring(q, k, v, group, True, scale)
    else:
        # What a rank sends: all K and V except the last block; or its queries to all, and a result for each query of the others.
        ring = (k.numel() + v.numel()) * k.element_size()
        partials = q.numel() * q.element_size() + q.numel() // max(q.shape[3], 1) * (v.shape[3] + 1) * 4
        few = method == "partials" or (method is None and partials < ring)
        found = (_exchanged if few else _ring)(q, k, v, group, False, scale)
    o = found[0].to(q.dtype)
    return (o, found[1]) if lse else o


_served: Set[Any] = set()  # kinds of calls that kernels were found for


def _ring(q: Any, k: Any, v: Any, group: Any, causal: bool, scale: Optional[float]) -> Tuple[Any, Any]:
    rank, ranks = _place(group)
    half = q.shape[2] // 2
    ring = _Ring(k, v, group)
    total: Any = None
    # What kernels refuse is refused before anything is sent: a message that nobody receives would meet the next call's.
    # So the first call of its kind computes over its own keys first, and later ones do so while messages travel.
    kind = (q.shape, q.stride(), k.shape, v.shape, q.dtype, q.device, causal, scale)
    if kind not in _served:
        total = _Sum(*_part(q, *ring.block(), scale, causal, 0 if causal else None))
        if len(_served) >= 4096:
            _served.clear()
        _served.add(kind)
    for step in range(ranks):
        if step + 1 < ranks:
            ring.start()
        of = (rank - step) % ranks  # whose keys these are
        keys, values = ring.block()
        if step == 0:
            # Its own rows: in zigzag order positions rise along rows and keys alike.
            total = total or _Sum(*_part(q, keys, values, scale, causal, 0 if causal else None))
        elif not causal:
            total.add(*_part(q, keys, values, scale))
        elif of < rank:  # the first of its chunks is before both of ours, the second behind them
            total.add(*_part(q, keys[:, :, :half], values[:, :, :half], scale))
        else:  # both are between our first and our second
            total.add(*_part(q[:, :, half:], keys, values, scale), first=half)
        if step + 1 < ranks:
            ring.turn()
    return total.o, total.lse


def _gather(x: Any, group: Any) -> List[Any]:
    _, ranks = _place(group)
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(parts, x, group=group)
    return parts


def _replicated(q: Any, k: Any, v: Any, group: Any, causal: bool, scale: Optional[float],
                q_offset: Optional[int]) -> Tuple[Any, Any]:
    rank, ranks = _place(group)
    if causal:
        keys = k.shape[2]
        first = q_offset if q_offset is not None else keys * ranks - q.shape[2]
        o, lse = _part(q, k, v, scale, True, first - rank * keys)
    else:
        o, lse = _part(q, k, v, scale)
    # One message: LSE behind O's rows.
    parts = _gather(torch.cat([o, lse[..., None]], -1), group)
    return merge([p[..., :-1].contiguous() for p in parts], [p[..., -1].contiguous() for p in parts])


def _exchanged(q: Any, k: Any, v: Any, group: Any, causal: bool, scale: Optional[float]) -> Tuple[Any, Any]:
    """Queries go to all ranks, each rank computes over its own keys, and partial results go back."""
    rank, ranks = _place(group)
    mine, own = [], _part(q, k, v, scale)  # what kernels refuse is refused before anything is sent
    for of, whose in enumerate(_gather(q, group)):
        o, lse = own if of == rank else _part(whose, k, v, scale)
        mine.append(torch.cat([o, lse[..., None]], -1).contiguous())
    theirs = [torch.empty_like(mine[0]) for _ in range(ranks)]
    if dist.get_backend(group) == "nccl":
        dist.all_to_all(theirs, mine, group=group)
    else:  # Gloo has none
        theirs[rank] = mine[rank]
        peers = [dist.get_global_rank(group, r) if group is not None else r for r in range(ranks)]
        requests: List[Any] = [dist.isend(mine[r], peers[r], group=group) for r in range(ranks) if r != rank]
        requests += [dist.irecv(theirs[r], peers[r], group=group) for r in range(ranks) if r != rank]
        for request in requests:
            request.wait()
    return merge([p[..., :-1].contiguous() for p in theirs], [p[..., -1].contiguous() for p in theirs])
