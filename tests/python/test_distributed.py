"""attngen.distributed: 2, 3 and 4 processes over Gloo, and over NCCL as many as there are cards, against one process; and the same
bits when it is run again."""
import os
import socket
import sys
import traceback
import types
import unittest

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing

import attngen
import attngen.distributed as shared
from reference import check, masked

SEED = int(os.environ.get("ATTNGEN_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
if __name__ != "__mp_main__":
    print(f"# ATTNGEN_SEED={SEED}", file=sys.stderr)
TYPES = {torch.float32: "f32", torch.bfloat16: "bf16"}


def wide(*tensors):
    return [t.float().cpu().numpy() for t in tensors]


def work(rank, ranks, port, seed, said, card):
    try:
        torch.set_num_threads(1)
        where = torch.device("cuda", rank) if card else torch.device("cpu")
        if card:
            torch.cuda.set_device(rank)
        dist.init_process_group("nccl" if card else "gloo", f"tcp://127.0.0.1:{port}", world_size=ranks, rank=rank,
                                **({"device_id": where} if card else {}))
        torch.manual_seed(seed)  # all ranks draw the same, and shard it
        group = dist.new_group(list(range(ranks)))
        dim, values = (64, 64) if card else (32, 48)
        for dtype in TYPES:
            rows = 2 * ranks * 23

            def draw(heads, elements):
                return torch.randn(2, heads, rows, elements).to(where, dtype)

            q, k, v = draw(4, dim), draw(2, dim), draw(2, values)
            mine = [shared.shard(x, group) for x in (q, k, v)]
            assert torch.equal(shared.unshard(mine[1], group), k)
            for causal in (False, True):
                o, lse = shared.attention(*mine, group, causal=causal, lse=True)
                again = shared.attention(*mine, group, causal=causal)
                assert torch.equal(o, again), "other bits"
                o_causal = o
                whole, whole_lse = shared.unshard(o, group), shared.unshard(lse, group)
                check(*wide(whole, q, k, v), dtype=TYPES[dtype], lse=wide(whole_lse)[0],
                      take=masked(rows, rows, causal))
            few = mine[0][:, :, :3]
            found = [shared.attention(few, *mine[1:], group, method=m, scale=0.2) for m in ("ring", "partials", None)]
            assert torch.equal(found[1], found[2]), "few queries took the ring"
            zigzag = [shared.unshard(x, group) for x in mine[1:]]
            for o in found[:2]:
                check(*wide(o, few, *zigzag), dtype=TYPES[dtype], scale=0.2)
            step = q[:, :, -5:]
            own = [x[:, :, rank * (rows // ranks):(rank + 1) * (rows // ranks)] for x in (k, v)]
            o, lse = shared.attention(step, *own, group, causal=True, queries="replicated", lse=True)
            check(*wide(o, step, k, v), dtype=TYPES[dtype], lse=wide(lse)[0], take=masked(5, rows, True, rows - 5))
            o = shared.attention(step[:, :, :1], *own, group, queries="replicated")
            check(*wide(o, step[:, :, :1], k, v), dtype=TYPES[dtype])
            same = [torch.empty_like(o) for _ in range(ranks)]
            dist.all_gather(same, o)
            assert all(torch.equal(s, o) for s in same), "ranks differ"
            for queries in ("sharded", "replicated"):
                o, lse = shared.attention(q[:, :, :0], *own, group, queries=queries, lse=True)
                assert o.shape == (2, 4, 0, values) and lse.shape == (2, 4, 0)
                o, lse = shared.attention(step, *(x[:, :, :0] for x in own), group, queries=queries, lse=True)
                assert o.shape == (2, 4, 5, values) and not o.any() and lse.eq(float("-inf")).all(), "no keys"
        for words, call in (("a multiple of", lambda: shared.shard(q[:, :, :-1], group)),
                            ("Tensor, ndarray, Tensor; expected PyTorch", lambda: shared.attention(q, wide(few)[0], v)),
                            ("q has type float64", lambda: shared.attention(*(x.double() for x in mine), group)),
                            ("a multiple of kv_heads", lambda: shared.attention(mine[0][:, :3], *mine[1:], group, causal=True)),
                            ("as shard", lambda: shared.attention(q[:, :, :4], k, v, causal=True)),
                            ("requires grad", lambda: shared.attention(q.float().requires_grad_(), k, v))):
            try:
                call()
                raise AssertionError("not refused: " + words)
            except attngen.Error as error:
                assert words in str(error), str(error)
        again = shared.attention(*mine, group, causal=True)  # which meets no message of a call that was refused
        assert torch.equal(o_causal, again), "other bits"
        said.put((rank, None))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        said.put((rank, traceback.format_exc()))
        raise


class Distributed(unittest.TestCase):
    def run_ranks(self, ranks, card=False):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        context = torch.multiprocessing.get_context("spawn")
        said = context.SimpleQueue()
        workers = [context.Process(target=work, args=(r, ranks, port, SEED, said, card)) for r in range(ranks)]
        for w in workers:
            w.start()
        try:
            for w in workers:
                w.join(300)
            words = []
            while not said.empty():
                words.append(said.get())
            self.assertEqual([text for _, text in sorted(words, key=lambda x: x[0]) if text], [])
            self.assertEqual(len(words), ranks)
        finally:
            for w in workers:
                if w.is_alive():
                    w.kill()

    def test_two(self):
        self.run_ranks(2)

    def test_three(self):
        self.run_ranks(3)

    def test_four(self):
        self.run_ranks(4)

    def test_cards(self):
        cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if cards < 2 or not dist.is_nccl_available():
            self.skipTest("fewer than two CUDA devices, or no NCCL")
        for ranks in range(2, min(cards, 4) + 1):
            with self.subTest(ranks=ranks):
                self.run_ranks(ranks, True)

    def test_rounded(self):
        """On a card a call that is refused for another reason does not have later calls round what they merge."""
        asked, real = [], shared._attend
        good, bad = (types.SimpleNamespace(is_cuda=True, dtype=d, shape=(1, 1, 1, 8), float=lambda: 0) for d in "ab")

        def attend(q, *rest, o_dtype=None, **options):
            asked.append(o_dtype)
            if q is bad or (q is narrow and o_dtype):
                raise attngen.Unsupported("refused")
            return q, 0

        narrow = types.SimpleNamespace(is_cuda=True, dtype="c", shape=(1, 1, 1, 8), float=lambda: 0)
        shared._attend = attend
        try:
            with self.assertRaises(attngen.Unsupported):
                shared._part(bad, bad, bad, None)
            shared._part(narrow, narrow, narrow, None)
            del asked[:]
            shared._part(good, good, good, None)
            shared._part(narrow, narrow, narrow, None)
            self.assertEqual(asked, ["f32", None])
        finally:
            shared._attend = real
            shared._rounded.clear()

    def test_merge(self):
        rng = np.random.default_rng(SEED)
        q, k, v = (torch.from_numpy(rng.standard_normal((1, 2, 40, 16), np.float32)) for _ in range(3))
        parts = [attngen.attention(q, k[:, :, a:b], v[:, :, a:b], lse=True) for a, b in ((0, 7), (7, 7), (7, 40))]
        o, lse = shared.merge([p[0] for p in parts], [p[1] for p in parts])
        check(*wide(o, q, k, v), lse=lse.numpy())
        with self.assertRaisesRegex(attngen.Invalid, "expected all as part 0"):
            shared.merge([parts[0][0], parts[1][0][:, :1]], [p[1] for p in parts[:2]])


if __name__ == "__main__":
    unittest.main()
