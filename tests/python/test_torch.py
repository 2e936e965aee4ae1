"""attngen on PyTorch's tensors: against PyTorch's own attention, its operators, torch.compile, gradients, fallback."""
import os
import subprocess
import sys
import threading
import unittest
import warnings

import numpy as np
import torch

import attngen
from reference import check, masked

SEED = int(os.environ.get("ATTNGEN_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
print(f"# ATTNGEN_SEED={SEED}", file=sys.stderr)
torch.manual_seed(SEED)
TYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


def own(q, k, v, *rest, enable_gqa=False, **options):
    """PyTorch's own; its enable_gqa is of 2.5."""
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, *rest, **options)


def wide(t):
    return t.float().numpy()


def hold(o, q, k, v, **features):
    check(wide(o), wide(q), wide(k), wide(v), TYPES[o.dtype], **features)


class Sdpa(unittest.TestCase):
    def test_values(self):
        for dtype in TYPES:
            for batch, heads, kv_heads, rows, keys, d, dv in ((2, 4, 4, 100, 77, 64, 48), (1, 6, 2, 33, 129, 72, 72),
                                                              (3, 4, 1, 1, 257, 128, 128)):
                q, k = torch.randn(batch, heads, rows, d).to(dtype), torch.randn(batch, kv_heads, keys, d).to(dtype)
                v = torch.randn(batch, kv_heads, keys, dv).to(dtype)
                o = attngen.sdpa(q, k, v, enable_gqa=True)
                self.assertEqual((o.shape, o.dtype), ((batch, heads, rows, dv), dtype))
                hold(o, q, k, v)
                hold(attngen.sdpa(q, k, v, is_causal=True, enable_gqa=True), q, k, v, take=masked(rows, keys, True))
                bias = torch.randn(1, heads, 1, keys).to(dtype)
                hold(attngen.sdpa(q, k, v, bias, enable_gqa=True), q, k, v, bias=wide(bias))

    def test_as_pytorch(self):
        """The same arguments give what PyTorch gives, whatever dimensions are missing or shared."""
        q, k = torch.randn(2, 3, 4, 20, 16), torch.randn(2, 3, 4, 30, 16)
        mask, part = torch.rand(20, 30) < 0.5, torch.rand(3, 1, 1, 30) < 0.7
        mask[:, 0], part[..., 0] = True, True
        for args, options in (((q, k, k), {}), ((q[0], k[0], k[0]), {}), ((q[0, 0], k[0, 0], k[0, 0]), {}),
                              ((q[0, 0, 0], k[0, 0, 0], k[0, 0, 0]), {}), ((q, k, k, mask), {}),
                              ((q[0], k[0], k[0], part), {}), ((q[0], k[0], k[0], part.float()), dict(scale=0.1)),
                              ((q[0], k[0, :, :2], k[0, :, :2]), dict(enable_gqa=True)),
                              ((q[0], k[0], k[0], None, 0.0, True), {})):
            expected = own(*args, **options)
            o = attngen.sdpa(*args, **options)
            self.assertEqual(o.shape, expected.shape)
            torch.testing.assert_close(o, expected, rtol=1e-4, atol=2e-6)

    def test_strides(self):
        x = torch.randn(2, 60, 3, 5, 32)
        q, k, v = (x[:, :, i].transpose(1, 2) for i in range(3))
        o = attngen.sdpa(q, k, v)
        hold(o, q, k, v)
        self.assertTrue(o.transpose(1, 2).is_contiguous())
        out = torch.empty(2, 60, 5, 32).transpose(1, 2)
        self.assertIs(attngen.sdpa(q, k, v, out=out), out)
        self.assertTrue(torch.equal(out, o))
        shared = k[:1, :1].expand_as(k)
        hold(attngen.sdpa(q, shared, v), q, shared, v)

    def test_keys_grow(self):
        """Caches of any length and strides, after each other: concatenated, and as views of a longer one."""
        for kv_heads, d, dv in ((2, 32, 16), (1, 16, 16), (4, 8, 8)):
            q = torch.randn(2, 4, 1, d)
            k, v = torch.randn(2, kv_heads, 150, d), torch.randn(2, 150, kv_heads, dv).transpose(1, 2)
            for n in (70, 71, 72, 1, 2, 128, 129, 150, 33):
                for one, other in ((k[:, :, :n], v[:, :, :n]), (k[:, :, :n].contiguous(), v[:, :, 150 - n:])):
                    hold(attngen.sdpa(q, one, other, enable_gqa=True), q, one, other)
            hold(attngen.sdpa(q, k[:1], v[:1], enable_gqa=True), q, k[:1].expand(2, -1, -1, -1), v[:1].expand(2, -1, -1, -1))
            shared = k[:, :1, :7].expand(2, 4, 7, d)
            hold(attngen.sdpa(q, shared, shared), q, shared, shared)
        with self.assertRaisesRegex(attngen.Invalid, "q has 4 heads|query has 4 heads"):
            attngen.sdpa(q, k[:, :2, :9], v[:, :2, :9])

    def test_keys_and_mask_grow(self):
        """The same with masks, whose sides and strides change with the number of keys and otherwise."""
        q, k = torch.randn(2, 4, 3, 16), torch.randn(2, 4, 150, 16)
        whole = torch.rand(2, 4, 3, 150) < 0.7
        whole[..., 0] = True
        for n in (70, 71, 72, 1, 128, 129, 33, 70):
            for sides in ((2, 4, 3, n), (1, 4, 1, n), (2, 1, 1, n), (1, 1, 3, n), (3, n), (n,), (2, 1, 1, 1)):
                near = whole
                for i, side in enumerate(reversed(sides)):
                    near = near.narrow(3 - i, 0, side)
                near = near.reshape(sides) if len(sides) == 4 else near[0, 0].reshape(sides) if len(sides) == 2 else near[0, 0, 0]
                for mask in (near, near.contiguous()):
                    take = mask.expand(2, 4, 3, n)
                    hold(attngen.sdpa(q, k[:, :, :n], k[:, :, :n], mask), q, k[:, :, :n], k[:, :, :n], take=take.numpy())
                    bias = torch.zeros(sides).masked_fill(~mask, -1e4)
                    hold(attngen.sdpa(q, k[:, :, :n], k[:, :, :n], bias), q, k[:, :, :n], k[:, :, :n], take=take.numpy())
        with self.assertRaisesRegex(attngen.Invalid, r"attn_mask is \[1, 1, 1, 71\]"):
            attngen.sdpa(q, k[:, :, :70], k[:, :, :70], whole[:1, :1, :1, :71])
        with self.assertRaisesRegex(attngen.Unsupported, "requires grad"):
            attngen.sdpa(q, k[:, :, :70], k[:, :, :70], torch.zeros(3, 70, requires_grad=True))
        for _ in range(2):  # also when a call for such sides is there
            with self.assertRaisesRegex(attngen.Unsupported, "attn_mask has type int32"):
                attngen.sdpa(q, k[:, :, :71], k[:, :, :71], torch.zeros(3, 71, dtype=torch.int32))

    def test_narrow(self):
        q, k = torch.randn(2, 4, 9, 64), torch.randn(2, 2, 30, 64)
        for to in ("int8", "fp8", "q8_0", "q4_0"):
            stored, scales = attngen.quantise(k, to, share="head")
            self.assertEqual(stored.dtype, torch.int8 if to == "int8" else torch.uint8)
            kind = dict(kv_dtype=to, k_scales=scales, v_scales=scales)
            o = attngen.attention(q, stored, stored, **kind)
            if to in ("int8", "fp8"):
                plain = stored if to == "int8" else stored.view(torch.float8_e4m3fn)
                whole = plain.float() * scales[..., None]
                hold(o, q, whole, whole)
                self.assertTrue(torch.equal(attngen.attention(q, plain, plain, k_scales=scales, v_scales=scales), o))
            self.assertLess((o - attngen.sdpa(q, k, k, enable_gqa=True)).abs().max().item(), 0.5)
            compiled = torch.compile(lambda a, b: attngen.attention(a, b, b, **kind), fullgraph=True, backend="aot_eager")
            self.assertTrue(torch.equal(compiled(q, stored), o))
        none, scales = torch.zeros(0, 2, 16, 64, dtype=torch.int8), torch.zeros(0, 2, 16)  # a cache that has no page yet
        o = attngen.attention(q, none, none, k_scales=scales, v_scales=scales, kv_lens=[0, 0],
                              block_table=torch.zeros(2, 3, dtype=torch.int32))
        self.assertFalse(o.any())

    def test_lists(self):
        q, k = torch.randn(2, 4, 9, 16), torch.randn(2, 4, 30, 16)
        lens = [30, 7]
        take = np.stack([masked(9, 30, keys=n) for n in lens])[:, None]
        hold(attngen.attention(q, k, k, kv_lens=lens), q, k, k, take=take)
        hold(attngen.attention(q, k, k, kv_lens=torch.tensor(lens)), q, k, k, take=take)

    def test_threads(self):
        q = torch.randn(1, 4, 300, 32)
        had = torch.get_num_threads()
        found = []
        try:
            for n in (1, 2):
                torch.set_num_threads(n)
                found.append(attngen.sdpa(q, q, q))
                from attngen import _plans
                self.assertIn(n, {p.threads for p in _plans._plans.values()})
        finally:
            torch.set_num_threads(had)
        hold(found[0], q, q, q)
        hold(found[1], q, q, q)

    def test_openmp(self):
        """On PyTorch's threads: the same bits, from several Python threads at once too, and after fork without them."""
        from attngen import _openmp
        for units, threads, parts in ((8, 2, 8), (384, 2, 16), (3, 2, 0), (1, 2, 0), (24, 16, 0), (32, 16, 32), (384, 16, 128),
                                      (17, 16, 0), (51, 2, 0), (6, 6, 6)):
            self.assertEqual(_openmp.parts_for(units, threads), parts, (units, threads))
        had = torch.get_num_threads()
        torch.set_num_threads(2)
        q, k = torch.randn(3, 6, 300, 64), torch.randn(3, 2, 400, 64)
        expected = attngen.sdpa(q, k, k, enable_gqa=True)
        teams, real = [], _openmp.run_in_team

        def count(*args):
            done = real(*args)
            teams.append(done)
            return done

        attngen.configure(openmp=False)
        self.assertTrue(torch.equal(attngen.sdpa(q, k, k, enable_gqa=True), expected))
        _openmp.run_in_team = count
        attngen.configure(openmp=True)
        try:
            def work():
                for _ in range(10):
                    (q @ k.repeat_interleave(3, 1).mT).sum()
                    found.append(torch.equal(attngen.sdpa(q, k, k, enable_gqa=True), expected))

            found = []
            work()
            self.assertEqual(teams, [True] * 10)
            workers = [threading.Thread(target=work) for _ in range(3)]
            for w in workers:
                w.start()
            for w in workers:
                w.join()
            self.assertEqual(found, [True] * 40)
            child = os.fork()
            if child == 0:
                # PyTorch's own operators would wait for threads that a child has not.
                same = (attngen.sdpa(q, k, k, enable_gqa=True).numpy() == expected.numpy()).all()
                os._exit(0 if same and teams[-1] is False else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            with self.assertRaisesRegex(attngen.Invalid, "scale is inf"):
                attngen.sdpa(q, q, q, scale=float("inf"))
            del teams[:]
            torch.testing.assert_close(attngen.attention(q, k, k, threads=3), expected, rtol=1e-4, atol=1e-4)
            self.assertEqual(teams, [])  # PyTorch's next operator would make its team anew
            held = threading.Event()

            def hold_the_lock():
                while not held.is_set():
                    pass

            busy = threading.Thread(target=hold_the_lock)  # of Python, which the team does without
            busy.start()
            attngen.sdpa(q, k, k, enable_gqa=True)
            held.set()
            busy.join()
            self.assertEqual(teams, [True])
            del teams[:]
            attngen.sdpa(q[:, :, :20], k[:, :, :20], k[:, :, :20], enable_gqa=True)  # small
            attngen.sdpa(torch.randn(1, 3, 900, 64), *(torch.randn(1, 3, 900, 64) for _ in range(2)))  # three parts, two threads
            self.assertEqual(teams, [])
        finally:
            _openmp.run_in_team = real
            torch.set_num_threads(had)

    def test_gradients(self):
        q = torch.randn(1, 2, 9, 16, requires_grad=True)
        with self.assertRaisesRegex(attngen.Unsupported, "requires grad.*expected torch.no_grad"):
            attngen.sdpa(q, q, q)
        with self.assertRaisesRegex(attngen.Unsupported, "requires grad"):
            attngen.attention(q, q, q)
        with torch.no_grad():
            hold(attngen.sdpa(q, q, q), q, q, q)
        with self.assertRaises(attngen.Unsupported):  # what was prepared without recording is not served to it
            attngen.sdpa(q, q, q)
        with torch.inference_mode():
            hold(attngen.sdpa(q.detach(), q, q), q, q, q)
        before = sum(attngen.fallbacks.values())
        o = attngen.sdpa(q, q, q, fallback="torch")
        o.sum().backward()
        self.assertIsNotNone(q.grad)
        self.assertEqual(sum(attngen.fallbacks.values()), before + 1)

    def test_fallback(self):
        q = torch.randn(1, 2, 9, 16, dtype=torch.float64)
        before = attngen.fallbacks.copy()
        torch.testing.assert_close(attngen.sdpa(q, q, q, fallback="torch"), own(q, q, q))
        attngen.configure(fallback="torch")
        out = torch.empty_like(q)
        self.assertIs(attngen.sdpa(q, q, q, out=out), out)
        torch.testing.assert_close(out, own(q, q, q))
        strange = q.float()[..., ::2]
        torch.testing.assert_close(attngen.sdpa(strange, strange, strange), own(strange, strange, strange))
        x = np.random.rand(1, 1, 4, 8)
        np.testing.assert_allclose(attngen.sdpa(x, x, x), own(*(3 * [torch.from_numpy(x)])).numpy())

        class Other:
            """An array of a library that only speaks DLPack."""
            __dlpack__ = lambda self, **options: q.__dlpack__()
            __dlpack_device__ = lambda self: q.__dlpack_device__()

        np.testing.assert_allclose(attngen.sdpa(Other(), Other(), Other()), own(q, q, q).numpy())
        attngen.configure(fallback="")
        with self.assertRaisesRegex(attngen.Unsupported, "q has type float64"):
            attngen.sdpa(q, q, q)
        counted = attngen.fallbacks - before
        self.assertEqual(sum(counted.values()), 5)
        self.assertEqual(len(counted), 2)

    def test_refusals(self):
        q = torch.randn(1, 2, 9, 16)
        for words, call in (("key is of type numpy.ndarray", lambda: attngen.sdpa(q, q.numpy(), q)),
                            ("key is of type torch.Tensor and query is an array of numpy", lambda: attngen.sdpa(q.numpy(), q, q)),
                            ("on meta", lambda: attngen.sdpa(*(3 * [q.to("meta")]))),
                            ("requires grad", lambda: attngen.attention(q, q, q, lse=torch.empty(1, 2, 9, requires_grad=True))),
                            ("sparse", lambda: attngen.sdpa(q.to_sparse(), q, q))):
            with self.assertRaisesRegex((attngen.Error), words):
                call()
        # A prepared call does not serve a tensor whose memory has other signs than its numbers.
        slopes, table = torch.rand(2, dtype=torch.complex64), torch.randn(9, 9, dtype=torch.complex64)
        for given in ({"bias": table}, {"alibi_slopes": slopes[:1]}):
            some = q[:, :1] if "alibi_slopes" in given else q
            (name, value), = given.items()
            self.assertTrue(value.conj().imag.is_neg())
            attngen.attention(some, some, some, **{name: value.imag})
            with self.assertRaisesRegex(attngen.Unsupported, "negated"):
                attngen.attention(some, some, some, **{name: value.conj().imag})
        for wide in (table, table[:, :1].expand(9, 9)):
            attngen.sdpa(q, q, q, attn_mask=wide.imag)
            with self.assertRaisesRegex(attngen.Unsupported, "negated"):
                attngen.sdpa(q, q, q, attn_mask=wide.conj().imag)
        scale = torch.tensor(0.25)
        found = [attngen.sdpa(q, q, q, scale=scale)]
        found.append(attngen.sdpa(q, q, q, scale=scale.fill_(2.5)))
        for o, exact in zip(found, (0.25, 2.5)):
            self.assertTrue(torch.equal(o, attngen.sdpa(q, q, q, scale=exact)))

    def test_meta_and_subclasses(self):
        class Mine(torch.Tensor):
            pass

        q = torch.randn(1, 2, 9, 16)
        hold(torch.Tensor(attngen.sdpa(q.as_subclass(Mine), q, q)), q, q, q)


    def test_large_result(self):
        """Memory that earlier results had, and new memory in large pages, hold what memory of the caller does."""
        from attngen import _memory
        q, k = torch.randn(1, 9000, 4, 288).transpose(1, 2), torch.randn(1, 4, 20, 288)
        expected = attngen.sdpa(q, k, k, out=torch.empty_like(q))
        for kept in (1 << 27, 0):
            attngen.configure(kept_bytes=kept)
            try:
                for _ in range(3):
                    o = attngen.sdpa(q, k, k)
                    self.assertTrue(torch.equal(o, expected))
                    self.assertEqual(o.stride(), q.stride())
                o = attngen.attention(q, k, k)
                self.assertTrue(torch.equal(o, attngen.attention(q, k, k, out=torch.empty_like(q))))
            finally:
                del o
                self.assertEqual(_memory._held > 0, kept > 0)
                attngen.configure(kept_bytes=1 << 27)

    def test_recycled_result(self):
        """A result in memory of an earlier one is a tensor like others, and has it until the last view of it is gone."""
        q, k = torch.randn(2, 4, 300, 128).to(torch.bfloat16), torch.randn(2, 4, 20, 128).to(torch.bfloat16)
        first = attngen.sdpa(q, k, k)
        self.assertIs(first._base, None)
        self.assertTrue(first.is_contiguous() and first.untyped_storage().nbytes() == first.nbytes)
        kept, at = first[1, 2], first.data_ptr()
        was = kept.clone()
        del first
        others = [attngen.sdpa(-q, k, k) for _ in range(3)]
        self.assertNotIn(at, [o.data_ptr() for o in others])
        self.assertTrue(torch.equal(kept, was))
        del kept, was
        self.assertEqual(attngen.sdpa(q, k, k).data_ptr(), at)
        weight = torch.ones(128, requires_grad=True)
        o = others.pop()
        o *= weight.to(torch.bfloat16)  # a view that was made without gradients would refuse this
        o.sum().backward()
        with torch.inference_mode():
            self.assertTrue(attngen.sdpa(q, k, k).is_inference())
        o = attngen.sdpa(torch.nn.Parameter(q, requires_grad=False), k, k)
        self.assertIs(type(o), torch.Tensor)
        o.share_memory_()
        self.assertTrue(torch.equal(o, attngen.sdpa(q, k, k)))
        self.assertNotEqual(o.data_ptr(), attngen.sdpa(q, k, k).data_ptr())

    def test_results_of_one_call(self):
        """A call that is made again finds the memory of its last results, but only if nobody can see it any more."""
        from attngen import _memory
        q, k = torch.randn(1, 4, 400, 64), torch.randn(1, 4, 20, 64)
        expected = attngen.sdpa(q, k, k, out=torch.empty_like(q))
        for _ in range(2):
            last = attngen.sdpa(q, k, k)
        seen = set()
        for step in range(6):  # one lives while the next is made
            seen.add(last.data_ptr())
            o = attngen.sdpa(q, k, k)
            self.assertNotEqual(o.data_ptr(), last.data_ptr())
            self.assertTrue(torch.equal(o, expected) and torch.equal(last, expected))
            self.assertTrue(o._base is None and o._version == 0 and not o.requires_grad and not o.is_inference())
            last.zero_()
            last = o
            del o
        self.assertLessEqual(len(seen), 3)
        for see in (lambda o: o[0, 1], lambda o: o.numpy(), lambda o: o.untyped_storage(), lambda o: o.detach(), lambda o: o.data,
                    lambda o: torch.from_dlpack(o), lambda o: memoryview(o.numpy()), lambda o: o.view(torch.int32)):
            o = attngen.sdpa(q, k, k)
            view, at = see(o), o.data_ptr()
            del o
            self.assertNotIn(at, [attngen.sdpa(q, k, k).data_ptr() for _ in range(3)])
            del view
        many = [attngen.sdpa(q, k, k) for _ in range(9)]
        self.assertEqual(len({o.data_ptr() for o in many}), 9)
        del many
        moved = attngen.sdpa(q, k, k).share_memory_()  # another process may have it
        at = moved.data_ptr()
        del moved
        self.assertNotIn(at, [attngen.sdpa(q, k, k).data_ptr() for _ in range(4)])
        for inference in (True, False, True, False):
            with torch.inference_mode(inference):
                self.assertEqual([attngen.sdpa(q, k, k).is_inference() for _ in range(3)], [inference] * 3)
        others = [torch.randn(1, 4, 400 + i, 64) for i in range(200)]
        for x in others:
            for _ in range(3):
                o = attngen.sdpa(x, k, k)
        del o
        kept = sum(len(spares) * size for spares, size in _memory._lent.values())
        self.assertTrue(0 < kept <= _memory.most // 4 and kept + _memory._held <= _memory.most)
        attngen.configure(kept_bytes=0)
        try:
            self.assertFalse(_memory._lent or _memory._held)
            self.assertTrue(torch.equal(attngen.sdpa(q, k, k), expected))
        finally:
            attngen.configure(kept_bytes=1 << 27)

    def test_results_of_threads(self):
        """Threads that make the same call at the same time have results of their own."""
        import threading
        k, wrong = torch.randn(1, 4, 8, 64), []
        inputs = [torch.randn(1, 4, 400, 64) for _ in range(4)]
        expected = [attngen.sdpa(q, k, k, out=torch.empty_like(q)) for q in inputs]

        def work(i):
            for _ in range(150):
                if not torch.equal(attngen.sdpa(inputs[i], k, k), expected[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_out_is_known_as_written(self):
        q, x, w = torch.randn(1, 2, 9, 16), torch.randn(1, 2, 9, 16, requires_grad=True), torch.randn(1, 2, 9, 16)
        for write in (lambda: attngen.sdpa(q, q, q, out=w), lambda: attngen.attention(q, q, q, out=w)):
            product = (x * w).sum()  # whose gradient is w
            write()
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                product.backward()


class Operators(unittest.TestCase):
    def test_overlap(self):
        packed = torch.randn(2, 16, 4, 4, 32)  # [batch, row, Q K V O, head, element]
        parts = [packed[:, :, i].transpose(1, 2) for i in range(4)]
        expected = attngen.sdpa(*parts[:3])
        for _ in range(2):
            self.assertTrue(torch.equal(attngen.sdpa(*parts[:3], out=parts[3]), expected))
            with self.assertRaisesRegex(attngen.Invalid, "out shares memory with value"):
                attngen.sdpa(*parts[:3], out=parts[2])
            with self.assertRaisesRegex(attngen.Invalid, "out shares memory with q;"):
                attngen.attention(*parts[:3], out=parts[0], lse=True)
            with self.assertRaisesRegex(attngen.Invalid, "elements share memory"):
                attngen.sdpa(*parts[:3], out=torch.empty(1, 1, 16, 32).expand(2, 4, 16, 32))
        kept = parts[0].clone()
        self.assertTrue(torch.equal(attngen.sdpa(*parts[:3], out=parts[0], fallback="torch"), parts[0]))
        torch.testing.assert_close(parts[0], torch.nn.functional.scaled_dot_product_attention(kept, *parts[1:3]))

    def test_watched(self):
        """What records or changes operators sees one, and nothing that it needs is lost."""
        from torch._subclasses import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx
        q, k = torch.randn(3, 2, 4, 9, 16), torch.randn(2, 4, 11, 16)
        expected = torch.stack([attngen.sdpa(one, k, k) for one in q])
        graph = make_fx(lambda a: attngen.sdpa(a, k, k))(q[0])
        self.assertIn("attngen.sdpa.default", graph.code)
        self.assertTrue(torch.equal(graph(q[1]), expected[1]))
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = attngen.sdpa(mode.from_tensor(q[0]), k, k)
            self.assertEqual(fake.shape, expected[0].shape)
        self.assertEqual(attngen.sdpa(fake, fake, fake).shape, fake.shape)  # the mode is left, the tensor is fake still
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertTrue(torch.equal(torch.vmap(lambda a: attngen.sdpa(a, k, k))(q), expected))
            o, lse = torch.vmap(lambda a: attngen.attention(a, k, k, lse=True))(q)
            self.assertTrue(torch.equal(o[1], attngen.attention(q[1], k, k)) and lse.shape == (3, 2, 4, 9))
            with self.assertRaisesRegex(attngen.Unsupported, "tangent of forward-mode gradients"):
                torch.func.jvp(lambda a: attngen.sdpa(a, k, k), (q[0],), (q[1],))
            with self.assertRaisesRegex(attngen.Unsupported, "torch.jit.trace is recording"):
                torch.jit.trace(lambda a: attngen.sdpa(a, a, a), q[0])
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(q[0], q[1])
            for call in (attngen.sdpa, attngen.attention):
                with self.assertRaisesRegex(attngen.Unsupported, "tangent of forward-mode gradients"):
                    call(dual, k, k)
            self.assertTrue(torch.equal(attngen.sdpa(q[0], k, k), expected[0]))

    def test_compiled_lists_and_fallback(self):
        q, k = torch.randn(2, 4, 9, 16), torch.randn(2, 4, 30, 16)
        compiled = torch.compile(lambda a, b: attngen.attention(a, b, b, kv_lens=[30, 7]), fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, k), attngen.attention(q, k, k, kv_lens=[30, 7])))
        compiled = torch.compile(lambda a, b: attngen.sdpa(a, b, b, fallback="torch"), fullgraph=True, backend="aot_eager")
        turned = q.double().transpose(1, 2).contiguous().transpose(1, 2)
        before = sum(attngen.fallbacks.values())
        torch.testing.assert_close(compiled(turned, k.double()), own(turned, k.double(), k.double()))
        self.assertEqual(sum(attngen.fallbacks.values()), before + 1)

    def test_autocast(self):
        q = torch.randn(1, 2, 9, 16)
        bias = torch.randn(9, 9)
        compiled = torch.compile(lambda a, b: attngen.sdpa(a, b, b, bias), fullgraph=True, backend="aot_eager")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for k in (q, q.bfloat16(), q.half()):
                expected = own(q, k, k, bias)
                for call in (lambda: attngen.sdpa(q, k, k, bias), lambda: compiled(q, k)):
                    o = call()
                    self.assertEqual(o.dtype, expected.dtype)
                    torch.testing.assert_close(o, expected, rtol=2e-2, atol=2e-2)
        self.assertEqual(attngen.sdpa(q, q, q).dtype, torch.float32)

    def test_opcheck(self):
        q, k, v = torch.randn(2, 4, 20, 16), torch.randn(2, 2, 33, 16), torch.randn(2, 2, 33, 24)
        tests = ("test_schema", "test_faketensor")
        turned = torch.randn(2, 20, 4, 16).transpose(1, 2)
        for query in (q, turned):
            torch.library.opcheck(torch.ops.attngen.sdpa.default, (query, k, v, None, 0.0, True, None, True),
                                  test_utils=tests)
            out = torch.empty(2, 4, 20, 24)
            torch.library.opcheck(torch.ops.attngen.sdpa_out.default,
                                  (query, k, v, None, 0.0, False, None, True, out), test_utils=tests)
            torch.library.opcheck(torch.ops.attngen.attention.default, (query, k, v),
                                  dict(causal=True, lse=True, softcap=5.0), test_utils=tests)
            torch.library.opcheck(torch.ops.attngen.attention.default, (query, k, v), dict(o_dtype="f16"),
                                  test_utils=tests)
            torch.library.opcheck(torch.ops.attngen.attention_out.default, (out, torch.empty(2, 4, 20), query, k, v),
                                  test_utils=tests)
        for to in ("int8", "fp8", "q4_0"):
            for share in ("row", "head", "all"):
                torch.library.opcheck(torch.ops.attngen.quantise.default, (turned.repeat(1, 1, 1, 2), to, None, share), test_utils=tests)
        cache = torch.zeros(2, 2, 33, 16, dtype=torch.int8)
        torch.library.opcheck(torch.ops.attngen.quantise_out.default, (cache, torch.empty(2, 2, 33), k, "int8"), test_utils=tests)

    def test_compiled_decode(self):
        """Rows are appended to a cache of pages, and attended to, in a compiled function: its results, and what it writes to
        memory of the caller, have the bits that they have otherwise. Lengths change; one graph serves them all."""
        table = torch.randperm(9)[:6].reshape(2, 3).int()

        def step(q, new, slots, lens, keys, window, stored, scales, out):
            attngen.quantise(new, "int8", out=stored, out_scales=scales, slots=slots)
            o, lse = attngen.attention(q, stored, stored, causal=True, window=(window, 0), block_table=table, kv_lens=lens,
                                       kv_len=keys, k_scales=scales, v_scales=scales, out=out, lse=True)
            kept, found = attngen.quantise(q, "fp8", share="head")
            blocks, none = attngen.quantise(q, "q8_0")
            return o * 2, lse, kept, found, blocks.float() + (none is None)

        graphs = []

        def count(graph, inputs):
            graphs.append(graph)
            return graph.forward

        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=count)
        caches = [(torch.zeros(9, 2, 8, 32, dtype=torch.int8), torch.zeros(9, 2, 8), torch.empty(2, 4, 1, 32)) for _ in range(2)]
        for n in (0, 1, 2, 7, 8, 20):
            arguments = (torch.randn(2, 4, 1, 32), torch.randn(2, 2, 1, 32), table[:, n // 8, None].long() * 8 + n % 8,
                         torch.tensor([n + 1, n + 1]), n + 3, n + 5)
            for a, b in zip(*(f(*arguments, *cache) for f, cache in zip((compiled, step), caches))):
                self.assertTrue(torch.equal(a, b))
            for a, b in zip(*caches):
                self.assertTrue(torch.equal(a, b))
        self.assertEqual(len(graphs), 1)

    def test_compiled_plan(self):
        q, k = torch.randn(2, 4, 9, 16), torch.randn(2, 4, 30, 16)
        with attngen.Plan(head_dim=16, heads=4, max_batch=2, max_q_len=9, max_kv_len=30, dtype=torch.float32, causal=True) as plan:
            compiled = torch.compile(lambda a, b: plan(a, b, b, lse=True), fullgraph=True, backend="aot_eager")
            for a, b in zip(compiled(q, k), plan(q, k, k, lse=True)):
                self.assertTrue(torch.equal(a, b))
        compiled = torch.compile(lambda a, b: attngen.attention(a, b, b, o_dtype=torch.float16), fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, k), attngen.attention(q, k, k, o_dtype="float16")))

    def test_compile(self):
        def layer(x, w, mask):
            q, k, v = (x @ w).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
            o = attngen.sdpa(q, k, v, mask)
            o = o + attngen.sdpa(q, k, v, is_causal=True, scale=0.5)
            p, lse = attngen.attention(q, k, v, causal=True, window=(7, 0), lse=True)
            out = torch.empty_like(q)
            attngen.sdpa(q, k, v, out=out)
            return (o + p + out).transpose(1, 2).flatten(2) * 2, lse + 1

        compiled = torch.compile(layer, fullgraph=True)
        with torch.no_grad():
            for rows in (30, 30, 45):  # the third is compiled for any length
                x, w = torch.randn(2, rows, 64), torch.randn(64, 192) / 8
                mask = torch.rand(rows, rows) < 0.8
                mask.fill_diagonal_(True)
                for a, b in zip(compiled(x, w, mask), layer(x, w, mask)):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

    def test_compile_first(self):
        """Compiled before any other call, whichever is imported first."""
        for order in ("import torch, attngen", "import attngen, torch"):
            code = order + """
f = torch.compile(lambda q: attngen.sdpa(q, q, q, is_causal=True), fullgraph=True, backend='aot_eager')
q = torch.randn(1, 2, 8, 16)
torch.testing.assert_close(f(q), attngen.sdpa(q, q, q, is_causal=True))
"""
            subprocess.run([sys.executable, "-c", code], check=True)

    def test_compiled_gradient(self):
        f = torch.compile(lambda q: attngen.sdpa(q, q, q), fullgraph=True, backend="aot_eager")
        with self.assertRaisesRegex(Exception, "requires grad"):
            f(torch.randn(1, 2, 8, 16, requires_grad=True))
        q, rows = torch.randn(1, 2, 8, 16), torch.randn(1, 2, 8, 16, requires_grad=True)
        mask, sinks = torch.randn(8, 8, requires_grad=True), torch.randn(2, requires_grad=True)
        for body, x in ((lambda x: attngen.sdpa(q, q, q, x), mask), (lambda x: torch.ops.attngen.sdpa(q, q, q, x), mask),
                        (lambda x: torch.ops.attngen.sdpa(x, q, q), rows), (lambda x: attngen.attention(q, q, q, sinks=x), sinks),
                        (lambda x: torch.ops.attngen.attention(q, q, q, x), mask),
                        (lambda x: torch.ops.attngen.attention(q, q, q, sinks=x), sinks),
                        (lambda x: attngen.quantise(x, "int8"), rows), (lambda x: torch.ops.attngen.quantise(x, "int8"), rows)):
            torch._dynamo.reset()
            compiled = torch.compile(body, fullgraph=True, backend="aot_eager")
            with self.assertRaisesRegex(Exception, "requires grad"):
                compiled(x)
            with torch.no_grad():
                compiled(x)
        torch._dynamo.reset()


if __name__ == "__main__":
    unittest.main()
