"""cpu_peers.py - what bench_cpu.py compares attngen with on a CPU: each other library's attention on one shape, where that library
is installed. What it is not: part of attngen, or a program.

A contender is made of a cell (bench_cpu.py), raises Absent with the reason where there is none for it, and `call()` is one run of it."""
import ctypes
import ctypes.util
import importlib.util
import math
import os


class Absent(Exception):
    pass


def needs(module):
    if importlib.util.find_spec(module) is None:
        raise Absent(f"{module} is not installed")
    try:
        return importlib.import_module(module)
    except Exception as why:  # which may lack something itself, or be for another processor
        raise Absent(f"{module} cannot be imported: {why}")


class PyTorch:
    """scaled_dot_product_attention, which takes flash attention on a CPU where it can."""
    TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}

    def __init__(self, cell):
        torch = needs("torch")
        if cell.kv != cell.dtype:
            raise Absent(f"PyTorch has no keys of type {cell.kv}")
        torch.manual_seed(1)
        torch.set_num_threads(cell.threads)
        kind = getattr(torch, self.TYPES[cell.dtype])
        self.tensors = [torch.randn(cell.batch, h, n, cell.dim).to(kind) for h, n in
                        ((cell.heads, cell.queries), (cell.kv_heads, cell.keys), (cell.kv_heads, cell.keys))]
        self.options = {"is_causal": cell.causal} | ({"enable_gqa": True} if cell.heads != cell.kv_heads else {})
        self.attention = torch.nn.functional.scaled_dot_product_attention

    def call(self):
        self.attention(*self.tensors, **self.options)


class ZenTorch(PyTorch):
    """The same, compiled by AMD's plug-in."""

    def __init__(self, cell):
        torch = needs("torch")
        with open("/proc/cpuinfo") as f:
            if "avx512f" not in f.read():
                raise Absent("zentorch optimises for processors with AVX-512 alone, and leaves others to PyTorch")
        needs("zentorch")
        super().__init__(cell)
        attention = self.attention
        self.attention = torch.compile(lambda q, k, v, **o: attention(q, k, v, **o), backend="zentorch")
        with torch.no_grad():
            self.call()

    def call(self):
        import torch
        with torch.no_grad():
            super().call()


class OnnxRuntime:
    """com.microsoft's GroupQueryAttention is for decoders; MultiHeadAttention is the one for whole sequences."""

    def __init__(self, cell):
        onnx, numpy, runtime = needs("onnx"), needs("numpy"), needs("onnxruntime")
        if cell.dtype != "f32" or cell.kv != "f32":
            raise Absent("onnxruntime's MultiHeadAttention on a CPU is for f32")
        if cell.heads != cell.kv_heads:
            raise Absent("onnxruntime's MultiHeadAttention has as many key heads as query heads")
        if cell.causal and cell.queries != cell.keys:
            raise Absent("onnxruntime's causal mask is for as many queries as keys")
        helper, kind, wide = onnx.helper, onnx.TensorProto.FLOAT, cell.heads * cell.dim
        node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft", num_heads=cell.heads,
                                **({"unidirectional": 1} if cell.causal else {}))
        shapes = {"q": cell.queries, "k": cell.keys, "v": cell.keys, "o": cell.queries}
        values = {name: helper.make_tensor_value_info(name, kind, [cell.batch, n, wide]) for name, n in shapes.items()}
        graph = helper.make_graph([node], "attention", [values[n] for n in "qkv"], [values["o"]])
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
        options = runtime.SessionOptions()
        options.intra_op_num_threads = cell.threads
        self.session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        random = numpy.random.default_rng(1)
        self.inputs = {n: random.standard_normal((cell.batch, shapes[n], wide), dtype=numpy.float32) for n in "qkv"}

    def call(self):
        self.session.run(None, self.inputs)


class InitParams(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class PoolParams(ctypes.Structure):
    _fields_ = [("mask", ctypes.c_bool * 512), ("threads", ctypes.c_int), ("priority", ctypes.c_int), ("poll", ctypes.c_uint32),
                ("strict", ctypes.c_bool), ("paused", ctypes.c_bool)]


def ggml_libraries():
    """Its two libraries: of $GGML_LIB, a folder, or as the system finds them."""
    folder = os.environ.get("GGML_LIB")
    names = [os.path.join(folder, f"lib{n}.so") if folder else ctypes.util.find_library(n) for n in ("ggml-base", "ggml-cpu")]
    if not all(names):
        raise Absent("libggml is not installed; $GGML_LIB names a folder with libggml-base.so and libggml-cpu.so")
    try:
        return [ctypes.CDLL(n, mode=ctypes.RTLD_GLOBAL) for n in names]
    except OSError as e:
        raise Absent(f"libggml: {e}")


class Ggml:
    """ggml_flash_attn_ext, which engines of the llama.cpp family use. Queries and outputs are f32 there."""
    TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8, "bf16": 30}

    def __init__(self, cell):
        if cell.kv not in self.TYPES:
            raise Absent(f"ggml has no keys of type {cell.kv}")
        numpy = needs("numpy")
        base, cpu = ggml_libraries()
        self.pointer(base, "ggml_init", "ggml_new_tensor_4d", "ggml_flash_attn_ext", "ggml_new_graph", "ggml_get_data")
        self.pointer(cpu, "ggml_backend_cpu_init", "ggml_threadpool_new")
        cpu.ggml_threadpool_params_default.restype = PoolParams
        base.ggml_quantize_chunk.restype = ctypes.c_size_t
        sizes = {"q": (cell.heads, cell.queries, "f32"), "k": (cell.kv_heads, cell.keys, cell.kv), "v": (cell.kv_heads, cell.keys, cell.kv)}
        elements = sum(cell.batch * h * n * cell.dim for h, n, _ in sizes.values())
        room = 4 * (elements + cell.batch * cell.heads * cell.queries * cell.dim) + 2 * cell.queries * cell.keys + (64 << 20)
        self.context = ctypes.c_void_p(base.ggml_init(InitParams(room, None, False)))
        if not self.context.value:
            raise Absent("ggml has no memory")
        random, tensors = numpy.random.default_rng(1), {}
        for name, (heads, n, kind) in sizes.items():
            tensors[name] = self.tensor(base, self.TYPES[kind], cell.dim, n, heads, cell.batch)
            data = random.standard_normal(cell.batch * heads * n * cell.dim, dtype=numpy.float32)
            self.fill(base, tensors[name], kind, data, cell.dim)
        mask = None
        if cell.causal:
            mask = self.tensor(base, self.TYPES["f16"], cell.keys, cell.queries, 1, 1)
            seen = numpy.tril(numpy.ones((cell.queries, cell.keys), dtype=bool), cell.keys - cell.queries)
            self.copy(base, mask, numpy.where(seen, 0, -numpy.inf).astype(numpy.float16))
        out = ctypes.c_void_p(base.ggml_flash_attn_ext(self.context, tensors["q"], tensors["k"], tensors["v"], mask,
                                                       ctypes.c_float(1 / math.sqrt(cell.dim)), ctypes.c_float(0), ctypes.c_float(0)))
        self.graph = ctypes.c_void_p(base.ggml_new_graph(self.context))
        base.ggml_build_forward_expand(self.graph, out)
        params = cpu.ggml_threadpool_params_default(ctypes.c_int(cell.threads))
        self.pool = ctypes.c_void_p(cpu.ggml_threadpool_new(ctypes.byref(params)))
        self.backend = ctypes.c_void_p(cpu.ggml_backend_cpu_init())
        cpu.ggml_backend_cpu_set_n_threads(self.backend, ctypes.c_int(cell.threads))
        cpu.ggml_backend_cpu_set_threadpool(self.backend, self.pool)
        self.base, self.cpu = base, cpu

    @staticmethod
    def pointer(library, *names):
        for name in names:
            getattr(library, name).restype = ctypes.c_void_p

    def tensor(self, base, kind, *sides):
        return ctypes.c_void_p(base.ggml_new_tensor_4d(self.context, ctypes.c_int(kind), *map(ctypes.c_int64, sides)))

    @staticmethod
    def copy(base, tensor, data):
        ctypes.memmove(base.ggml_get_data(tensor), data.ctypes.data, data.nbytes)

    def fill(self, base, tensor, kind, data, dim):
        if kind == "f32":
            self.copy(base, tensor, data)
        else:
            base.ggml_quantize_chunk(ctypes.c_int(self.TYPES[kind]), ctypes.c_void_p(data.ctypes.data),
                                     ctypes.c_void_p(base.ggml_get_data(tensor)), ctypes.c_int64(0), ctypes.c_int64(data.size // dim),
                                     ctypes.c_int64(dim), None)

    def call(self):
        if self.base.ggml_backend_graph_compute(self.backend, self.graph) != 0:
            raise RuntimeError("ggml_backend_graph_compute failed")

    def close(self):
        self.base.ggml_backend_free(self.backend)
        self.cpu.ggml_threadpool_free(self.pool)
        self.base.ggml_free(self.context)


PEERS = {"PyTorch": PyTorch, "zentorch": ZenTorch, "onnxruntime": OnnxRuntime, "ggml": Ggml}
