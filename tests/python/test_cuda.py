"""attngen on CUDA tensors: values, PyTorch's streams, captured graphs, torch.compile. Skipped without a card."""
import os
import sys
import unittest

import torch

if not torch.cuda.is_available():
    raise unittest.SkipTest("no CUDA device")

import attngen
import attngen.distributed as shared
from reference import check, masked

SEED = int(os.environ.get("ATTNGEN_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
print(f"# ATTNGEN_SEED={SEED}", file=sys.stderr)
torch.manual_seed(SEED)
TYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


def draw(*sides, dtype=torch.bfloat16):
    return torch.randn(*sides, device="cuda").to(dtype)


def hold(o, q, k, v, **features):
    o, q, k, v = (t.float().cpu().numpy() if t.dtype != torch.float32 else t.cpu().numpy() for t in (o, q, k, v))
    check(o, q, k, v, **features)


def wide(t):
    return t.float().cpu().numpy()


class Cuda(unittest.TestCase):
    def test_values(self):
        for dtype, name in TYPES.items():
            for batch, heads, kv_heads, rows, keys, d in ((2, 4, 4, 200, 177, 64), (1, 8, 2, 333, 333, 128),
                                                          (2, 8, 2, 1, 1000, 128)):
                with self.subTest(dtype=dtype, rows=rows, d=d):
                    q, k, v = draw(batch, heads, rows, d, dtype=dtype), *(draw(batch, kv_heads, keys, d, dtype=dtype)
                                                                          for _ in range(2))
                    o = attngen.sdpa(q, k, v, enable_gqa=True)
                    self.assertEqual((o.shape, o.dtype, o.device), (q.shape, dtype, q.device))
                    hold(o, q, k, v, dtype=name)
                    hold(attngen.sdpa(q, k, v, is_causal=True, enable_gqa=True), q, k, v, dtype=name,
                         take=masked(rows, keys, True))

    def test_masks_and_features(self):
        q, k, v = draw(2, 4, 150, 64), draw(2, 2, 260, 64), draw(2, 2, 260, 64)
        take = torch.rand(2, 1, 150, 260, device="cuda") < 0.6
        take[..., 0] = True
        hold(attngen.sdpa(q, k, v, take, enable_gqa=True), q, k, v, dtype="bf16", take=take.cpu().numpy())
        bias = draw(1, 4, 150, 260)
        hold(attngen.sdpa(q, k, v, bias, enable_gqa=True), q, k, v, dtype="bf16", bias=wide(bias))
        sinks = torch.randn(4, device="cuda")
        o, lse = attngen.attention(q, k, v, causal=True, window=(40, 0), softcap=4.0, sinks=sinks, lse=True)
        hold(o, q, k, v, dtype="bf16", take=masked(150, 260, True, 110, (40, 0)), softcap=4.0,
             sinks=sinks.cpu().numpy(), lse=lse.cpu().numpy())
        lens = torch.tensor([260, 33], device="cuda")
        many = torch.stack([torch.from_numpy(masked(150, 260, keys=n)) for n in (260, 33)])[:, None].numpy()
        hold(attngen.attention(q, k, v, kv_lens=lens), q, k, v, dtype="bf16", take=many)
        with self.assertRaisesRegex(attngen.Invalid, "kv_lens is on the processor"):
            attngen.attention(q, k, v, kv_lens=[260, 33])

    def test_nothing(self):
        """Without keys, which then lie nowhere, results are 0 and LSE -inf; without queries there are none."""
        for dtype in TYPES:
            for heads, rows, d in ((4, 5, 64), (8, 300, 128)):
                q, k = draw(2, heads, rows, d, dtype=dtype), draw(2, 2, 0, d, dtype=dtype)
                for more in ({}, {"causal": True}):
                    o, lse = attngen.attention(q, k, k, lse=True, **more)
                    self.assertTrue(not o.any() and bool(lse.eq(float("-inf")).all()), (dtype, rows, more))
                mask = torch.ones(2, 1, rows, 0, device="cuda", dtype=torch.bool)
                if dtype is torch.bfloat16:
                    self.assertFalse(attngen.attention(q, k, k, mask=mask).any())
                self.assertEqual(attngen.sdpa(q[:, :, :0], q, q).shape, (2, heads, 0, d))
        pages, table = draw(3, 2, 16, 64), torch.zeros(2, 0, device="cuda", dtype=torch.int32)
        for rows in (1, 40):
            o = attngen.attention(draw(2, 8, rows, 64), pages, pages, block_table=table, kv_lens=torch.zeros(2, device="cuda").long())
            self.assertFalse(o.any())
        torch.cuda.synchronize()

    def test_strides(self):
        x = draw(2, 150, 3, 4, 64)
        q, k, v = (x[:, :, i].transpose(1, 2) for i in range(3))
        o = attngen.sdpa(q, k, v)
        hold(o, q, k, v, dtype="bf16")
        self.assertTrue(o.transpose(1, 2).is_contiguous())
        out = torch.full((2, 4, 160, 80), float("nan"), device="cuda", dtype=torch.bfloat16)
        self.assertEqual(attngen.sdpa(q, k, v, out=out[:, :, 5:155, 8:72]).data_ptr(), out[0, 0, 5, 8:].data_ptr())
        self.assertTrue(torch.equal(out[:, :, 5:155, 8:72], o))
        self.assertEqual(out.isnan().sum().item(), out.numel() - o.numel())

    def test_streams(self):
        """Work waits for what its own stream did before, and two streams do not disturb each other."""
        q = draw(4, 8, 512, 64)
        expected = attngen.sdpa(q, q, q)
        torch.cuda.synchronize()
        streams, found = [torch.cuda.Stream() for _ in range(3)], []
        for _ in range(20):
            for s in streams:
                with torch.cuda.stream(s):
                    x = torch.zeros_like(q)
                    torch.cuda._sleep(200000)
                    x.copy_(q)
                    found.append(attngen.sdpa(x, x, x))
                    x.zero_()  # after the kernel, on the same stream
        torch.cuda.synchronize()
        for o in found:
            self.assertTrue(torch.equal(o, expected))

    def test_graph(self):
        q, k, v = draw(2, 8, 300, 128), draw(2, 2, 300, 128), draw(2, 2, 300, 128)
        out = torch.empty_like(q)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            attngen.sdpa(q, k, v, is_causal=True, enable_gqa=True, out=out)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            attngen.sdpa(q, k, v, is_causal=True, enable_gqa=True, out=out)
            made = attngen.sdpa(out, k, v, enable_gqa=True)
        for _ in range(3):
            for t in (q, k, v):
                t.copy_(torch.randn_like(t))
            graph.replay()
            torch.cuda.synchronize()
            hold(out, q, k, v, dtype="bf16", take=masked(300, 300, True))
            hold(made, out, k, v, dtype="bf16")

    def test_chain(self):
        """A launch reads what the one right before it wrote, and may write what that one read, on a stream and in a graph."""
        k, v = draw(2, 2, 4096, 128), draw(2, 2, 4096, 128)
        for rows in (4, 700):  # keys are split, and not
            first = draw(2, 8, rows, 128)
            out, back = torch.empty_like(first), torch.empty_like(first)

            def step(from_, to):
                return attngen.sdpa(from_, k, v, enable_gqa=True, out=to)

            def chain():
                step(first, out)
                for _ in range(10):
                    step(out, back)
                    step(back, out)

            expected = step(first, torch.empty_like(first))
            for _ in range(20):
                torch.cuda.synchronize()
                expected = step(expected, torch.empty_like(first))
            torch.cuda.synchronize()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                chain()
            torch.cuda.synchronize()
            self.assertTrue(torch.equal(out, expected))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                chain()
            for _ in range(3):
                out.zero_(), back.zero_()
                graph.replay()
                torch.cuda.synchronize()
                self.assertTrue(torch.equal(out, expected))

    def test_graph_of_lengths(self):
        """A captured run of packed sequences over pages stays right when starts, lengths and pages change on the card."""
        page, pages, most, batch = 16, 400, 40, 6
        k, v = draw(pages, 2, page, 128), draw(pages, 2, page, 128)
        q, out = draw(300, 8, 128), draw(300, 8, 128)
        starts, keys = (torch.zeros(n, dtype=torch.int64, device="cuda") for n in (batch + 1, batch))
        table = torch.zeros(batch, most, dtype=torch.int32, device="cuda")
        for rows in (16, 48):  # few queries, and some of a prompt
            def attend():
                attngen.attention(q, k, v, q_starts=starts, kv_lens=keys, block_table=table, q_len=rows, kv_len=most * page,
                                  causal=True, out=out)

            attend()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                attend()
            for _ in range(4):
                lens = torch.randint(0, rows + 1, (batch,))
                there = torch.randint(1, most * page + 1, (batch,)).clamp(min=rows)
                starts.copy_(torch.cat([torch.zeros(1, dtype=torch.int64), lens.cumsum(0)]))
                keys.copy_(there)
                table.copy_(torch.randint(0, pages, (batch, most), dtype=torch.int32))
                out.fill_(float("nan"))
                graph.replay()
                torch.cuda.synchronize()
                at = starts.tolist()
                for b in range(batch):
                    if at[b] == at[b + 1]:
                        continue
                    n, m = at[b + 1] - at[b], int(there[b])
                    mine = [x[table[b].long()].transpose(0, 1).reshape(1, 2, most * page, 128)[:, :, :m] for x in (k, v)]
                    hold(out[at[b]:at[b + 1]].transpose(0, 1)[None], q[at[b]:at[b + 1]].transpose(0, 1)[None], *mine, dtype="bf16",
                         take=masked(n, m, True, m - n))
                self.assertTrue(out[at[-1]:].isnan().all())

    def test_compile(self):
        def layer(q, k, v):
            o, lse = attngen.attention(q * 2, k, v, causal=True, lse=True)
            return attngen.sdpa(o, k, v, is_causal=True) + 1, lse

        q, k, v = (draw(1, 4, 128, 64) for _ in range(3))
        for options in (dict(backend="cudagraphs"), dict(mode="reduce-overhead")):
            compiled = torch.compile(layer, fullgraph=True, **options)
            with torch.inference_mode():
                for _ in range(4):
                    torch.compiler.cudagraph_mark_step_begin()
                    for a, b in zip(compiled(q, k, v), layer(q, k, v)):
                        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)
            torch._dynamo.reset()

    def test_narrow(self):
        """Rows appended to pages on the card, and one query over them, have the bits that the processor's rows have; the same
        compiled."""
        table = torch.tensor([[3, 0, 5], [1, 4, 2]], device="cuda", dtype=torch.int32)
        lens, q, k = torch.tensor([40, 17], device="cuda"), draw(2, 8, 1, 64), draw(2, 2, 48, 64)

        def step(q, k, stored, scales, slots):
            attngen.quantise(k, to, out=stored, out_scales=scales, slots=slots)
            kind = dict(kv_dtype=to, block_table=table, kv_lens=lens, k_scales=scales, v_scales=scales)
            return attngen.attention(q, stored, stored, causal=True, **kind)

        at = torch.arange(48, device="cuda")
        slots = table.long()[:, at // 16] * 16 + at % 16
        for to in ("int8", "fp8", "q8_0", "q4_0"):
            plain, plain_scales = attngen.quantise(k.cpu(), to)
            kept, kept_scales = attngen.quantise(k, to)
            self.assertTrue(torch.equal(kept.cpu(), plain))
            for body in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
                stored = torch.zeros(6, 2, 16, plain.shape[3], device="cuda", dtype=plain.dtype)
                scales = None if plain_scales is None else torch.zeros(6, 2, 16, device="cuda")
                try:
                    o = body(q, k, stored, scales, slots)
                except attngen.Unsupported as why:  # kernels for tensor cores take no blocks
                    self.assertIn(to, ("q8_0", "q4_0"), str(why))
                    continue
                rows = stored[table.long()].transpose(2, 3).flatten(1, 2).transpose(1, 2)
                self.assertTrue(torch.equal(rows.cpu(), plain))
                for b, n in enumerate(lens.tolist()):
                    same = None if scales is None else kept_scales[b:b + 1, :, :n]
                    expected = attngen.attention(q[b:b + 1].cpu(), plain[b:b + 1, :, :n], plain[b:b + 1, :, :n], kv_dtype=to,
                                                 k_scales=None if same is None else same.cpu(),
                                                 v_scales=None if same is None else same.cpu())
                    torch.testing.assert_close(o[b:b + 1].cpu(), expected, rtol=2e-2, atol=2e-2)

    def test_merge(self):
        q, k, v = draw(1, 2, 40, 64), draw(1, 2, 90, 64), draw(1, 2, 90, 64)
        parts = [shared._part(q, k[:, :, a:b], v[:, :, a:b], None) for a, b in ((0, 17), (17, 90))]
        o, lse = shared.merge([p[0] for p in parts], [p[1] for p in parts])
        hold(o, q, k, v, dtype="bf16", lse=lse.cpu().numpy())

    def test_plan(self):
        plan = attngen.Plan(device="cuda", dtype="bf16", head_dim=64, heads=4, max_q_len=1, max_kv_len=4096)
        self.assertEqual((plan.device, plan.compiler), ("cuda:0", "cuda"))
        k, v = draw(1, 4, 4096, 64), draw(1, 4, 4096, 64)
        for keys in (1, 100, 4096):
            q = draw(1, 4, 1, 64)
            hold(plan(q, k[:, :, :keys], v[:, :, :keys]), q, k[:, :, :keys], v[:, :, :keys], dtype="bf16")
        torch.cuda.synchronize()
        plan.close()


if __name__ == "__main__":
    unittest.main()
