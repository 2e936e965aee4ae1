"""attngen among others, on NumPy arrays: threads, fork, DLPack, imports, lengths that grow, and the program's verbs."""
import ctypes
import os
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np

import attngen
from drawn import draw
from reference import check


class Surroundings(unittest.TestCase):
    def test_threads_at_once(self):
        q, k, v = draw(1, 4, 128, 32), draw(1, 4, 128, 32), draw(1, 4, 128, 32)
        expected, wrong = attngen.sdpa(q, k, v), []

        def work():
            for _ in range(50):
                if not (attngen.sdpa(q, k, v) == expected).all():
                    wrong.append(1)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        self.assertEqual(wrong, [])

    def test_fork(self):
        q, k, v = draw(1, 4, 300, 64), draw(1, 4, 300, 64), draw(1, 4, 300, 64)
        expected = attngen.sdpa(q, k, v)
        child = os.fork()
        if child == 0:
            os._exit(0 if (attngen.sdpa(q, k, v) == expected).all() else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_fork_while_a_plan_is_made(self):
        """A child does not wait for the thread of its parent that makes a plan."""
        from attngen import _c, _plans
        q = draw(1, 2, 5, 24)
        with _plans._lock, _c._lock:  # as that thread has them
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                attngen.attention(q, q, q, softcap=3.0)
                os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_many_lengths(self):
        """A growing cache needs few plans, and old calls are let go."""
        from attngen import _call, _plans
        q, k, v = draw(1, 2, 1, 16), draw(1, 2, 300, 16), draw(1, 2, 300, 16)
        before, most = len(_plans._plans), _plans.MOST_CALLS
        _plans.MOST_CALLS = 50
        try:
            for n in range(1, 300):
                check(attngen.sdpa(q, k[:, :, :n], v[:, :, :n]), q, k[:, :, :n], v[:, :, :n])
                self.assertLessEqual(len(_call._sdpa_calls), 50)
        finally:
            _plans.MOST_CALLS = most
        self.assertLessEqual(len(_plans._plans) - before, 4)

    def test_dlpack(self):
        class Other:
            """An array of a library that only speaks DLPack."""

            def __init__(self, a):
                self.a = a

            def __dlpack__(self, stream=None):
                return self.a.__dlpack__()

            def __dlpack_device__(self):
                return self.a.__dlpack_device__()

        q, k, v = draw(1, 2, 9, 16), draw(1, 2, 11, 16).swapaxes(0, 1).copy().swapaxes(0, 1), draw(1, 2, 11, 16)
        expected = attngen.sdpa(q, k, v)
        np.testing.assert_array_equal(attngen.sdpa(Other(q), Other(k), Other(v)), expected)
        out = np.empty_like(q)
        attngen.sdpa(Other(q), Other(k), Other(v), out=Other(out))
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(attngen.attention(Other(q), Other(k), Other(v), causal=True),
                                      attngen.attention(q, k, v, causal=True))

    def test_dlpack_1(self):
        """Capsules of DLPack 1: arrays that may not be written to, bytes that are float8, versions to come."""
        from attngen import _arrays
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes, new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object

        class Other:
            code, major = 2, 1

            def __init__(self, a, flags=0):
                sides = ctypes.c_int64 * a.ndim
                self.a, self.shape, self.strides = a, sides(*a.shape), sides(*(s // a.itemsize for s in a.strides))
                self.held = _arrays._DLVersioned(major=self.major, flags=flags, tensor=_arrays._DLTensor(
                    data=a.ctypes.data, device_type=1, ndim=a.ndim, code=self.code, bits=8 * a.itemsize, lanes=1,
                    shape=self.shape, strides=self.strides))

            def __dlpack__(self, *, max_version=None):
                if max_version is None:
                    raise BufferError("this library speaks DLPack 1 alone")
                return new(ctypes.addressof(self.held), b"dltensor_versioned", None)

            def __dlpack_device__(self):
                return 1, 0

        class Eight(Other):
            code = 10  # kDLFloat8_e4m3fn

        class Next(Other):
            major = 2

        class Closed(Other):
            def __dlpack__(self, **options):
                raise BufferError("the memory is elsewhere")

        q, k = draw(1, 2, 9, 16), draw(1, 2, 11, 16)
        expected, out = attngen.sdpa(q, k, k), np.empty_like(q)
        attngen.sdpa(Other(q, 1), Other(k, 1), Other(k, 1), out=Other(out))
        np.testing.assert_array_equal(out, expected)
        stored, scales = attngen.quantise(k, "fp8")
        np.testing.assert_array_equal(
            attngen.attention(Other(q), Eight(stored), Eight(stored), k_scales=Other(scales), v_scales=Other(scales)),
            attngen.attention(q, stored, stored, kv_dtype="fp8", k_scales=scales, v_scales=scales))
        for words, call in (("out is read-only", lambda: attngen.sdpa(Other(q), Other(k), Other(k), out=Other(out, 1))),
                            ("out is read-only", lambda: attngen.attention(Other(q), Other(k), Other(k), out=Other(out, 1))),
                            ("speaks DLPack 2.0; expected 1.x", lambda: attngen.sdpa(Next(q), Next(k), Next(k))),
                            ("cannot be shared: the memory is elsewhere", lambda: attngen.sdpa(*(3 * [Closed(q)])))):
            with self.assertRaisesRegex(attngen.Error, words):
                call()

    def test_import_is_light(self):
        code = "import attngen, sys; print(sorted({'numpy', 'torch'} & set(sys.modules)))"
        self.assertEqual(subprocess.check_output([sys.executable, "-c", code]).decode().strip(), "[]")

    def test_fallback_without_torch(self):
        code = "import sys; sys.modules['torch'] = None; import numpy, attngen; x = numpy.zeros((2, 4))\n" \
               "try: attngen.sdpa(x, x, x, fallback='torch')\nexcept attngen.Unsupported as why: print(why)"
        self.assertRegex(subprocess.check_output([sys.executable, "-c", code]).decode(),
                         "^q has type float64; .*; fallback is 'torch', but PyTorch is not installed\n$")

    def test_program(self):
        texts = attngen.emit({"head_dim": [16, 32], "isa": "c", "tile": {"q": 16, "k": 64}})
        self.assertEqual(len(texts), 2)
        for name, text in texts.items():
            self.assertIn("attngen emit --variant " + name[:-2], text)
            self.assertEqual(attngen.emit(variant=name[:-2]), {name: text})
        self.assertEqual(attngen.emit("head_dim: [16, 32]\nisa: c\ntile: {q: 16, k: 64}\n"), texts)
        with self.assertRaisesRegex(attngen.Error, "^spec:1:1: error: .*head_dim"):
            attngen.emit({"isa": "c"})
        self.assertEqual(attngen.emit({"head_dim": np.array([16, 32]), "isa": "c", "tile": {"q": np.int64(16), "k": 64}}), texts)
        for words, spec in (("spec is of type list; expected a path", [16]), (r"spec holds \{16\}; expected", {"head_dim": {16}})):
            with self.assertRaisesRegex(attngen.Invalid, words):
                attngen.emit(spec)
        self.assertIn("cpu", attngen.devices())
        self.assertEqual(attngen.cache_path(), os.environ["ATTNGEN_CACHE"])


if __name__ == "__main__":
    unittest.main()
