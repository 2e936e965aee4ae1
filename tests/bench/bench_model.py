#!/usr/bin/env python3
"""bench_model.py - how good the choice is that a model makes without timing (rigor estimate), against the best that a patient search
finds, over shapes drawn by chance. What it is not: a test; a slow or busy machine fails nothing.

    tests/bench/bench_model.py out/bin/attngen [--shapes 40] [--seconds 10] [--seed WORD] [--threads 1,2] [--dtype f32,f16,bf16]
        [--device D] [--serving] [--rigor patient] [--resume FILE]

The shapes follow from the seed alone, by default the hash of the commit that is checked out: prompts and decoding, one and several
heads to a key head, head dims from 16 to 256. Each takes so many seconds. Of a shape, `attngen bench` with an empty cache says which
variant the model takes, and `attngen tune --rigor patient` times it among the others, in one process. Whatever is the fastest of many
by their least times was also lucky, so the two are then timed in turns, on the problem that tune timed: printed is the time of the
model's choice over the best's, each the least of its turns, and in brackets the median of the ratios of turns, each of which is of
two runs that follow each other. Where the choice is more than a tenth behind, the two take turns for as many seconds again as the
whole shape had, which tells a wrong choice from a disturbed moment: both figures are printed, and the summary has the percentile of
the first ones and that with the second ones in their place. The latter is too low by the shapes of which the first figure was lucky,
which are not timed again.

With --serving the problems are those of a serving engine on a device: few queries or a chunk of them over a long cache, in pages or
not, and packed batches. With --resume, what is done is kept in that file, a line of JSON for each shape, and not done again; lines
of another seed, program or processor are left alone.
"""
import argparse
import hashlib
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

BRIEF = 0.05  # seconds of the bench that only says what the model takes
DUEL, TURN = 0.3, 0.15  # the share of a shape's seconds in which two variants take turns; seconds of a turn
BOUND, QUANTILE = 1.10, 0.9
FORM = 2  # of what --resume keeps


def draw(random_, dtypes, threads):
    """One problem, as attngen's command line takes it. Lengths are as likely to lie between 8 and 16 as between 1024 and 2048."""
    between = lambda low, high: round(2 ** random_.uniform(math.log2(low), math.log2(high)))
    dim = random_.choice([64, 128, 64, 128, 16, 32, 40, 80, 96, 192, 256])
    kv_heads, group = between(1, 16), random_.choice([1, 1, 4, 8])
    decode = random_.random() < 0.35
    keys = between(64, 16384) if decode else between(8, 4096)
    queries = between(1, 16) if decode else keys if random_.random() < 0.7 else between(8, keys)
    batch = between(1, 4)
    shape = ",".join(map(str, (batch, kv_heads * group, kv_heads, queries, keys, dim)))
    options = ["--shape", shape, "--dtype", random_.choice(dtypes), "--threads", str(random_.choice(threads))]
    return options + (["--causal"] if random_.random() < 0.5 else [])


def draw_serving(random_, dtypes):
    """One problem of a serving engine."""
    between = lambda low, high: round(2 ** random_.uniform(math.log2(low), math.log2(high)))
    dim, kv_heads, group = random_.choice([64, 128, 128, 256]), random_.choice([1, 2, 4, 8]), random_.choice([1, 4, 8])
    kind = random_.choice(["few", "few", "chunk", "packed"])
    batch = {"few": between(1, 64), "chunk": between(1, 4), "packed": between(4, 32)}[kind]
    keys = between(512, 32768 if batch < 16 else 8192) if kind != "packed" else between(256, 4096)
    queries = {"few": random_.choice([1, 1, 2, 4, 8, 16]), "chunk": random_.choice([64, 128, 256, 512]), "packed": keys}[kind]
    options = ["--shape", ",".join(map(str, (batch, kv_heads * group, kv_heads, queries, max(keys, queries), dim))),
               "--dtype", random_.choice(dtypes)]
    if queries > 1:
        options.append("--causal")
    if kind == "packed":
        options += ["--cu-seqlens-q", "equal", "--cu-seqlens-k", "equal"]
    elif random_.random() < 0.6:
        options += ["--block-table", str(random_.choice([16, 64, 256]))]
    return options


def ask(program, cache, verb, options, *more):
    done = subprocess.run([program, verb, *options, *more, "--json"], capture_output=True, text=True, env=dict(os.environ, ATTNGEN_CACHE=cache))
    if done.returncode:
        sys.exit(f"{verb} {' '.join(options)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def duel(program, cache, options, variants, seconds):
    """How many times as long the first of two variants takes as the second, which take turns for so many seconds, three turns at
    least: by the least of all turns, and by the median of the ratios of turns. On a device, whose clock is its own, too."""
    turns, end = [], time.monotonic() + seconds
    while len(turns) < 3 or time.monotonic() < end:
        order = variants if len(turns) % 2 == 0 else variants[::-1]
        turns.append({v: ask(program, cache, "bench", options, "--variant", v, "--time-limit", str(TURN))["ms"] for v in order})
    least = [min(turn[v]["min"] for turn in turns) for v in variants]
    middle = [turn[variants[0]]["median"] / turn[variants[1]]["median"] for turn in turns]
    return {"ratio": least[0] / least[1], "median": statistics.median(middle), "turns": len(turns)}


def measure(program, options, seconds, rigor):
    with tempfile.TemporaryDirectory() as cache:
        taken = ask(program, cache, "bench", options, "--time-limit", str(BRIEF))["variant"]
        tuned = ask(program, cache, "tune", options, "--rigor", rigor, "--time-limit", str((1 - DUEL) * seconds - BRIEF))["results"][0]
        timed = {r["variant"]: r["ms"]["min"] for r in tuned["candidates"] if r.get("ms", {}).get("min", 0) > 0}
        best, at = min(timed, key=timed.get), options.index("--shape") + 1
        dims = ",".join(options[at].split(",")[5:])
        smaller = options[:at] + [f"{tuned['timed']},{dims}"] + options[at + 1:]
        first, again = {"ratio": 1, "median": 1, "turns": 0}, None
        if taken != best:
            first = duel(program, cache, smaller, [taken, best], DUEL * seconds)
            again = duel(program, cache, smaller, [taken, best], seconds) if first["ratio"] > BOUND else None
    return {"taken": taken, "best": best, **first, "again": again, "was": timed[taken] / timed[best] if taken in timed else None,
            "timed": len(timed)}


def identity(options):
    """What results are kept by: they are of this seed, this program and this processor."""
    with open(options.program, "rb") as f:
        program = hashlib.sha256(f.read()).hexdigest()[:16]
    devices = subprocess.run([options.program, "devices"], capture_output=True, text=True).stdout
    return {"seed": options.seed, "program": program, "device": devices.split(":")[0], "seconds": options.seconds, "form": FORM}


def kept(path, who):
    if not path or not os.path.exists(path):
        return {}
    with open(path) as f:
        lines = [json.loads(line) for line in f if line.strip()]
    return {x["shape"]: x for x in lines if all(x.get(k) == v for k, v in who.items())}


def short(variant):
    return variant.split("_on_")[-1]


def told(duelled):
    return f"{duelled['ratio']:.2f} ({duelled['median']:.2f})" if duelled else ""


def summary(ratios):
    at = sorted(ratios)[min(len(ratios) - 1, math.ceil(QUANTILE * len(ratios)) - 1)]
    return f"median {sorted(ratios)[len(ratios) // 2]:.3f}, 90th percentile {at:.3f} (asked for: {BOUND:.2f}), most {max(ratios):.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--serving", action="store_true")
    parser.add_argument("--rigor", default="patient")
    parser.add_argument("--dtype", default="f32,f16,bf16")
    parser.add_argument("--resume", metavar="FILE")
    options = parser.parse_args()
    options.seed = options.seed or subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    random_, who = random.Random(options.seed), identity(options)
    done, results = kept(options.resume, who), []
    print(f"# seed {options.seed}, {options.shapes} shapes of {options.seconds:g} s")
    print("| shape | the model's choice | the best of tune | ratio, in turns | again | as tune timed it | candidates timed |\n|---|---|---|---|---|---|---|")
    for _ in range(options.shapes):
        dtypes = options.dtype.split(",")
        problem = draw_serving(random_, dtypes) if options.serving else draw(random_, dtypes, [int(t) for t in options.threads.split(",")])
        if options.device != "cpu":
            problem += ["--device", options.device]
        name = " ".join(problem)
        found = done.get(name)
        if not found:
            found = dict(who, shape=name, **measure(options.program, problem, options.seconds, options.rigor))
            if options.resume:
                with open(options.resume, "a") as f:
                    f.write(json.dumps(found) + "\n")
        was = f"{found['was']:.2f}" if found["was"] else "not timed"
        print(f"| {name} | {short(found['taken'])} | {short(found['best'])} | {told(found)} | {told(found['again'])} | {was} "
              f"| {found['timed']} |", flush=True)
        results.append(found)
    behind = [r["again"]["ratio"] for r in results if r["again"]]
    print(f"# {summary([r['ratio'] for r in results])}")
    if behind:
        print(f"# {len(behind)} shapes above {BOUND:.2f} timed again, of which {sum(r > BOUND for r in behind)} are so still; with these figures: "
              f"{summary([(r['again'] or r)['ratio'] for r in results])}")


if __name__ == "__main__":
    main()
