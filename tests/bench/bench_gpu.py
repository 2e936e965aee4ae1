#!/usr/bin/env python3
"""bench_gpu.py - attention on a GPU: attngen's OpenCL kernels beside cuDNN and FlashAttention-2 (both through PyTorch's
scaled_dot_product_attention), and FlashAttention-4 where the package flash-attn-4 is installed, in one run, on the same
shapes. What it is not: part of attngen; it needs PyTorch.

    tests/bench/bench_gpu.py out/bin/tests/bench/bench_gpu [--csv FILE [--svg FILE]] [--dtype bf16,f16] [--dims 64,128,256]
        [--lengths 512,...,16384] [--causal 0,1] [--tokens 16384] [--tune SECONDS | --names FILE...] [--rounds 8] [--no-peers]
        [--old WORKER] [--check ROWS] [--seed N] [--decode]

Every cell has 16k tokens in all and 2048/D heads. attngen's kernel is the one that tuning finds within so many seconds, or
the fastest of the names in the files that belong to the cell; it is checked first, on fresh random data, by 64 rows of
the cell's output against the double-precision reference, and nothing is measured of one that is wrong. Each contender has 32
launches to warm up, then 8 rounds of 16 launches, or as many more as take 20 ms, timed by the device's clock; the rounds of
all contenders alternate, in an order that turns, and with them those of a dense product, as long as attngen's. A card at its
limit of power lowers its clock, and for a while after: so each round is on a card that has rested. Medians are compared. Data
are random and normal.

With --old, the bench_gpu of another version of attngen takes turns, too: with the fastest of its own kernels, by the same names.

With --decode the cells are few queries over many keys, and what is compared is the rate at which K and V are read, each
counted once. Rounds are then timed by the host, from the first launch to the end of the last, and a kernel that
does nothing but read as much memory is timed beside.
"""
import argparse
import csv
import json
import math
import os
import random
import subprocess
import sys
import time

LAUNCHES, WARM, ROUND_MS, REST = 16, 32, 20, 0.04
READ = 1 << 30


class Worker:
    def __init__(self, path):
        self.process = subprocess.Popen([path, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.device = json.loads(self.process.stdout.readline())

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else {"error": "the worker ended"}


class Cell:
    def __init__(self, dtype, dim, length, causal, tokens):
        self.dtype, self.dim, self.length, self.causal = dtype, dim, length, causal
        self.batch, self.heads = max(1, tokens // length), 2048 // dim
        self.flops = 4 * self.batch * self.heads * dim * length * (length + 1) / 2 if causal else \
            4 * self.batch * self.heads * dim * length * length
        self.shape = f"{self.batch},{self.heads},{self.heads},{length},{length}"
        self.stem = f"attn_{dtype}_d{dim}{'_causal' if causal else ''}_on_"

    def tflops(self, ms):
        return self.flops / ms * 1e-9 if ms else 0.0


class FewQueries(Cell):
    """One query, or some, of each head over many keys."""
    def __init__(self, dtype, batch, heads, kv_heads, queries, keys):
        self.dtype, self.dim, self.length, self.causal = dtype, 128, keys, False
        self.batch, self.heads, self.kv_heads, self.queries = batch, heads, kv_heads, queries
        self.bytes = 2 * 2 * batch * kv_heads * keys * self.dim
        self.flops = 4 * batch * heads * queries * keys * self.dim
        self.shape = f"{batch},{heads},{kv_heads},{queries},{keys}"
        self.stem = f"attn_{dtype}_d128_on_"
        self.launches = max(8, int(5e9 * 16 // self.bytes))

    def rate(self, ms):
        return self.bytes / ms * 1e-6 if ms else 0.0


def fa4():
    """FlashAttention-4's function, or None where the package flash-attn-4 is not installed."""
    try:
        from flash_attn.cute import flash_attn_func
        return flash_attn_func
    except ImportError:
        return None


def timed(torch, launch, launches):
    """Milliseconds of each, side by side, by the device's clock."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(launches):
        launch()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / launches


class Peers:
    """cuDNN, FlashAttention-2 and FlashAttention-4 on one cell's data."""
    def __init__(self, cell):
        import torch
        from torch.nn.attention import SDPBackend
        self.torch, self.cell = torch, cell
        self.backend = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}
        kind = torch.bfloat16 if cell.dtype == "bf16" else torch.float16
        few = isinstance(cell, FewQueries)
        self.gqa = {"enable_gqa": True} if few and cell.heads != cell.kv_heads else {}
        sides = [(cell.heads, cell.queries)] + 2 * [(cell.kv_heads, cell.length)] if few else 3 * [(cell.heads, cell.length)]
        self.q, self.k, self.v = (torch.randn(cell.batch, heads, rows, cell.dim, device="cuda", dtype=kind)
                                  for heads, rows in sides)

    def wall(self, name, launches):
        from torch.nn.attention import sdpa_kernel
        with sdpa_kernel(self.backend[name]):
            self.torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(launches):
                self.torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, **self.gqa)
            self.torch.cuda.synchronize()
            return (time.perf_counter() - start) * 1e3 / launches

    def round(self, name, launches):
        if name == "fa4":
            attention, operands = fa4(), [x.transpose(1, 2).contiguous() for x in (self.q, self.k, self.v)]  # its layout is bshd
            return timed(self.torch, lambda: attention(*operands, causal=self.cell.causal), launches)
        from torch.nn.attention import sdpa_kernel
        attention = self.torch.nn.functional.scaled_dot_product_attention
        with sdpa_kernel(self.backend[name]):
            return timed(self.torch, lambda: attention(self.q, self.k, self.v, is_causal=self.cell.causal), launches)


def median(x):
    x = sorted(x)
    return (x[(len(x) - 1) // 2] + x[len(x) // 2]) / 2 if x else 0.0


def launches_in(ms, each, least):
    return max(least, math.ceil(ms / each))


def choose(worker, cell, options):
    """The name of attngen's kernel for the cell."""
    if not options.names:
        line = f"tune {cell.dtype} {cell.dim},{cell.dim} {int(cell.causal)} {cell.shape} {options.tune}"
        answer = worker.ask(line)
        if "variant" not in answer:
            sys.exit(f"{line}: {answer.get('error')}")
        return answer["variant"]
    best, best_ms = None, math.inf
    for name in options.names:
        if not name.startswith(cell.stem):
            continue
        answer = worker.ask(f"time {name} {cell.shape} 1 4")
        if "ms" in answer:
            time.sleep(REST)
            answer = worker.ask(f"time {name} {cell.shape} 1 {launches_in(ROUND_MS, answer['ms'][0], 4)}")
        if "ms" not in answer:
            print(f"#   {name}: {answer['error']}")
            continue
        ms = answer["ms"][0]
        print(f"#   {cell.length:6} {cell.tflops(ms):7.1f} {name[len(cell.stem):]}  {answer['registers']} registers"
              f"{', %d bytes spilled' % answer['spills'] if answer['spills'] else ''}"
              f"{', serialised' if answer['serialised'] else ''}", flush=True)
        if ms < best_ms:
            best, best_ms = name, ms
    return best


def warm_up(rounds, launches):
    """Milliseconds a launch, of those contenders that can run."""
    each = {}
    for c in rounds:
        try:
            each[c] = rounds[c](launches)
        except (RuntimeError, AssertionError, NotImplementedError) as error:  # what a peer does not take
            print(f"#   {c}: {str(error).splitlines()[0]}")
    return each


def alternate(rounds, launches, count, rest):
    """Medians of so many rounds, in an order that turns, each after a rest of so many seconds."""
    order, seen = list(launches), {c: [] for c in rounds}
    for r in range(count):
        for c in order[r % len(order):] + order[:r % len(order)]:
            time.sleep(rest)
            seen[c].append(rounds[c](launches[c]))
    return {c: median(x) for c, x in seen.items()}


def check(worker, cell, name, options):
    """The error of the kernel as a part of its bound, over some rows of the whole cell."""
    if not name or not options.check:
        return 0
    line = f"check {name} {cell.shape} {options.check} {options.seed}"
    answer = worker.ask(line)
    if answer["error"]: # which it is, too, to be beyond the bound
        sys.exit(f"{line}: {answer['error']}")
    return answer["deviation"] / answer["bound"]


def measure(worker, cell, name, options):
    """Milliseconds a launch, by contender."""
    rounds = {"attngen": lambda k: worker.ask(f"time {name} {cell.shape} 1 {k}")["ms"][0]} if name else {}
    if options.old:
        old = choose(options.old, cell, options)
        rounds["old"] = lambda k: options.old.ask(f"time {old} {cell.shape} 1 {k}")["ms"][0]
    if options.peers:
        peers = Peers(cell)
        for peer in ("cudnn", "fa2", "fa4") if fa4() else ("cudnn", "fa2"):
            rounds[peer] = lambda k, peer=peer: peers.round(peer, k)
        rounds["dense"] = Dense().round
    each = warm_up(rounds, WARM)
    launches = {c: launches_in(ROUND_MS, ms, LAUNCHES) for c, ms in each.items()}
    if "dense" in each and "attngen" in each:
        launches["dense"] = launches_in(launches["attngen"] * each["attngen"], each["dense"], LAUNCHES)
    return alternate(rounds, launches, options.rounds, REST)


def measure_few(worker, cell, name, options):
    """The same for few queries; and of a kernel that reads as much, of more than fits the card's cache."""
    rounds = {"read": lambda k: worker.ask(f"read {READ} 1 8")["ms"][0] * cell.bytes / READ}
    if name:
        rounds["attngen"] = lambda k: worker.ask(f"wall {name} {cell.shape} 1 {k}")["ms"][0]
    if options.peers:
        peers = Peers(cell)
        for peer in ("cudnn", "fa2"):
            rounds[peer] = lambda k, peer=peer: peers.wall(peer, k)
    launches = dict.fromkeys(warm_up(rounds, 8), cell.launches)
    return alternate(rounds, launches, options.rounds, 0)


def decode(worker, options):
    """GB/s of K and V, by shape. Returns the largest error in bounds."""
    worst = 0
    print("| dtype | batch, heads, KV heads, queries, keys | attngen | cuDNN | FA2 | read | of cuDNN | variant |\n" + "|---" * 8 + "|")
    for dtype in options.dtype.split(","):
        for shape in ((16, 32, 8, 1, 8192), (16, 32, 8, 1, 65536), (1, 32, 8, 1, 65536), (16, 32, 8, 16, 8192), (1, 16, 16, 128, 65536)):
            cell = FewQueries(dtype, *shape)
            name = choose(worker, cell, options)
            worst = max(worst, check(worker, cell, name, options))
            speed = {c: cell.rate(ms) for c, ms in measure_few(worker, cell, name, options).items()}
            ours, cudnn, fa2, read = (speed.get(c, 0.0) for c in ("attngen", "cudnn", "fa2", "read"))
            print(f"| {dtype} | {', '.join(map(str, shape))} | {ours:.0f} | {cudnn:.0f} | {fa2:.0f} | {read:.0f} |"
                  f" {ours / cudnn if cudnn else 0:.3f} | {(name or '')[len(cell.stem):]} |", flush=True)
    return worst


class Dense:
    """A bf16 product of 8192 cubed."""
    FLOPS = 2 * 8192**3

    def __init__(self):
        import torch
        self.torch = torch
        self.a, self.b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def round(self, launches):
        return timed(self.torch, lambda: self.a @ self.b, launches)

    def tflops(self, ms):
        return self.FLOPS / ms * 1e-9 if ms else 0.0


def dense_product():
    """Its TFLOP/s on a card that has rested: the best of six short rounds."""
    dense = Dense()
    return dense.tflops(min(dense.round(8) for _ in range(6)))


def clocks():
    """What the card says of itself, or nothing where nvidia-smi is not."""
    fields = ["clocks.sm", "clocks.mem", "clocks.max.sm", "power.draw", "power.limit", "temperature.gpu"]
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=20).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        said = []
    if said:
        print("# " + ", ".join(f"{f} {v.strip()}" for f, v in zip(fields, said[0].split(","))), flush=True)


def versions(worker, options):
    """Returns the dense product's TFLOP/s, 0 without PyTorch."""
    device, dense = worker.device, 0
    print(f"# {device['device']}, driver {device['driver']}, {device['units']} units")
    if options.peers:
        import torch
        dense = dense_product()
        print(f"# PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()};"
              f" dense bf16 product {dense:.0f} TFLOP/s")
    if options.check:
        print(f"# seed {options.seed} (--seed sets another)")
    clocks()
    return dense


def say_checked(worst, options):
    if options.check:
        print(f"# each kernel was right in {options.check} rows of its cell: error at most {worst:.2f} of the bound")


def geometric_mean(x):
    return math.exp(sum(map(math.log, x)) / len(x)) if x else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker")
    parser.add_argument("--csv")
    parser.add_argument("--svg")
    parser.add_argument("--dtype", default="bf16,f16")
    parser.add_argument("--dims", default="64,128,256")
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192,16384")
    parser.add_argument("--causal", default="0,1")
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--tune", type=float, default=10)
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--check", type=int, default=64)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--decode", action="store_true")
    parser.add_argument("--old", help="the bench_gpu of another version")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    options = parser.parse_args()
    if options.svg and not options.csv:
        parser.error("--svg draws what --csv writes; expected both")
    if options.names:
        options.names = [line.strip() for file in options.names for line in open(file) if line.strip()]
    worker = Worker(options.worker)
    options.old = Worker(options.old) if options.old else None
    dense = versions(worker, options)
    if options.decode:
        say_checked(decode(worker, options), options)
        return
    worst, rows, fields = 0, [], ["dtype", "dim", "length", "causal", "variant", "attngen", "cudnn", "fa2", "fa4", "dense", "old"]
    print("| dtype | D | N | causal | attngen | cuDNN | FA2 | FA4 | dense | of cuDNN | of FA2 | of FA4 | of dense | of old | variant |\n"
          + "|---" * 15 + "|")
    for cell in [Cell(t, int(d), int(n), c == "1", options.tokens) for t in options.dtype.split(",")
                 for d in options.dims.split(",") for c in options.causal.split(",") for n in options.lengths.split(",")]:
        name = choose(worker, cell, options)
        worst = max(worst, check(worker, cell, name, options))
        ms = measure(worker, cell, name, options)
        ours, cudnn, fa2, four, old = (cell.tflops(ms.get(c, 0)) for c in ("attngen", "cudnn", "fa2", "fa4", "old"))
        product = Dense.FLOPS / ms["dense"] * 1e-9 if ms.get("dense") else 0
        rows.append(dict(zip(fields, [cell.dtype, cell.dim, cell.length, int(cell.causal), name, ours, cudnn, fa2, four, product, old])))
        print(f"| {cell.dtype} | {cell.dim} | {cell.length} | {'yes' if cell.causal else 'no'} | {ours:.0f} | {cudnn:.0f} |"
              f" {fa2:.0f} | {four:.0f} | {product:.0f} | {ours / cudnn if cudnn else 0:.2f} | {ours / fa2 if fa2 else 0:.2f} |"
              f" {ours / four if four else 0:.2f} | {ours / product if product else 0:.2f} |"
              f" {ours / old if old else 0:.3f} | {(name or '')[len(cell.stem):]} |", flush=True)
    say_checked(worst, options)
    both = [r for r in rows if r["attngen"] and r["cudnn"]]
    if both:
        print(f"# geometric mean against cuDNN {geometric_mean([r['attngen'] / r['cudnn'] for r in both]):.3f}, least "
              f"{min(r['attngen'] / r['cudnn'] for r in both):.3f}; least against FlashAttention-2 "
              f"{min(r['attngen'] / r['fa2'] for r in both if r['fa2']):.2f}")
    four = [r["attngen"] / r["fa4"] for r in rows if r["attngen"] and r["fa4"]]
    if four:
        print(f"# geometric mean against FlashAttention-4 {geometric_mean(four):.3f}, least {min(four):.3f}")
    old = [r["attngen"] / r["old"] for r in rows if r["attngen"] and r["old"]]
    if old:
        print(f"# geometric mean against the old version {geometric_mean(old):.3f}, least {min(old):.3f}, most {max(old):.3f}")
    if options.csv:
        with open(options.csv + ".new", "w", newline="") as out:
            writer = csv.DictWriter(out, fields)
            writer.writeheader()
            writer.writerows(rows)
        os.replace(options.csv + ".new", options.csv)
    if options.svg:
        print("#", worker.ask(f"draw {options.csv} {options.svg} {dense:.0f}").get("error", f"{options.svg} is drawn"))
    clocks()


if __name__ == "__main__":
    main()
