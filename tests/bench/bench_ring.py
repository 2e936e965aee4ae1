#!/usr/bin/env python3
"""Attention over a sequence that several cards share, against one card: attngen.distributed over NCCL, one process a card.

    python3 tests/bench/bench_ring.py [CARDS] [ROWS]        all cards, 131072 rows

bf16, 16 heads, D = 128, causal, batch 1. First a short sequence is checked: against one card's result, and bit for bit
against a second run. Then one card and the ring are timed in turn, each after a rest, from a barrier to the end of the
slowest card; medians. attngen must be importable, and have a backend for the cards (ATTNGEN_LIBRARY names the library).
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

import attngen
import attngen.distributed as ring

HEADS, DIM, ROUNDS, SHORT = 16, 128, 7, 8192


def inputs(rows, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    return [torch.randn(1, HEADS, rows, DIM, generator=generator, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


def timed(call, rank):
    """Milliseconds until every card is done, the same on all ranks."""
    torch.cuda.synchronize()
    time.sleep(0.2)  # a card lowers its clock under load
    dist.barrier()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    took = torch.tensor([time.perf_counter() - start], device="cuda")
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item() * 1e3


def check(rank):
    q, k, v = inputs(SHORT, 1)
    whole = attngen.sdpa(q, k, v, is_causal=True)
    mine = [ring.shard(x) for x in (q, k, v)]
    found = [ring.unshard(ring.attention(*mine, causal=True)) for _ in range(2)]
    apart = (found[0].float() - whole.float()).abs().max().item()
    same = torch.equal(found[0], found[1])
    if rank == 0:
        print(f"{SHORT} rows: largest difference from one card's {apart:.2g}; a second run gives "
              f"{'the same bits' if same else 'OTHER BITS'}", flush=True)
    if not same or apart > 0.02:
        raise SystemExit(1)


def main(rank, ranks, rows):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    with torch.inference_mode():
        check(rank)
        q, k, v = inputs(rows, 2)
        mine = [ring.shard(x).contiguous() for x in (q, k, v)]
        one = (lambda: attngen.sdpa(q, k, v, is_causal=True)) if rank == 0 else (lambda: None)
        both = [one, lambda: ring.attention(*mine, causal=True)]
        for call in both:
            call()
        took = [[], []]
        for _ in range(ROUNDS):
            for i, call in enumerate(both):
                took[i].append(timed(call, rank))
    alone, shared = (statistics.median(t) for t in took)
    if rank == 0:
        flops = 2 * rows * rows * DIM * HEADS
        print(f"{torch.cuda.get_device_name()}, {rows} rows: one card {alone:.2f} ms ({flops / alone * 1e-9:.0f} TFLOP/s), {ranks} "
              f"cards {shared:.2f} ms, speed {alone / shared:.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    CARDS = int(sys.argv[1]) if len(sys.argv) > 1 else torch.cuda.device_count()
    torch.multiprocessing.spawn(main, (CARDS, int(sys.argv[2]) if len(sys.argv) > 2 else 131072), CARDS)
