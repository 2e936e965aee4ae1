#!/usr/bin/env python3
"""bench_cpu.py - attention on a CPU: attngen's kernels beside those of other libraries that are installed (PyTorch, zentorch,
onnxruntime, ggml), in one run, on the same shapes and threads. What it is not: part of attngen; it needs one of them, or none.

    tests/bench/bench_cpu.py out/bin/attngen [--mode prefill,decode,packed] [--dtype f32,bf16,f16] [--kv int8,fp8,q8_0,q4_0] [--invariant]
        [--dims 64,128] [--lengths 512,2048,8192] [--causal 0,1] [--heads 8] [--kv-heads N] [--batch 1] [--queries 1] [--threads 1,2]
        [--tune SECONDS] [--rounds 4] [--round SECONDS] [--peers NAME,...] [--csv FILE] [--svg FILE]

Prefill is N queries over N keys, and GFLOP/s count the pairs that a causal mask lets take part. Decode is --queries of them over N keys,
32 heads over 8 unless others are named, and what counts is the rate at which K and V are read, as they are stored, each once. Packed
is four prompts of N tokens each, unless --batch says how many, in one packed batch; attngen alone has that. With
--kv, K and V are of each of those types too, and attngen's own time with K and V of the queries' type stands beside. With --invariant
attngen's kernels promise the same bits whatever else is in the problem, and its own time without that promise stands beside;
behind the table is what the promise costs, by mode and type.

attngen's kernel is what `attngen tune` finds for the shape within so many seconds. Then rounds alternate, a second of each contender,
in an order that turns; printed are the best launch of all rounds and the median of rounds' medians: on a machine that others use, too,
the best says more. The table is Markdown; the SVG has a bar for each contender and cell, and the line of the peak: multiply-adds as
`attngen bench` measures them in the same run, or the rate at which NumPy's threads read memory.
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from bench_gpu import geometric_mean, median
from cpu_peers import PEERS, Absent

OURS, WHOLE, FREE = "attngen", "attngen, K and V as Q", "attngen, not invariant"
BITS = {"f32": 32, "f16": 16, "bf16": 16, "int8": 8, "fp8": 8, "q8_0": 8.5, "q4_0": 4.5}


class Cell:
    def __init__(self, mode, dtype, kv, dim, length, causal, threads, options):
        self.mode, self.dtype, self.kv, self.dim, self.causal, self.threads = mode, dtype, kv, dim, causal, threads
        decode = mode == "decode"
        self.batch = options.batch if options.batch > 1 or mode != "packed" else 4
        self.heads = options.heads or (32 if decode else 8)
        self.kv_heads = options.kv_heads or (8 if decode else self.heads)
        self.queries, self.keys = (options.queries if decode else length), length
        pairs = self.queries * self.keys - (self.queries * (self.queries - 1) // 2 if causal else 0)
        self.work = 1e-9 * (self.batch * self.kv_heads * self.keys * 2 * dim * BITS[kv] / 8 if decode else
                            4 * self.batch * self.heads * dim * pairs)
        self.unit = "GB/s" if decode else "GFLOP/s"

    def label(self):
        kind = self.dtype if self.kv == self.dtype else f"{self.dtype}, kv {self.kv}"
        return f"{self.mode} {kind} D={self.dim} N={self.keys}{' causal' if self.causal else ''}, {self.threads}t"

    def rate(self, ms):
        return self.work / ms * 1e3


class Ours:
    def __init__(self, cell, kv, invariant, given):
        shape = (cell.batch, cell.heads, cell.kv_heads, cell.queries, cell.keys, cell.dim)
        dtype = cell.dtype if kv == cell.dtype else f"q={cell.dtype},kv={kv}"
        self.options = ["--dtype", dtype, "--shape", ",".join(map(str, shape)), "--threads", str(cell.threads)]
        self.options += (["--causal"] if cell.causal else []) + (["--invariant"] if invariant else [])
        self.options += ["--cu-seqlens-q", "equal", "--cu-seqlens-k", "equal"] if cell.mode == "packed" else []
        self.program, self.seconds, self.variant, self.peak = given.program, given.round, "", 0
        self.ask("tune", "--time-limit", str(given.tune))

    def ask(self, verb, *more):
        done = subprocess.run([self.program, verb, *self.options, *more], capture_output=True, text=True)
        if done.returncode:
            raise Absent((done.stderr.strip().splitlines() or ["attngen failed"])[0])
        return done.stdout

    def round(self):
        """The best and the median launch, in ms."""
        said = json.loads(self.ask("bench", "--json", "--time-limit", str(self.seconds)))
        self.variant, self.peak = said["variant"], said["peak_gflops"]
        return said["ms"]["min"], said["ms"]["median"]


class Peer:
    def __init__(self, made, seconds):
        self.made, self.seconds = made, seconds
        made.call()

    def round(self):
        took, end = [], time.perf_counter() + self.seconds
        while len(took) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            self.made.call()
            took.append((time.perf_counter() - start) * 1e3)
        return min(took), median(took)

    def close(self):
        getattr(self.made, "close", lambda: None)()


def read_rate(threads):
    """GB/s at which so many threads read memory that no cache holds, the best of five times; 0 without NumPy."""
    try:
        import numpy
    except ImportError:
        return 0
    share = 1 << 24
    arrays = [numpy.ones(max(share, (1 << 27) // threads), dtype=numpy.int64) for _ in range(threads)]
    best = 0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(numpy.bitwise_or.reduce, arrays))
            best = max(best, sum(a.nbytes for a in arrays) / (time.perf_counter() - start) * 1e-9)
    return best


def contenders_of(cell, options, absent):
    made = {OURS: Ours(cell, cell.kv, options.invariant, options)}
    if cell.kv != cell.dtype:
        made[WHOLE] = Ours(cell, cell.dtype, options.invariant, options)
    if options.invariant:
        made[FREE] = Ours(cell, cell.kv, False, options)
    for name in options.peers if cell.mode != "packed" else []:
        try:
            made[name] = Peer(PEERS[name](cell), options.round)
        except Exception as why:  # Absent, or what another library raises of its own
            absent.setdefault((name, (str(why).strip().splitlines() or [type(why).__name__])[0]), []).append(cell.label())
    return made


def compare(cell, options, absent):
    """A row: of each contender the best and the usual rate."""
    made = contenders_of(cell, options, absent)
    seen = {c: [] for c in made}
    for r in range(options.rounds):
        for c in sorted(made, reverse=r % 2 == 1):
            seen[c].append(made[c].round())
    for c in made.values():
        getattr(c, "close", lambda: None)()
    row = {"cell": cell, "variant": made[OURS].variant, "peak": options.read[cell.threads] if cell.mode == "decode" else made[OURS].peak}
    for c in made:
        row[c] = (cell.rate(min(x[0] for x in seen[c])), cell.rate(median([x[1] for x in seen[c]])))
    return row


def text_of(row, names):
    cell, others = row["cell"], [n for n in names if n != OURS and n in row]
    columns = [cell.label(), cell.unit, f"{row['peak']:.0f}"]
    columns += [f"{row[n][0]:.1f} / {row[n][1]:.1f}" if n in row else "-" for n in names]
    for i in (0, 1):
        columns.append(f"{row[OURS][i] / max(row[n][i] for n in others):.2f}" if others else "-")
    return "| " + " | ".join(columns + [row["variant"].split("_on_")[-1]]) + " |"


def write_csv(path, rows, names):
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["mode", "dtype", "kv", "dim", "keys", "queries", "causal", "threads", "unit", "peak", "variant"] +
                     [f"{n}, {what}" for n in names for what in ("best", "median")])
        for row in rows:
            c = row["cell"]
            out.writerow([c.mode, c.dtype, c.kv, c.dim, c.keys, c.queries, int(c.causal), c.threads, c.unit, f"{row['peak']:.1f}", row["variant"]] +
                         [f"{x:.2f}" for n in names for x in row.get(n, (float("nan"),) * 2)])


COLOURS = ["#1f4e79", "#7f9fbf", "#c55a11", "#e3a857", "#548235", "#7f7f7f"]


def write_svg(path, rows, names):
    """A panel for each unit: bars to the median, a tick at the best, and the peak as a line across its cell."""
    bar, gap, height, left, top = 14, 18, 220, 60, 46
    parts, y, widest = [], top, 0
    for unit in dict.fromkeys(r["cell"].unit for r in rows):
        panel = [r for r in rows if r["cell"].unit == unit]
        most = max(max([r["peak"]] + [r[n][0] for n in names if n in r]) for r in panel) * 1.05
        x, floor = left, y + height
        parts.append(f'<text x="8" y="{y - 8}">{unit}</text><line x1="{left}" y1="{floor}" x2="WIDE" y2="{floor}" stroke="#000"/>')
        for i in range(5):
            at = floor - height * i / 4
            parts.append(f'<text x="{left - 6}" y="{at + 4:.0f}" text-anchor="end">{most * i / 4:.0f}</text>')
        for r in panel:
            here, begin = [n for n in names if n in r], x
            for n in here:
                best, usual = (height * v / most for v in r[n])
                colour = COLOURS[names.index(n) % len(COLOURS)]
                parts.append(f'<rect x="{x}" y="{floor - usual:.1f}" width="{bar - 2}" height="{usual:.1f}" fill="{colour}"/>'
                             f'<line x1="{x}" x2="{x + bar - 2}" y1="{floor - best:.1f}" y2="{floor - best:.1f}" stroke="{colour}"/>')
                x += bar
            if r["peak"]:
                at = floor - height * r["peak"] / most
                parts.append(f'<line class="peak" x1="{begin - 4}" x2="{x + 2}" y1="{at:.1f}" y2="{at:.1f}" stroke="#c00000" stroke-dasharray="4 2"/>')
            parts.append(f'<text transform="translate({(begin + x) / 2:.0f},{floor + 10}) rotate(40)">{r["cell"].label()}</text>')
            x += gap
        widest, y = max(widest, x), floor + 210
    wide = widest + 170
    key = "".join(f'<rect x="{left + 190 * i}" y="8" width="12" height="12" fill="{COLOURS[i % len(COLOURS)]}"/><text x="{left + 190 * i + 16}" y="18">{n}</text>'
                  for i, n in enumerate(names))
    wide = max(wide, left + 190 * len(names))
    with open(path, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{y}" font-family="sans-serif" font-size="11">\n'
                f'<rect width="100%" height="100%" fill="#fff"/>{key}\n' + "\n".join(p.replace("WIDE", str(widest)) for p in parts) + "\n</svg>\n")


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "a processor")
    except OSError:
        return "a processor"


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda s: [w for w in s.split(",") if w]
    numbers = lambda s: [int(w) for w in s.split(",")]
    parser.add_argument("program")
    parser.add_argument("--mode", type=words, default=["prefill"])
    parser.add_argument("--dtype", type=words, default=["f32", "bf16", "f16"])
    parser.add_argument("--kv", type=words, default=[])
    parser.add_argument("--invariant", action="store_true")
    parser.add_argument("--dims", type=numbers, default=[64, 128])
    parser.add_argument("--lengths", type=numbers, default=[512, 2048, 8192])
    parser.add_argument("--causal", type=numbers, default=[0, 1])
    parser.add_argument("--heads", type=int, default=0)
    parser.add_argument("--kv-heads", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--queries", type=int, default=1)
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--tune", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--round", type=float, default=1.0)
    parser.add_argument("--peers", type=words, default=list(PEERS))
    parser.add_argument("--csv")
    parser.add_argument("--svg")
    options = parser.parse_args()
    for given, known, what in ((options.mode, ["prefill", "decode", "packed"], "mode"), (options.peers, list(PEERS), "peers"),
                               (options.dtype + options.kv, list(BITS), "dtype or --kv")):
        for word in given:
            if word not in known:
                parser.error(f"--{what}: there is no {word}; expected {', '.join(known)}")
    return options


def cells_of(options):
    return [Cell(mode, t, kv, dim, n, bool(causal), threads, options)
            for mode in options.mode for t in options.dtype for kv in [t] + options.kv for dim in options.dims
            for threads in options.threads for causal in ([0] if mode == "decode" else options.causal) for n in options.lengths]


def print_promise(rows):
    """What the promise of the same bits costs: of each mode and type the share of the speed without it."""
    print("\n| attngen to the same, not invariant | cells | best: mean | least | median: mean | least |\n|---|---|---|---|---|---|")
    for kind in dict.fromkeys((r["cell"].mode, r["cell"].kv) for r in rows):
        here = [r for r in rows if (r["cell"].mode, r["cell"].kv) == kind]
        shares = [[r[OURS][i] / r[FREE][i] for r in here] for i in (0, 1)]
        print(f"| {kind[0]}, {kind[1]} | {len(here)} | " + " | ".join(f"{geometric_mean(x):.2f} | {min(x):.2f}" for x in shares) + " |")
    print()


def main():
    options, absent, rows = read_options(), {}, []
    options.read = {t: read_rate(t) if "decode" in options.mode else 0 for t in options.threads}
    names = [OURS] + ([WHOLE] if options.kv else []) + ([FREE] if options.invariant else []) + options.peers
    print(f"# {processor()}, {os.cpu_count()} threads")
    print("| cell | unit | peak | " + " | ".join(f"{n}, best / median" for n in names) + " | to the best other: best | median | variant |\n" +
          "|---" * (len(names) + 6) + "|")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ATTNGEN_CACHE"] = cache
        for cell in cells_of(options):
            try:
                rows.append(compare(cell, options, absent))
            except Absent as why:  # attngen itself
                absent.setdefault((OURS, str(why)), []).append(cell.label())
                continue
            print(text_of(rows[-1], names), flush=True)
    if options.invariant and rows:
        print_promise(rows)
    for n in names[1:]:
        for i, what in enumerate(("best", "medians")):
            x = [r[OURS][i] / r[n][i] for r in rows if n in r]
            if x:
                print(f"# attngen to {n}, {what}: geometric mean {geometric_mean(x):.2f}, least {min(x):.2f}, most {max(x):.2f}")
    for (name, why), where in absent.items():
        print(f"# without {name} in {len(where)} cells: {why}")
    if options.csv:
        write_csv(options.csv, rows, names)
    if options.svg and rows:
        write_svg(options.svg, rows, names)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
