"""attngen on NumPy arrays: values against the definition, strides, features, memory of results, refusals, plans."""
import copy
import os
import pickle
import subprocess
import sys
import threading
import unittest
import unittest.mock

import numpy as np

import attngen
from drawn import SEED, draw, rng
from reference import attend, check, masked, narrow


def dequantise(stored, scales, to):
    """The values that stored rows stand for, by the definitions of the types."""
    if to == "int8":
        return stored.astype(np.float32) * scales[..., None]
    if to == "fp8":
        sign, e, m = stored >> 7, ((stored >> 3) & 15).astype(np.int32), (stored & 7).astype(np.float32)
        size = np.where(e == 0, m * 2.0 ** -9, (1 + m / 8) * 2.0 ** (e - 7.0))
        return (np.where(sign, -size, size) * scales[..., None]).astype(np.float32)
    bytes_of = {"q8_0": 34, "q4_0": 18}[to]
    blocks = stored.reshape(stored.shape[:-1] + (-1, bytes_of))
    d = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float32)
    rest = np.ascontiguousarray(blocks[..., 2:])
    values = rest.view(np.int8) if to == "q8_0" else np.concatenate([rest & 15, rest >> 4], -1).astype(np.int8) - 8
    return (values * d).reshape(stored.shape[:-1] + (-1,)).astype(np.float32)


class Sdpa(unittest.TestCase):
    def test_values(self):
        for batch, heads, kv_heads, rows, keys, d, dv in ((1, 1, 1, 1, 1, 1, 1), (2, 4, 2, 100, 77, 64, 48),
                                                          (3, 6, 1, 1, 200, 72, 72), (1, 2, 2, 130, 257, 128, 128)):
            q, k, v = draw(batch, heads, rows, d), draw(batch, kv_heads, keys, d), draw(batch, kv_heads, keys, dv)
            o = attngen.sdpa(q, k, v, enable_gqa=True)
            self.assertEqual((o.shape, o.dtype), ((batch, heads, rows, dv), np.float32))
            check(o, q, k, v)
            check(attngen.sdpa(q, k, v, is_causal=True, enable_gqa=True), q, k, v, take=masked(rows, keys, True))
            check(attngen.sdpa(q, k, v, scale=0.3, enable_gqa=True), q, k, v, scale=0.3)

    def test_f16(self):
        q, k, v = (draw(2, 3, 70, 64, dtype=np.float16) for _ in range(3))
        o = attngen.sdpa(q, k, v)
        self.assertEqual(o.dtype, np.float16)
        check(o, q, k, v, "f16")

    def test_masks(self):
        q, k, v = draw(2, 4, 50, 32), draw(2, 4, 90, 32), draw(2, 4, 90, 32)
        for sides in ((50, 90), (1, 1, 50, 90), (2, 1, 1, 90), (2, 4, 50, 90), (1, 90), (4, 1, 90), (90,)):
            take = rng.random(sides) < 0.5
            take[..., :1] = True
            check(attngen.sdpa(q, k, v, take), q, k, v, take=take)
            bias = draw(*sides)
            check(attngen.sdpa(q, k, v, bias), q, k, v, bias=bias)
        wide = np.asfortranarray(rng.random((50, 90)) < 0.5)  # strides of any order
        check(attngen.sdpa(q, k, v, wide), q, k, v, take=wide)
        check(attngen.sdpa(q, k, v, wide[::-1, ::-1]), q, k, v, take=wide[::-1, ::-1])

    def test_masks_of_few_queries(self):
        """Rows of several heads meet the keys together: masks that they share, masks of their own, and keys far apart."""
        for kv_heads, rows, keys, d in ((8, 1, 100, 64), (2, 1, 77, 128), (1, 1, 530, 64), (2, 3, 70, 64)):
            q, k, v = draw(2, 8, rows, d), draw(2, kv_heads, keys, d), draw(2, kv_heads, keys, d)
            for sides in ((1, 1, 1, keys), (2, 1, rows, keys), (1, 8, rows, keys), (2, 8, 1, 3 * keys)):
                take, bias = rng.random(sides) < 0.5, draw(*sides)
                take[..., :1] = True
                if sides[-1] != keys:
                    take, bias = take[..., ::3], bias[..., ::3]
                check(attngen.sdpa(q, k, v, take, enable_gqa=True), q, k, v, take=take)
                check(attngen.sdpa(q, k, v, bias, enable_gqa=True), q, k, v, bias=bias)
                both = attngen.attention(q, k, v, bias=bias, mask=take, invariant=True)
                check(both, q, k, v, bias=bias, take=take)

    def test_row_without_keys(self):
        q, k, v = draw(1, 1, 3, 16), draw(1, 1, 5, 16), draw(1, 1, 5, 16)
        take = np.ones((3, 5), bool)
        take[1] = False
        o = attngen.sdpa(q, k, v, take)
        self.assertTrue((o[0, 0, 1] == 0).all())
        check(o, q, k, v, take=take)
        self.assertTrue((attngen.sdpa(q, k[:, :, :0], v[:, :, :0]) == 0).all())
        self.assertEqual(attngen.sdpa(q[:, :, :0], k, v).shape, (1, 1, 0, 16))
        self.assertEqual(attngen.sdpa(q[:0], k[:0], v[:0]).shape, (0, 1, 3, 16))

    def test_dimensions(self):
        q, k, v = draw(2, 3, 4, 20, 16), draw(2, 3, 4, 30, 16), draw(2, 3, 4, 30, 16)
        whole = attngen.sdpa(q, k, v)
        self.assertEqual(whole.shape, q.shape)
        for a in range(2):
            check(whole[a], q[a], k[a], v[a])
        np.testing.assert_array_equal(attngen.sdpa(q[0, 0], k[0, 0], v[0, 0]), whole[0, 0])
        np.testing.assert_array_equal(attngen.sdpa(q[1, 2, 3], k[1, 2, 3], v[1, 2, 3]), whole[1, 2, 3])
        mask = rng.random((2, 3, 1, 20, 30)) < 0.7
        with self.assertRaisesRegex(attngen.Unsupported, "leading sides of query"):
            attngen.sdpa(q[:, ::2], k[:, ::2], v[:, ::2])
        check(attngen.sdpa(q, k, v, mask)[1], q[1], k[1], v[1], take=mask[1])

    def test_strides(self):
        """Any strides of batch, head and row, negative ones too; O is dense, in query's order; out may have any."""
        x = draw(2, 60, 3, 5, 32)  # [batch, rows, q k v, heads, elements], as one projection gives them
        q, k, v = (x[:, :, i].swapaxes(1, 2) for i in range(3))
        o = attngen.sdpa(q, k, v)
        check(o, q, k, v)
        self.assertTrue(o.swapaxes(1, 2).flags.c_contiguous)
        np.testing.assert_array_equal(o, attngen.sdpa(*(np.ascontiguousarray(a) for a in (q, k, v))))
        check(attngen.sdpa(q[:, :, ::2], k[:, :, ::-1], v[:, :, ::-1]), q[:, :, ::2], k, v)
        room = np.full((2, 5, 64, 48), np.nan, np.float32)
        out = room[:, :, 2:62, 8:40]
        self.assertIs(attngen.sdpa(q, k, v, out=out), out)
        np.testing.assert_array_equal(out, o)
        self.assertTrue(np.isnan(room[:, :, :2]).all() and np.isnan(room[:, :, :, :8]).all()
                        and np.isnan(room[:, :, :, 40:]).all() and np.isnan(room[:, :, 62:]).all())
        shared = np.broadcast_to(k[:1, :1], k.shape)
        check(attngen.sdpa(q, shared, v), q, shared, v)
        check(attngen.sdpa(q, k[:1], v[:1]), q, np.repeat(k[:1], 2, 0), np.repeat(v[:1], 2, 0))
        for one, other in ((k[:1], v), (k, v[:1]), (k[:, :1], v), (k, v[:, :1]), (k[:1, :1], v), (k[:1], v[:, :1])):
            check(attngen.sdpa(q, one, other), q, *(np.broadcast_to(a, k.shape) for a in (one, other)))

    def test_results_lie_apart(self):
        from attngen import _overlap
        from attngen._arrays import NUMPY
        random, base = np.random.default_rng(SEED), np.zeros(1000, np.float32)  # four sides of 5 span 960 at most

        def part():
            sides = random.integers(1, 6, random.integers(1, 5))
            strides = random.choice([-60, -12, -4, -1, 0, 1, 2, 3, 4, 8, 12, 16, 20, 60], len(sides))
            ends = strides * (sides - 1)
            first = random.integers(-ends[ends < 0].sum(), base.size - ends[ends > 0].sum())
            a = np.lib.stride_tricks.as_strided(base[first:], sides, 4 * strides)
            return a, NUMPY.view(a)

        found = [0, 0]
        for _ in range(400):
            (a, x), (b, y) = part(), part()
            shared = _overlap.share(_overlap.extent_of(x), x.pointer, _overlap.extent_of(y), y.pointer)
            self.assertEqual(shared, np.shares_memory(a, b), (x, y))
            places = sum((np.arange(n) * s).reshape([-1 if i == at else 1 for at in range(len(x.shape))])
                         for i, (n, s) in enumerate(zip(x.shape, x.strides)))
            self.assertEqual(_overlap.shares_itself(x), len(np.unique(places)) < places.size, x)
            found[shared] += 1
        self.assertGreater(min(found), 10)
        rows = np.zeros((1000, 8), np.float32)
        apart = _overlap.Apart({"o": NUMPY.view(rows[:, :4])}, {"q": NUMPY.view(rows[:, 4:])})
        for i in range(2 * _overlap.MOST_KNOWN + 1):  # what is known of distances takes no more memory with every new one
            apart.check((0, 16 + 32 * i))
            self.assertIn(len(apart.known), range(1, _overlap.MOST_KNOWN + 1))
        with self.assertRaises(attngen.Invalid):
            apart.check((0, 12))

    def test_configure(self):
        """Calls that were prepared before do as they are told now; the cache cannot move while a plan may use it."""
        from attngen import _plans
        q, before = draw(1, 4, 30, 16), dict(_plans.defaults)
        attngen.sdpa(q, q, q)
        self.assertTrue(_plans._plans and any(_plans._caches))
        try:
            attngen.configure(threads=1, rigor="measure")
            self.assertFalse(_plans._plans or any(_plans._caches))
            self.assertEqual((_plans.defaults["threads"], _plans.defaults["rigor"]), (1, "measure"))
            with self.assertRaisesRegex(attngen.Invalid, "cache_dir is set after a plan was made"):
                attngen.configure(cache_dir="")
        finally:
            _plans.defaults.update(before)
            _plans.forget()

    def test_recycled_results(self):
        """Large results have memory of earlier ones that are gone; what is kept has a bound, also in a child and in threads."""
        from attngen import _memory
        k = draw(1, 4, 20, 64)
        q = [draw(1, 4, rows, 64) for rows in (1024, 1100, 2100, 9000)]  # 1 MiB and more, and of large pages; two share blocks
        expected = [attngen.sdpa(x, k, k, out=np.empty_like(x)) for x in q]
        first = attngen.sdpa(q[0], k, k)
        part, at = first[0, 1:, 5:], first.__array_interface__["data"][0]
        del first
        self.assertNotEqual(attngen.sdpa(-q[0], k, k).__array_interface__["data"][0], at)
        np.testing.assert_array_equal(part, expected[0][0, 1:, 5:])
        del part
        self.assertEqual(attngen.sdpa(q[0], k, k).__array_interface__["data"][0], at)

        def loop():
            for i in range(40):
                kept = [attngen.sdpa(x, k, k) for x in q[i % 3:]]
                np.testing.assert_array_equal(kept[0], expected[i % 3])

        failed = []

        def guarded():
            try:
                loop()
            except BaseException as error:
                failed.append(error)

        try:
            attngen.configure(kept_bytes=8 << 20)
            threads = [threading.Thread(target=guarded) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(failed, [])
            many = [attngen.sdpa(q[0], k, k) for _ in range(20)]
            self.assertEqual(len({o.__array_interface__["data"][0] for o in many}), 20)
            del many
            self.assertTrue(0 < _memory._held <= 8 << 20)
            self.assertEqual(_memory._held, sum(size * len(places) for size, places in _memory._freed.items()))
            one, held = attngen.sdpa(q[0], k, k), _memory._held
            with _memory._lock:  # as where the end of an array interrupts a call
                del one
                self.assertEqual(_memory._held, held)
                child = os.fork()
                if child == 0:
                    try:
                        loop()
                        os._exit(0)
                    except BaseException:
                        os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            real, _memory.mmap.mmap = _memory.mmap.mmap, unittest.mock.Mock(side_effect=OSError("no more mappings"))
            try:
                attngen.configure(kept_bytes=8 << 20)
                loop()
            finally:
                _memory.mmap.mmap = real
            attngen.configure(kept_bytes=0)
            loop()
            self.assertEqual(_memory._held, 0)
            with self.assertRaisesRegex(attngen.Invalid, "kept_bytes is -1"):
                attngen.configure(kept_bytes=-1)
        finally:
            attngen.configure(kept_bytes=1 << 27)

    def test_results_at_the_end(self):
        """Python ends in silence while results are alive, in cycles and in names of modules."""
        program = ("import attngen, numpy\nq = numpy.ones((1, 4, 2000, 64), numpy.float32)\nk = q[:, :, :9]\n"
                   "o = [attngen.sdpa(q, k, k)]\no.append(o)\nattngen.o = numpy.o = attngen.sdpa(q, k, k)\n")
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
        said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        self.assertEqual((said.returncode, said.stdout), (0, b""))

    def test_overlap(self):
        q, k, v = (draw(2, 4, 16, 32) for _ in range(3))
        lse = np.zeros((2, 4, 16), np.float32)
        packed = draw(2, 16, 4, 4, 32)  # [batch, row, Q K V O, head, element]
        parts = [packed[:, :, i].transpose(0, 2, 1, 3) for i in range(4)]
        rows = draw(2, 4, 40, 32)
        expected = attngen.sdpa(*parts[:3])
        for _ in range(2):  # parts whose bounds cross, but which share nothing
            np.testing.assert_array_equal(attngen.sdpa(*parts[:3], out=parts[3]), expected)
            attngen.attention(q, rows[:, :, 16:32], v, out=rows[:, :, :16], lse=lse)
        mask = draw(1, 4, 16, 16)
        plan = attngen.Plan(head_dim=32, heads=4, max_batch=2, max_q_len=16, max_kv_len=16)
        stairs = np.lib.stride_tricks.as_strided(np.zeros(4096, np.float32), q.shape, (8192, 2048, 64, 4))
        for call, why in ((lambda: attngen.sdpa(q, k, v, out=q), "out shares memory with query"),
                          (lambda: attngen.sdpa(q, rows[:, :, 15:31], v, out=rows[:, :, :16]), "out shares memory with key"),
                          (lambda: attngen.sdpa(*(x[:1, ..., :16] for x in (q, k, v)), mask, out=mask), "with attn_mask"),
                          (lambda: attngen.attention(*parts[:3], out=parts[2]), "out shares memory with v;"),
                          (lambda: attngen.attention(q, k, v, lse=k.reshape(-1)[7:135].reshape(2, 4, 16)), "lse .* with k;"),
                          (lambda: attngen.attention(q, k, v, lse=lse, sinks=lse.reshape(-1)[:4]), "lse .* with sinks"),
                          (lambda: plan(q, k, v, out=v), "out shares memory with v;"),
                          (lambda: attngen.sdpa(q, k, v, out=stairs), "elements share memory"),
                          (lambda: attngen.quantise(q, "int8", out=q.view(np.int8)[..., 64:96]), "out shares memory with x")):
            for _ in range(2):
                self.assertRaisesRegex(attngen.Invalid, why, call)

    def test_refusals(self):
        q, k, rows = draw(1, 4, 8, 16), draw(1, 2, 8, 16), draw(8, 4, 16)
        for words, call in (
                ("query has 4 heads and key has 2; expected the same number, or enable_gqa=True", lambda: attngen.sdpa(q, k, k)),
                ("dropout_p is 0.1; expected 0.0", lambda: attngen.sdpa(q, q, q, dropout_p=0.1)),
                ("expected one of them, as for PyTorch",
                 lambda: attngen.sdpa(q, q, q, np.ones((8, 8), bool), is_causal=True)),
                ("q has type float64; expected float32 or float16 or bfloat16",
                 lambda: attngen.sdpa(*(3 * [q.astype(np.float64)]))),
                ("stride of 2 elements within a row", lambda: attngen.sdpa(q[..., ::2], q[..., ::2], q[..., ::2])),
                ("sides that are 1 or those of", lambda: attngen.sdpa(q, q, q, np.ones((3, 8), bool))),
                (r"out is \[1, 2, 8, 16\]; expected \[1, 4, 8, 16\]", lambda: attngen.sdpa(q, q, q, out=k)),
                ("head_dim is 600; expected 1..576", lambda: attngen.sdpa(*(3 * [draw(1, 1, 1, 600)]))),
                ("query is of type builtins.list; expected a NumPy array", lambda: attngen.sdpa([1.0], q, q)),
                ("v is of type builtins.list; expected a NumPy array", lambda: attngen.attention(q, q, [1.0])),
                (r"v is \[1, 4, 8, 0\]; expected a last side", lambda: attngen.sdpa(q, q, q[..., :0])),
                (r"window is \(3,\); expected two numbers", lambda: attngen.attention(q, q, q, window=(3,))),
                ("window is 1.5; expected a whole number", lambda: attngen.attention(q, q, q, window=(1.5, 0))),
                ("q_offset is 9223372036854775808; expected a number of less than 2.63 in size",
                 lambda: attngen.attention(q, q, q, causal=True, q_offset=2 ** 63)),
                ("max_q_len is 18446744073709551617; expected a number",
                 lambda: attngen.Plan(head_dim=16, heads=4, max_q_len=2 ** 64 + 1, max_kv_len=1)),
                ("dtype is 'int8'; expected one of f32, f16, bf16$",
                 lambda: attngen.Plan(dtype="int8", head_dim=16, heads=4, max_q_len=1, max_kv_len=1)),
                ("threads is 1025; expected 0..1024", lambda: attngen.configure(threads=1025)),
                ("openmp is 'no'; expected True or False", lambda: attngen.configure(openmp="no")),
                ("rigor is 'quick'; expected", lambda: attngen.configure(rigor="quick")),
                ("compiler is 'clang'; expected", lambda: attngen.configure(compiler="clang")),
                ("fallback is 'jax'; expected 'torch'", lambda: attngen.configure(fallback="jax")),
                ("time_limit is 'x'; expected a number", lambda: attngen.configure(time_limit="x")),
                ("is_causal is 'no'; expected True or False", lambda: attngen.sdpa(q, q, q, is_causal="no")),
                ("scale is 'x'; expected a number", lambda: attngen.sdpa(q, q, q, scale="x")),
                (r"scale is -1e\+300; expected a size of at most 3.4e38", lambda: attngen.sdpa(q, q, q, scale=-1e300)),
                ("softcap is 1000*; expected a number", lambda: attngen.attention(q, q, q, softcap=10 ** 400)),
                ("fallback is 'jax'; expected None or 'torch'", lambda: attngen.sdpa(q, q, q, fallback="jax")),
                ("key is of type builtins.NoneType; expected", lambda: attngen.sdpa(q, None, q)),
                ("query is a masked array; expected a plain one", lambda: attngen.sdpa(np.ma.array(q), q, q)),
                ("kv_lens: a list holds numbers of type float64; expected whole",
                 lambda: attngen.attention(q, q, q, kv_lens=[1.5])),
                ("kv_lens: .*inhomogeneous", lambda: attngen.attention(q, q, q, kv_lens=[[1], [1, 2]])),
                (r"scale is array\(\[1., 2.\]\); expected a number", lambda: attngen.sdpa(q, q, q, scale=np.array([1.0, 2.0]))),
                (r"softcap is array\(\[1., 2.\]\); expected a number",
                 lambda: attngen.attention(q, q, q, softcap=np.array([1.0, 2.0]))),
                (r"causal is array\(\[ True, False\]\); expected True",
                 lambda: attngen.attention(q, q, q, causal=np.array([True, False]))),
                (r"align is \['top-left'\]; expected a string", lambda: attngen.attention(q, q, q, align=["top-left"])),
                ("kv_len is 9; expected at most 8, the rows of k$", lambda: attngen.attention(q, q, q, kv_len=9)),
                ("q_len is 7 and q has 8 rows", lambda: attngen.attention(q, q, q, q_len=7)),
                ("q_starts ends at 9; expected at most 8, the rows of q",
                 lambda: attngen.attention(rows, rows, rows, q_starts=[0, 4, 9], kv_starts=[0, 4, 8])),
                ("kv_starts ends at 16; expected at most 8, the rows of k",
                 lambda: attngen.attention(rows, rows, rows, q_starts=[0, 4, 8], kv_starts=[0, 8, 16])),
                ("kv_len is 17; expected at most 16, the rows of k in a sequence's pages",
                 lambda: attngen.attention(q, q, q, block_table=[[0, 0]], kv_lens=[9], kv_len=17)),
                ("shape is '1,2'; expected B,Hq,Hkv", lambda: attngen.tune("1,2")),
                ("shape is .*1.5.; expected B,Hq,Hkv", lambda: attngen.tune((1, 1, 1, 1, 1, 1.5))),
                ("elements and rows of k", lambda: attngen.sdpa(q, q[..., :8], q)),
                ("head_dim_v is 512|rows of q have|dtype is", lambda: attngen.attention(q, q, q, o_dtype="f8"))):
            with self.assertRaisesRegex(attngen.Error, words):
                call()
        scale = np.array(0.25)  # which may change between two calls
        for attend in (attngen.sdpa, attngen.attention):
            for value in (0.25, 2.5):
                scale[...] = value
                np.testing.assert_array_equal(attend(q, q, q, scale=scale), attend(q, q, q, scale=value))
        fixed = {"out": np.empty_like(q), "lse": np.empty(q.shape[:-1], np.float32)}
        attngen.attention(q, q, q, **fixed)  # so that the call is prepared already when they are read-only
        for name, array in fixed.items():
            array.flags.writeable = False
            with self.assertRaisesRegex(attngen.Invalid, name + " is read-only"):
                attngen.attention(q, q, q, **{name: array})
        self.assertTrue(issubclass(attngen.Invalid, ValueError))
        self.assertIsNone(attngen.supports(head_dim=64, heads=8, max_q_len=9, max_kv_len=9))
        self.assertIn("expected heads to be a multiple",
                      attngen.supports(head_dim=64, heads=8, kv_heads=3, max_q_len=9, max_kv_len=9))


class Attention(unittest.TestCase):
    def test_features(self):
        q, k, v = draw(2, 4, 40, 64), draw(2, 2, 90, 64), draw(2, 2, 90, 64)
        lens, slopes, sinks = np.array([90, 33]), abs(draw(4)), draw(4)
        o, lse = attngen.attention(q, k, v, lse=True)
        check(o, q, k, v, lse=lse)
        for name, options, expected in (
                ("bottom right", dict(causal=True), dict(take=masked(40, 90, True, 50))),
                ("top left", dict(causal=True, align="top-left"), dict(take=masked(40, 90, True))),
                ("offset", dict(causal=True, q_offset=-7), dict(take=masked(40, 90, True, -7))),
                ("window", dict(window=(9, 5)), dict(take=masked(40, 90, False, 50, (9, 5)))),
                ("open window", dict(window=(-1, 5), align="top-left"), dict(take=masked(40, 90, False, 0, (-1, 5)))),
                ("softcap", dict(softcap=2.5), dict(softcap=2.5)),
                ("alibi", dict(alibi_slopes=slopes), dict(slopes=slopes, offset=50)),
                ("sinks", dict(sinks=sinks), dict(sinks=sinks)),
                ("several", dict(causal=True, q_offset=3, softcap=5.0, sinks=sinks, scale=0.2),
                 dict(take=masked(40, 90, True, 3), softcap=5.0, sinks=sinks, scale=0.2))):
            with self.subTest(name):
                o, lse = attngen.attention(q, k, v, lse=True, **options)
                check(o, q, k, v, lse=lse, **expected)
        take = np.stack([masked(40, 90, keys=n) for n in lens])[:, None]
        for given in (lens, [90, 33]):
            check(attngen.attention(q, k, v, kv_lens=given), q, k, v, take=take)
        mine = np.empty((2, 4, 40), np.float32)
        self.assertIs(attngen.attention(q, k, v, lse=mine)[1], mine)
        np.testing.assert_array_equal(
            attngen.attention(*(np.ascontiguousarray(a.swapaxes(1, 2)) for a in (q, k, v)), layout="bshd"),
            attngen.attention(q, k, v).swapaxes(1, 2))

    def test_types(self):
        q = draw(1, 2, 33, 32)
        k, v = draw(1, 2, 44, 32, dtype=np.float16), draw(1, 2, 44, 32, dtype=np.float16)
        o = attngen.attention(q, k, v)
        self.assertEqual(o.dtype, np.float32)
        check(o, q, k, v)
        o = attngen.attention(q, k, v, o_dtype="f16")
        self.assertEqual(o.dtype, np.float16)
        check(o, q, k, v, "f16")

    def test_narrow(self):
        """Stored values are those of a plain model, and what they stand for is what is attended to."""
        q, k, v = draw(2, 4, 9, 64), draw(2, 2, 50, 64), draw(2, 2, 50, 64)
        for to in ("int8", "fp8", "q8_0", "q4_0"):
            for share in ("row", "head", "all"):
                with self.subTest(to=to, share=share):
                    stored, scales = zip(*(attngen.quantise(x, to, share=share) for x in (k, v)))
                    plain = [dequantise(s, scale, to) for s, scale in zip(stored, scales)]
                    self.assertLess(max(abs(p - x).max() for p, x in zip(plain, (k, v))), 0.6 if to == "q4_0" else 0.3)
                    kind = dict(kv_dtype=to if to != "int8" else None, k_scales=scales[0], v_scales=scales[1])
                    check(attngen.attention(q, *stored, causal=True, **kind), q, *plain, take=masked(9, 50, True, 41))
                    again, _ = attngen.quantise(k[:, :, 10:20], to, scales=None if scales[0] is None else
                                                np.broadcast_to(scales[0], (2, 2, 50))[:, :, 10:20])
                    np.testing.assert_array_equal(again, stored[0][:, :, 10:20])
        plan = attngen.Plan(head_dim=64, heads=4, kv_heads=2, max_batch=2, max_q_len=9, max_kv_len=50, kv_dtype="q4_0")
        check(plan(q, *stored), q, *plain)
        for to, width in (("int8", 64), ("fp8", 64), ("q8_0", 68), ("q4_0", 36)):  # a step that has no new rows
            for none in (k[:, :, :0], k[:0], k[:, :0]):
                self.assertEqual(attngen.quantise(none, to)[0].shape, (*none.shape[:3], width))
        with self.assertRaisesRegex(attngen.Invalid, "kv_dtype is None and k has type uint8; expected one of fp8, q8_0, q4_0"):
            attngen.attention(q, *stored)
        with self.assertRaisesRegex(attngen.Invalid, "k_scales"):
            attngen.attention(q, k.astype(np.int8), v.astype(np.int8))
        with self.assertRaisesRegex(attngen.Invalid, "a multiple of 18"):
            attngen.attention(q, stored[0][..., :-1], stored[1][..., :-1], kv_dtype="q4_0")

    def test_cache_that_grows(self):
        """Rows go to their slots: what is stored in pages is, bit by bit, what is stored in order."""
        q, k = draw(2, 4, 1, 64), draw(2, 2, 30, 64)
        table = np.array([[3, 0, 5, 1], [6, 2, 7, 4]], np.int32)
        for to in ("int8", "fp8", "q8_0", "q4_0"):
            whole, scales = attngen.quantise(k, to)
            pages = np.zeros((8, 2, 8) + whole.shape[3:], whole.dtype)
            page_scales = None if scales is None else np.zeros((8, 2, 8), np.float32)
            for first, n in ((0, 20), (20, 9), (29, 1)):  # a prompt, more of it, a token
                at = np.arange(first, first + n)
                slots = np.ascontiguousarray(table[:, at // 8] * 8 + at % 8, np.int64)
                slots[1, :1] = slots[1, :1] if first else -1  # padding, which is left out
                got = attngen.quantise(k[:, :, first:first + n], to, out=pages, out_scales=page_scales, slots=slots)
                self.assertTrue(got[0] is pages and got[1] is page_scales)
            for b, first in ((0, 0), (1, 1)):
                at = np.arange(first, 30)
                page, row = table[b, at // 8], at % 8
                np.testing.assert_array_equal(pages[page, :, row], whole[b, :, at])
                if scales is not None:
                    np.testing.assert_array_equal(page_scales[page, :, row], scales[b][:, at].T)
            kind = dict(kv_dtype=None if to == "int8" else to)
            paged = attngen.attention(q[:1], pages, pages, block_table=table[:1], kv_lens=[30], kv_len=30, k_scales=page_scales,
                                      v_scales=page_scales, **kind)
            row = [None if scales is None else scales[:1]] * 2
            plain = attngen.attention(q[:1], whole[:1], whole[:1], k_scales=row[0], v_scales=row[1], **kind)
            np.testing.assert_allclose(paged, plain, atol=1e-5)
        cache = np.zeros((8, 2, 8, 68), np.uint8)
        with self.assertRaisesRegex(attngen.Invalid, r"slots has 64 at \[0, 0\]; expected less than 64"):
            attngen.quantise(k[:, :, :1], "q8_0", out=cache, slots=np.full((2, 1), 64))
        with self.assertRaisesRegex(attngen.Invalid, "expected the cache that they belong to"):
            attngen.quantise(k[:, :, :1], "q8_0", slots=np.zeros((2, 1), np.int64))
        with self.assertRaisesRegex(attngen.Invalid, "expected those of the cache"):
            attngen.quantise(k[:, :, :1], "int8", out=np.zeros((8, 2, 8, 64), np.int8), slots=np.zeros((2, 1), np.int64))
        with self.assertRaisesRegex(attngen.Invalid, "out is .* of uint8"):
            attngen.quantise(k, "q8_0", out=cache)
        with self.assertRaisesRegex(attngen.Invalid, "with contiguous rows"):
            attngen.quantise(k[..., :2], "int8", out=np.zeros((*k.shape[:3], 4), np.int8)[..., ::2])

    def test_packed(self):
        starts, lengths = np.array([0, 5, 5, 40]), (5, 0, 35)
        q, k, v = draw(40, 4, 32), draw(40, 2, 32), draw(40, 2, 32)
        o, lse = attngen.attention(q, k, v, q_starts=starts, kv_starts=starts, q_len=35, kv_len=35, causal=True,
                                   lse=True)
        self.assertEqual((o.shape, lse.shape), ((40, 4, 32), (4, 40)))
        for b, n in enumerate(lengths):
            rows = slice(starts[b], starts[b + 1])
            part = [a[rows].swapaxes(0, 1)[None] for a in (q, k, v)]
            check(o[rows].swapaxes(0, 1)[None], *part, take=masked(n, n, True), lse=lse[None, :, rows])

    def test_paged(self):
        pages, size, lens = 7, 16, np.array([33, 12])
        k, v, q = draw(pages, 2, size, 32), draw(pages, 2, size, 32), draw(2, 4, 3, 32)
        table = np.array([[6, 0, 3], [2, -1, -1]], np.int32)
        o = attngen.attention(q, k, v, block_table=table, kv_lens=lens, causal=True)
        for b, n in enumerate(lens):
            whole = [np.concatenate([a[t] for t in table[b] if t >= 0], 1)[None, :, :n] for a in (k, v)]
            check(o[b:b + 1], q[b:b + 1], *whole, take=masked(3, n, True, n - 3))

    def test_plan(self):
        plan = attngen.Plan(head_dim=32, heads=4, kv_heads=2, max_batch=2, max_q_len=64, max_kv_len=128, causal=True,
                            threads=1)
        self.assertEqual((plan.device, plan.threads, plan.compiler, plan.cached), ("cpu", 1, "tcc", False))
        for rows, keys in ((1, 128), (64, 64), (3, 100)):
            q, k, v = draw(2, 4, rows, 32), draw(2, 2, keys, 32), draw(2, 2, keys, 32)
            out = np.empty_like(q)
            self.assertIs(plan(q, k, v, out=out), out)
            check(out, q, k, v, take=masked(rows, keys, True, keys - rows))
        with self.assertRaisesRegex(attngen.Invalid, "kv_len is 129; expected 0..128"):
            plan(q, draw(2, 2, 129, 32), draw(2, 2, 129, 32))
        with self.assertRaisesRegex(attngen.Invalid, "heads is 2 in the call and 4 in the plan"):
            plan(q[:, :2], k, v)
        with self.assertRaisesRegex(attngen.Invalid, "softcap is True in the call and False in the plan"):
            plan(q, k, v, softcap=1.0)
        with self.assertRaisesRegex(attngen.Invalid, "variant is 5; expected the name of a kernel"):
            attngen.Plan(head_dim=32, heads=4, max_q_len=1, max_kv_len=1, variant=5)
        again = attngen.Plan(head_dim=32, heads=4, kv_heads=2, max_batch=2, max_q_len=64, max_kv_len=128, causal=True,
                             variant=plan.variant)
        np.testing.assert_array_equal(again(q, k, v), plan(q, k, v))
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "cannot be copied or pickled; expected one made where it is used"):
                copied(again)
        with attngen.Plan(head_dim=32, heads=4, max_q_len=1, max_kv_len=1) as inside:
            inside(q[:1, :, :1], q[:1, :, :1], q[:1, :, :1])
        with self.assertRaisesRegex(attngen.Invalid, "the plan is closed"):
            inside(q[:1, :, :1], q[:1, :, :1], q[:1, :, :1])
        wide = draw(2, 4, 64, 32), draw(2, 2, 128, 32), draw(2, 2, 128, 32)
        runs, started = [], threading.Event()

        def execute():
            try:
                while len(runs) < 100000:
                    runs.append(plan(*wide))
                    started.set()
            except attngen.Invalid:  # the plan is closed
                pass

        worker = threading.Thread(target=execute)
        worker.start()
        started.wait()
        plan.close()  # while the other thread may be executing it
        worker.join()
        with self.assertRaisesRegex(attngen.Invalid, "the plan is closed"):
            plan(q, k, v)
        exact = attngen.Plan(head_dim=32, heads=4, kv_heads=2, max_batch=2, max_q_len=64, max_kv_len=128,
                             device="reference", causal=True)
        o, _, _ = attend(q, k, v, take=masked(3, 100, True, 97))
        self.assertLess(np.abs(exact(q, k, v) - o).max(), 1e-6)
        self.assertEqual((exact.device, exact.compiler), ("reference", "reference"))
        self.assertLess(np.abs(again(q, k, v) - o).max(), 1e-5)

    def test_tune(self):
        plan = attngen.tune("1,2,2,64,64,16", time_limit=0.5, threads=1)
        found = attngen.Plan(head_dim=16, heads=2, max_q_len=64, max_kv_len=64, threads=1)
        self.assertTrue(found.cached)
        self.assertEqual(found.variant, plan.variant)
        with self.assertRaisesRegex(attngen.Invalid, "rigor is 'estimate', which times nothing; expected 'measure' or 'patient'"):
            attngen.tune("1,2,2,64,64,16", rigor="estimate")

    def test_types_by_other_names(self):
        sides = dict(head_dim=16, heads=2, max_q_len=9, max_kv_len=9)
        short = attngen.Plan(dtype="f16", o_dtype="f32", bias="f32", kv_dtype="int8", **sides).variant
        for half, single, byte in (("float16", "float32", "int8"), (np.float16, np.float32, np.int8),
                                   (np.dtype("float16"), np.dtype("float32"), np.dtype("int8"))):
            self.assertEqual(attngen.Plan(dtype=half, o_dtype=single, bias=single, kv_dtype=byte, **sides).variant, short)
            self.assertIsNone(attngen.supports(dtype=half, o_dtype=single, bias=single, kv_dtype=byte, **sides))
        q = draw(1, 2, 9, 16)
        self.assertEqual(attngen.attention(q, q, q, o_dtype=np.float16).dtype, np.float16)
        self.assertEqual(attngen.attention(q, q, q, o_dtype="float16").dtype, np.float16)
        for wrong in (np.float64, "half", 7):
            with self.assertRaisesRegex(attngen.Invalid, "dtype is .*; expected one of f32, f16, bf16"):
                attngen.Plan(dtype=wrong, **sides)
            with self.assertRaisesRegex(attngen.Invalid, "o_dtype is .*; expected one of f32, f16, bf16"):
                attngen.attention(q, q, q, o_dtype=wrong)


if __name__ == "__main__":
    unittest.main()
