#!/usr/bin/env python3
"""bench_cpu.py - attention on a CPU: attngen's kernels beside PyTorch's scaled_dot_product_attention, in one run, on the same
shapes and threads. What it is not: part of attngen; it needs PyTorch.

    tests/bench/bench_cpu.py out/bin/attngen [--dtype f32,bf16,f16] [--dims 64,128] [--lengths 512,2048,8192] [--causal 0,1]
        [--heads 8] [--threads 1,2] [--tune SECONDS] [--rounds 4]

attngen's kernel is what `attngen tune` finds for the shape within so many seconds. Then rounds alternate, a second of each, in
an order that turns; the best launch of all rounds is compared with the best, and the median of rounds' medians with the
median: on a machine that others use, too, the best says more. PyTorch takes its own flash attention on a CPU where it can.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from bench_gpu import geometric_mean, median

ROUND = 1.0  # seconds
TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


class Ours:
    def __init__(self, program, dtype, shape, causal, threads, seconds):
        self.options = ["--dtype", dtype, "--shape", ",".join(map(str, shape)), "--threads", str(threads)]
        self.options += ["--causal"] if causal else []
        self.program = program
        self.ask("tune", "--time-limit", str(seconds))

    def ask(self, verb, *more):
        done = subprocess.run([self.program, verb, *self.options, *more], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr.strip())
        return done.stdout

    def round(self):
        """The best and the median launch, in ms."""
        said = json.loads(self.ask("bench", "--json", "--time-limit", str(ROUND)))
        self.variant = said["variant"]
        return said["ms"]["min"], said["ms"]["median"]


class PyTorch:
    def __init__(self, dtype, shape, causal, threads):
        import torch
        batch, heads, kv_heads, queries, keys, dim = shape
        torch.manual_seed(1)
        torch.set_num_threads(threads)
        self.causal = causal
        self.q, self.k, self.v = (torch.randn(batch, h, n, dim).to(getattr(torch, TYPES[dtype]))
                                  for h, n in ((heads, queries), (kv_heads, keys), (kv_heads, keys)))
        self.attention = torch.nn.functional.scaled_dot_product_attention

    def round(self):
        took, end = [], time.perf_counter() + ROUND
        while len(took) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            self.attention(self.q, self.k, self.v, is_causal=self.causal)
            took.append((time.perf_counter() - start) * 1e3)
        return min(took), median(took)


def compare(options, dtype, dim, length, causal, threads):
    shape = (1, options.heads, options.heads, length, length, dim)
    contenders = {"attngen": Ours(options.program, dtype, shape, causal, threads, options.tune),
                  "pytorch": PyTorch(dtype, shape, causal, threads)}
    seen = {c: [] for c in contenders}
    for r in range(options.rounds):
        for c in sorted(contenders, reverse=r % 2 == 1):
            seen[c].append(contenders[c].round())
    flops = 4 * options.heads * dim * (length * (length + 1) // 2 if causal else length * length)
    best, usual = ({c: flops / pick([x[i] for x in seen[c]]) * 1e-6 for c in seen} for i, pick in ((0, min), (1, median)))
    ratios = [x["attngen"] / x["pytorch"] for x in (best, usual)]
    variant = contenders["attngen"].variant
    print(f"| {dtype} | {dim} | {length} | {'yes' if causal else 'no'} | {threads} | {best['attngen']:.0f} | {best['pytorch']:.0f} |"
          f" {ratios[0]:.2f} | {ratios[1]:.2f} | {variant[variant.index('_on_') + 4:]} |", flush=True)
    return ratios


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "a processor")
    except OSError:
        return "a processor"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--dtype", default="f32,bf16,f16")
    parser.add_argument("--dims", default="64,128")
    parser.add_argument("--lengths", default="512,2048,8192")
    parser.add_argument("--causal", default="0,1")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--tune", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    import torch
    print(f"# {processor()}, {os.cpu_count()} threads; PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    print("| dtype | D | N | causal | threads | attngen, GFLOP/s | PyTorch | ratio, best | ratio, median | variant |\n" + "|---" * 10 + "|")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ATTNGEN_CACHE"] = cache
        ratios = [compare(options, t, int(d), int(n), c == "1", int(w)) for t in options.dtype.split(",")
                  for d in options.dims.split(",") for w in options.threads.split(",") for c in options.causal.split(",")
                  for n in options.lengths.split(",")]
    for i, what in enumerate(("best", "medians")):
        x = [r[i] for r in ratios]
        print(f"# {what}: geometric mean {geometric_mean(x):.2f}, least {min(x):.2f}, most {max(x):.2f}")


if __name__ == "__main__":
    main()
