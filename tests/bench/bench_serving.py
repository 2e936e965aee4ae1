#!/usr/bin/env python3
"""bench_serving.py - attention as a serving engine asks for it, on a GPU: few queries, chunks and packed batches over a cache
that lies in pages or not. attngen's OpenCL kernels stand beside FlashAttention-2 and cuDNN (through PyTorch), where these
can do the same. What it is not: part of attngen; the peers need PyTorch.

    tests/bench/bench_serving.py out/bin/tests/bench/bench_serving [--cells decode,features,pages,packed,chunk,odd,narrow,wide,invariant]
        [--rounds 7]
        [--no-peers] [--seed N] [--json FILE]

Each cell's kernels (NAMES below, what tuning finds there) are checked on fresh random data first, some rows against the
definition in double precision, and nothing is measured of one that is wrong. Buffers rotate through 768 MB and at least two
copies, so that no cache holds them. A round is as many launches as take about 10 ms, timed by the host; rounds of all
contenders alternate, each after a rest of 40 ms, and medians are compared. The device stands beside every number. Rates are of
K and V read once, in TB/s, or of flops that count, in TFLOP/s.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import time

REST, ROUND_MS = 0.04, 10.0


def decode_names(features):
    return [f"attn_bf16_d128{features}_on_sm90_{tuned}" for tuned in ("q64k128_s8192", "q64k128_s4096", "q64k64_s4096_st4")]


def few_names(features):
    return decode_names(features)[:2] + [f"attn_bf16_d128{features}_on_sm90_q128k128_s{s}" for s in (8192, 4096)]


def lone_names(features):
    return [f"attn_bf16_d128{features}_on_sm90_q64k{tuned}" for tuned in ("128_s1024", "64_s1024_st4", "128_s2048")]


def long_names(features):
    return [f"attn_bf16_d128{features}_on_sm90_{tuned}" for tuned in ("q128k128_pingpong_lazy", "q128k128_lazy", "q192k80_lazy")]


def chunk_names(features):
    return long_names(features) + [f"attn_bf16_d128{features}_on_sm90_q128k128_s{s}{end}" for s in (2048, 4096)
                                   for end in ("_pingpong_lazy",)]


def wide_names(dims, splits):
    """Of heads wider than 256: every tile that fits, each with the two orders of its products, split or not."""
    return lambda features: [f"attn_bf16_d{dims}{features}_on_sm90_q64k{tile}{'' if not s else f'_s{s}'}{stages}_lazy{order}"
                             for s in splits for tile, stages in (("64", "_st1"), ("32", "")) for order in ("", "_serial")]


class Cell:
    def __init__(self, group, what, names, kv, page, queries, keys, rate, goal=None, peer=None):
        self.group, self.what, self.names, self.goal, self.peer = group, what, names, goal, peer
        self.heads, self.page, self.queries, self.keys, self.rate = kv, page, queries, keys, rate
        self.pad = 0 # elements between rows, and before the first
        self.even = 0 # 1: all rows of a head have the same scales

    def line(self, name):
        def text(lengths):
            runs = []
            for x in lengths:
                if runs and runs[-1][1] == x:
                    runs[-1][0] += 1
                else:
                    runs.append([1, x])
            return ",".join(f"{n}*{x}" for n, x in runs)
        pad = f",{self.pad},{self.even}" if self.pad or self.even else ""
        return f"cell {name} {self.heads[0]},{self.heads[1]},{self.page}{pad} {text(self.queries)} {text(self.keys)}"


def draw_lengths(seed, total=65536, least=64, most=8192):
    chance, lengths = random.Random(seed), []
    while sum(lengths) < total:
        lengths.append(min(chance.randint(least, most), total - sum(lengths)))
    return lengths


def cells(seed):
    out = []
    gqa, mqa = (64, 8), (8, 1)
    def decode(group, what, page, n, goal, names, batch=32, keys=8192, heads=gqa, peer=None):
        feature = ("_causal" if n > 1 else "") + ("_paged" if page else "")
        out.append(Cell(group, what, names(feature), heads, page, [n] * batch, [keys] * batch, "TB/s", goal, peer))
    decode("decode", "one query, 64 heads over 8, batch 32, 8k keys", 0, 1, 4.25, decode_names, peer="few")
    decode("pages", "the same, pages of 64", 64, 1, 4.2, decode_names)
    decode("pages", "the same, pages of 16", 16, 1, 4.1, decode_names)
    decode("pages", "the same, pages of 1", 1, 1, None, decode_names)
    out.append(Cell("features", "one query, 64 heads over 8, batch 32, 8k keys, plain, with sinks and with a softcap",
                    [n for f in ("", "_sink", "_softcap") for n in decode_names(f)], gqa, 0, [1] * 32, [8192] * 32, "TB/s"))
    short = [f"attn_bf16_d128_on_sm90_q64k{tuned}" for tuned in ("128_s1024", "64_s1024_st4")]
    out.append(Cell("features", "1024 keys, plain", short, gqa, 0, [1] * 32, [1024] * 32, "TB/s"))
    out.append(Cell("features", "a window of 1024 keys over 8k", [n.replace("_on_", "_causal_window_on_") for n in short], gqa, 0,
                    [1] * 32, [8192] * 32, "TB/s"))
    for dim, pad in ((72, 0), (100, 0), (7, 0), (128, 1)):
        what = f"D = {dim}" + (", strides and addresses that are odd" if pad else "")
        for queries, keys, rate, tiles in (([1] * 32, [8192] * 32, "TB/s", ("q64k64_r16_s4096_st3", "q32k64_r16_s4096_st3", "q64k32_r16_s2048_st4")),
                                           ([256], [32768], "TFLOP/s", ("q128k64_r16", "q64k64_r16", "q128k64_r32"))):
            causal = "_causal" if len(queries) == 1 else ""
            names = [f"attn_bf16_d{dim}{causal}_on_sm80_{t}_copyany" for t in tiles]
            if dim % 8 == 0 and not pad:
                names += [f"attn_bf16_d{dim}{causal}_on_sm90_{t}" for t in
                          (("q64k128_s8192", "q64k128_s4096") if queries[0] == 1 else ("q128k128_pingpong_lazy", "q128k128_lazy"))]
            cell = Cell("odd", f"{queries[0]} queries of {len(queries)} sequences over {keys[0]} keys, {what}", names, gqa, 0, queries, keys, rate)
            cell.pad = pad
            out.append(cell)
    for n, goal in ((4, 4.1), (8, 3.9), (16, 3.2)):
        decode("pages", f"pages of 16, {n} queries", 16, n, goal, few_names)
    for n in (1, 8):
        decode("decode", f"8 heads over 1, batch 1, 128k keys, {n} queries", 0, n, 2.8, lone_names, 1, 131072, mqa)
    for heads, goal in ((gqa, 600), (mqa, 400)):
        out.append(Cell("chunk", f"a chunk of 256 queries over 32k keys in pages of 64, {heads[0]} heads over {heads[1]}",
                        chunk_names("_causal_paged"), heads, 64, [256], [32768], "TFLOP/s", goal))
    out.append(Cell("chunk", "the same over pages of 20, 64 heads over 8", long_names("_causal_paged"), gqa, 20, [256], [32768],
                    "TFLOP/s"))
    for heads, unit, goal, splits in (((128, 1), "TFLOP/s", 450, (4096, 8192)), ((16, 1), "TB/s", 3.0, (2048, 4096))):
        for page in (0, 64):
            out.append(Cell("wide", f"MLA: one query, {heads[0]} heads of 576/512 over 1, batch 64, 8k keys" + (", pages of 64" if page else ""),
                            wide_names("576v512", splits)("_paged" if page else ""), heads, page, [1] * 64, [8192] * 64, unit,
                            goal * 0.97 if page else goal))
    for n in (4096, 16384):
        for causal, goal in (("", 400), ("_causal", 330)):
            out.append(Cell("wide", f"D = 512, N = {n}, 8 heads" + (", causal" if causal else ""), wide_names("512", (0,))(causal), (8, 8), 0,
                            [n], [n], "TFLOP/s", goal))
    lengths = draw_lengths(seed)
    heads = (16, 16)
    for n in (64, 256, 1024, 4096, 8192):
        out.append(Cell("packed", f"equal lengths of {n}", long_names("_causal"), heads, 0, [n] * (65536 // n),
                        [n] * (65536 // n), "TFLOP/s", peer="varlen"))
    out.append(Cell("packed", f"{len(lengths)} lengths drawn from 64 to 8192, packed", long_names("_causal_packed"), heads, 0,
                    lengths, lengths, "TFLOP/s", peer="varlen"))
    # Of narrow caches the time counts, beside that of bf16: for one query at most 1/1.75 of it, else no longer.
    for heads, page, queries, keys, of in ((gqa, 64, [1] * 32, [8192] * 32, 1 / 1.75), (gqa, 0, [1] * 32, [8192] * 32, 1 / 1.75),
                                           (gqa, 64, [256], [32768], 1), ((16, 16), 0, [8192] * 4, [8192] * 4, 1),
                                           ((16, 16), 0, lengths, lengths, 1)):
        packed = len(set(queries)) > 1
        feature = ("_causal" if queries[0] > 1 else "") + ("_packed" if packed else "") + ("_paged" if page else "")
        wide = decode_names(feature) if queries[0] == 1 else long_names(feature)
        def narrow(kv):
            if queries[0] == 1:
                return [f"attn_bf16_kv{kv}_d128{feature}_on_sm90_q64k{tuned}" for tuned in
                        ("128_s8192", "128_s8192_lazy")] + [f"attn_bf16_kv{kv}_d128{feature}_on_sm90_q16k{tuned}" for tuned in
                        ("128_s8192_st3_lazy", "128_s8192_st4_lazy", "128_s4096_st3_lazy", "256_s8192_lazy")]
            return [f"attn_bf16_kv{kv}_d128{feature}_on_sm90_{tuned}" for tuned in
                    ("q128k128_pingpong_lazy_widened", "q128k128_lazy_widened", "q192k80_lazy_widened", "q128k128_st1_pingpong_lazy",
                     "q128k128_st1_lazy", "q128k112_lazy", "q128k112_pingpong_lazy")]
        for even in (0, 1) if queries[0] > 1 else (0,):
            cell = Cell("narrow", (f"{len(lengths)} lengths drawn from 64 to 8192, packed" if packed else
                                   f"{queries[0]} queries of {len(queries)} sequences over {keys[0]} keys") +
                        (f" in pages of {page}" if page else "") + ", int8 and fp8" +
                        (" with scales of heads" if even else "") + " beside bf16",
                        wide + narrow("int8") + narrow("fp8"), heads, page, queries, keys, "TFLOP/s")
            cell.of, cell.even = of, even
            out.append(cell)
    # Kernels that promise a row the same bits, beside those that do not.
    for what, heads, features, names, queries, keys in (
            ("decode: one query of 32 sequences over 8192 keys", gqa, "", decode_names, [1] * 32, [8192] * 32),
            ("prefill: 4 sequences of 8192", (16, 16), "_causal", long_names, [8192] * 4, [8192] * 4),
            ("packed: the lengths drawn from 64 to 8192", (16, 16), "_causal_packed", long_names, lengths, lengths)):
        tuned = ("q64k128_s1048576_lazy",) if features == "" else ("q128k128_pingpong_lazy", "q128k128_lazy")
        out.append(Cell("invariant", what, names(features) + [f"attn_bf16_d128{features}_invariant_on_sm90_{t}" for t in tuned], heads, 0, queries,
                        keys, "TFLOP/s"))
    return out


def say_features(results, device):
    """Of one query with a feature, the plain one's time over its own."""
    def best(cell, has):
        return min((ms for r in results if r["cell"] == cell for n, ms in r["ms"].items() if has(n)), default=None)
    first = "one query, 64 heads over 8, batch 32, 8k keys, plain, with sinks and with a softcap"
    plain, short = best(first, lambda n: "_d128_on_" in n), best("1024 keys, plain", lambda n: True)
    for what, of, ms, goal in (("sinks", plain, best(first, lambda n: "_sink" in n), 0.97), ("a softcap", plain, best(first, lambda n: "_softcap" in n), 0.9),
                               ("a window of 1024 keys", short, best("a window of 1024 keys over 8k", lambda n: True), 0.95)):
        if of and ms:
            print(f"{what}: {of / ms:.3f} of the plain kernel's rate (at least {goal}) [{device}]")


def say_invariant(cell, result, device):
    """The best rate of kernels that are invariant, as a share of the best of the others."""
    rates = result["rates"]
    ours, others = ([r for n, r in rates.items() if ("_invariant_" in n) == is_so] for is_so in (True, False))
    if ours and others:
        print(f"{result['cell']}: invariant kernels have {max(ours) / max(others):.3f} of the others' rate (at least 0.97) [{device}]")


def say_narrow(cell, result, device):
    """The best time of each type of keys and values, as a share of bf16's."""
    best = {}
    for name, ms in result["ms"].items():
        kind = name.split("_kv")[1].split("_")[0] if "_kv" in name else "bf16"
        best[kind] = min(ms, best.get(kind, ms))
    for kind in ("int8", "fp8"):
        if kind in best and "bf16" in best:
            print(f"{result['cell']}: {kind} takes {best[kind] / best['bf16']:.3f} of bf16's time (at most {cell.of:.3f}) [{device}]")


class Worker:
    def __init__(self, path):
        self.process = subprocess.Popen([path, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.device = json.loads(self.process.stdout.readline())

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read(self):
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else {"error": "the worker ended"}

    def ask(self, line):
        self.send(line)
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Peer:
    """PyTorch's FlashAttention-2 over packed sequences, or few queries by FlashAttention-2, on rotating tensors."""
    def __init__(self, torch, cell):
        self.torch, self.next = torch, 0
        device, dtype = "cuda", torch.bfloat16
        hq, hkv, d = cell.heads[0], cell.heads[1], 128
        rows_q, rows_k = sum(cell.queries), sum(cell.keys)
        size = 2 * d * (rows_q * hq * 2 + rows_k * hkv * 2)
        copies = max(2, min(16, 805306368 // size + 2))
        make = lambda rows, heads: torch.randn(rows, heads, d, device=device, dtype=dtype)
        self.data = [(make(rows_q, hq), make(rows_k, hkv), make(rows_k, hkv)) for _ in range(copies)]
        starts = lambda x: torch.tensor([sum(x[:i]) for i in range(len(x) + 1)], device=device, dtype=torch.int32)
        self.starts = starts(cell.queries), starts(cell.keys), max(cell.queries), max(cell.keys)

    def launch(self):
        q, k, v = self.data[self.next]
        self.next = (self.next + 1) % len(self.data)
        self.torch.ops.aten._flash_attention_forward(q, k, v, self.starts[0], self.starts[1], self.starts[2], self.starts[3],
                                                     0.0, True, False)

    def round(self, launches):
        self.torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(launches):
            self.launch()
        self.torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3 / launches


def measure(contenders, rounds):
    """contenders: {name: a function of launches that gives ms}. Medians."""
    count, ms = {}, {name: [] for name in contenders}
    for name, run in contenders.items():
        run(2)
        count[name] = max(1, min(200, int(ROUND_MS / max(run(2), 1e-3))))
    order = list(contenders)
    for turn in range(rounds):
        for name in order[turn % len(order):] + order[:turn % len(order)]:
            time.sleep(REST)
            ms[name].append(contenders[name](count[name]))
    return {name: statistics.median(x) for name, x in ms.items()}


def run_cell(cell, path, rounds, seed, torch):
    workers, contenders, flops, size, said = {}, {}, 0, 0, []
    for name in cell.names:
        workers[name] = Worker(path)
        workers[name].send(cell.line(name))
    made_of = {name: w.read() for name, w in workers.items()}
    for name, w in workers.items():
        if "error" not in made_of[name]:
            w.send(f"check {max(2, min(12, 200000 // max(cell.keys)))} {seed}")
    for name, w in workers.items():
        made = made_of[name]
        checked = made if "error" in made else w.read()
        if "error" in checked or checked["wrong"]:
            said.append(f"{name}: {checked.get('error') or str(checked['wrong']) + ' rows are wrong'}")
            continue
        if made["spills"]:
            said.append(f"{name}: {made['spills']} bytes are spilled")
        flops, size = made["flops"], made["bytes"]
        contenders[name] = lambda n, w=w: w.ask(f"round {n}").get("ms", float("inf"))
    if torch and cell.peer:
        try:
            peer = Peer(torch, cell)
            peer.launch()
            contenders["FlashAttention-2"] = peer.round
        except Exception as e:
            said.append(f"FlashAttention-2: {str(e)[:100]}")
    ms = measure(contenders, rounds) if contenders else {}
    for w in workers.values():
        w.close()
    rate = lambda t: size / t * 1e-9 if cell.rate == "TB/s" else flops / t * 1e-9
    return {"cell": cell.what, "unit": cell.rate, "goal": cell.goal, "flops": flops, "notes": said,
            "ms": ms, "rates": {name: rate(t) for name, t in ms.items()}}


def say(result, device):
    rates = result["rates"]
    own = {n: r for n, r in rates.items() if n.startswith("attn_")}
    best = max(own, key=own.get) if own else None
    goal = f" (at least {result['goal']})" if result["goal"] else ""
    print(f"{result['cell']}: " + (f"{own[best]:.4g} {result['unit']}{goal} by {best}" if best else "nothing was right") +
          "".join(f"; {n} {r:.4g}" for n, r in rates.items() if n != best and not n.startswith("attn_")) + f" [{device}]")
    for n, r in sorted(own.items(), key=lambda x: -x[1]):
        print(f"    {n} {r:.4g}, {result['ms'][n]:.4g} ms")
    for note in result["notes"]:
        print(f"    {note}")
    sys.stdout.flush()


def packed_share(results):
    """Of the packed cell: the time of equal-length cells of the same lengths, by their rates, over its time."""
    equal = {}
    for r in results:
        own = [x for n, x in r["rates"].items() if n.startswith("attn_")]
        if r["cell"].startswith("equal lengths of ") and own:
            equal[int(r["cell"].split()[-1])] = max(own)
    packed = [r for r in results if r["cell"].endswith("packed")]
    if len(equal) < 2 or not packed or not packed[0]["rates"]:
        return None
    known = sorted(equal)
    def rate(n):
        n = min(max(n, known[0]), known[-1])
        for a, b in zip(known, known[1:]):
            if n <= b:
                return equal[a] + (equal[b] - equal[a]) * (n - a) / (b - a)
    lengths = packed[0]["lengths"]
    flops = [2.0 * n * (n + 1) for n in lengths]
    share = sum(flops) / sum(f / rate(n) for n, f in zip(lengths, flops))
    return max(x for n, x in packed[0]["rates"].items() if n.startswith("attn_")) / share


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("worker")
    p.add_argument("--cells", default="decode,features,pages,packed,chunk,odd,narrow,wide,invariant")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--no-peers", action="store_true")
    p.add_argument("--json")
    a = p.parse_args()
    torch = None
    if not a.no_peers:
        try:
            import torch
        except ImportError:
            print("# no PyTorch: attngen alone")
    probe = Worker(a.worker)
    device = probe.device["device"]
    probe.close()
    results = []
    for cell in cells(a.seed):
        if cell.group not in a.cells.split(","):
            continue
        result = run_cell(cell, a.worker, a.rounds, a.seed, torch)
        result["device"], result["lengths"] = device, cell.queries
        results.append(result)
        say(result, device)
        if cell.group == "narrow":
            say_narrow(cell, result, device)
        if cell.group == "invariant":
            say_invariant(cell, result, device)
    say_features(results, device)
    share = packed_share(results)
    if share:
        print(f"packed: {share:.3f} of the rate of equal-length cells of the same lengths (at least 0.9) [{device}]")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
