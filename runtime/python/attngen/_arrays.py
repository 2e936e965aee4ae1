"""Arrays of NumPy, PyTorch and any library with DLPack, as addresses, sides and strides; nothing is copied.

Each library has an adapter: `view` reads all about an array once, `describe` returns what a prepared call depends on,
`pointer` the address, and `empty` a new array. NumPy and PyTorch are imported only when one of their arrays is met.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import _c, _memory


class View(NamedTuple):
    """An array: address, sides, strides in elements, element type ("f32", "bool", "i64" and so on), the number of the
    CUDA device that holds it, or -1 for the processor's memory, and whether it may be written to."""
    pointer: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    dtype: str
    device: int
    writable: bool = True


class Plain:
    """What adapters for plain memory have in common: no tracing, no number of threads, nothing to check."""

    def tracing(self) -> bool:
        return False

    def threads(self) -> int:
        return 0

    def casts(self) -> bool:
        return False

    def transformed(self) -> bool:
        return False

    def wrote(self, out: Any) -> None:
        pass

    def large(self: Any, call: Any, like: Any) -> Any:
        """A new array for the large result of a prepared call: in memory that earlier results had, else of the library."""
        block = _memory.block(call.large)
        if block is not None:
            return self.on(block, call.o_shape, call.o_strides, call.o_dtype)
        o = self.empty(call.o_shape, call.o_strides, call.o_dtype, like)
        _memory.want_huge_pages(self.pointer(o), call.large)
        return o

    def check(self, *arrays: Any) -> None:
        pass


class NumpyAdapter(Plain):
    """NumPy arrays, in the processor's memory; bf16 is ml_dtypes.bfloat16."""

    name = "numpy"
    _names = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "uint8": "u8", "int8": "i8",
              "int32": "i32", "int64": "i64", "float64": "f64", "float8_e4m3fn": "fp8"}

    def describe(self, a: Any) -> Any:
        return a.shape, a.strides, a.dtype, a.flags.writeable

    def signature(self, q: Any, k: Any, v: Any, mask: Any, out: Any) -> Any:
        return (q.shape, q.strides, q.dtype, k.shape, k.strides, k.dtype, v.shape, v.strides, v.dtype,
                None if mask is None else self.describe(mask), None if out is None else self.describe(out))

    def pointer(self, a: Any) -> int:
        return a.__array_interface__["data"][0]

    def apart_from_keys(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        return None

    def from_list(self, kind: str, values: Any) -> Any:
        import numpy
        given = numpy.asarray(values)
        if kind.startswith("int") and given.size and given.dtype.kind not in "iu":
            raise _c.Invalid(f"a list holds numbers of type {given.dtype.name}; expected whole numbers")
        return given.astype(kind)

    def stream(self, device: int) -> Optional[int]:
        return None

    def view(self, a: Any) -> View:
        dtype = self._names.get(a.dtype.name, a.dtype.name) if a.dtype.isnative else str(a.dtype)
        size = a.dtype.itemsize
        if any(stride % size for stride in a.strides):
            raise _c.Invalid(f"an array has strides of {a.strides} bytes; expected multiples of the element's {size} bytes")
        return View(self.pointer(a), a.shape, tuple(stride // size for stride in a.strides), dtype, -1,
                    a.flags.writeable)

    def _type(self, dtype: str) -> Any:
        import numpy
        if dtype != "bf16":
            return {"f32": numpy.float32, "f16": numpy.float16, "i8": numpy.int8, "u8": numpy.uint8}[dtype]
        try:
            import ml_dtypes  # which is there if the caller's arrays are NumPy's
        except ImportError:
            raise _c.Unsupported("out is missing, and NumPy has bfloat16 only by ml_dtypes, which is not installed; "
                                 "expected one of the two") from None
        return ml_dtypes.bfloat16

    def on(self, block: Any, shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str) -> Any:
        import numpy
        kind = numpy.dtype(self._type(dtype))
        return numpy.ndarray(shape, kind, block, 0, [stride * kind.itemsize for stride in strides])

    def empty(self, shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str, like: Any) -> Any:
        import numpy
        kind = self._type(dtype)
        order = sorted(range(len(shape)), key=lambda i: -strides[i])
        memory = numpy.empty([shape[i] for i in order], kind)
        return memory.transpose(sorted(range(len(shape)), key=lambda i: order[i]))


# ---- DLPack: github.com/dmlc/dlpack, dlpack.h, DLManagedTensorVersioned, and DLManagedTensor of libraries before 1.0 ---

class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_DL_READ_ONLY = 1  # a flag
_DL_NAMES = {(2, 32): "f32", (2, 16): "f16", (4, 16): "bf16", (6, 8): "bool", (1, 8): "u8", (0, 8): "i8",
             (0, 32): "i32", (0, 64): "i64", (2, 64): "f64", (10, 8): "fp8"}
_DL_CPU = (1, 3)    # kDLCPU, kDLCUDAHost
_DL_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


class Exported:
    """An array of another library, by DLPack: its capsule is kept, unconsumed, as long as this object lives."""

    def __init__(self, array: Any) -> None:
        if not hasattr(array, "__dlpack_device__"):
            raise _c.Invalid(f"an argument is of type {type(array).__module__}.{type(array).__qualname__}; expected an array "
                             "with __dlpack__, as query is")
        device_type, device_id = array.__dlpack_device__()
        self.array = array
        self.device = int(device_id) if device_type in _DL_CUDA else -1
        if device_type in _DL_CUDA:
            self.capsule = _capsule(array, stream=1)  # what the array waits for is done before the default stream
        elif device_type in _DL_CPU:
            self.capsule = _capsule(array)
        else:
            raise _c.Unsupported(f"an array is on a DLPack device of type {int(device_type)}; expected the processor's "
                                 "memory or CUDA's")
        t, writable = _managed(self.capsule)
        if t.lanes != 1:
            raise _c.Unsupported(f"an element has {t.lanes} lanes; expected 1")
        shape = tuple(t.shape[i] for i in range(t.ndim))
        if t.strides:
            strides = tuple(t.strides[i] for i in range(t.ndim))
        else:
            strides = contiguous(shape)
        dtype = _DL_NAMES.get((t.code, t.bits), f"DLPack type {t.code} of {t.bits} bits")
        self.view = View((t.data or 0) + t.byte_offset, shape, strides, dtype, self.device, writable)


def _capsule(array: Any, **options: Any) -> Any:
    """The array's capsule: of DLPack 1, which says whether the array may be written to, if its library knows that."""
    try:
        try:
            return array.__dlpack__(max_version=(1, 0), **options)
        except TypeError:  # a library from before DLPack 1
            return array.__dlpack__(**options)
    except BufferError as error:
        raise _c.Unsupported(f"an array of type {type(array).__module__}.{type(array).__qualname__} cannot be shared: "
                             f"{error}; expected one whose __dlpack__ gives its memory") from None


def _managed(capsule: Any) -> Tuple[_DLTensor, bool]:
    """The tensor that a capsule holds, and whether it may be written to."""
    valid, get = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    valid.argtypes, valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
    get.argtypes, get.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    if not valid(capsule, b"dltensor_versioned"):
        return _DLTensor.from_address(get(capsule, b"dltensor")), True
    held = _DLVersioned.from_address(get(capsule, b"dltensor_versioned"))
    if held.major != 1:
        raise _c.Unsupported(f"an array speaks DLPack {held.major}.{held.minor}; expected 1.x or earlier")
    return held.tensor, not held.flags & _DL_READ_ONLY


def contiguous(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """The strides, in elements, of an array without gaps whose last side is innermost."""
    strides, step = [], 1
    for side in reversed(shape):
        strides.append(step)
        step *= max(side, 1)
    return tuple(reversed(strides))


class DlpackAdapter(Plain):
    """Arrays with __dlpack__. Without `out`, new arrays are NumPy's on the processor and PyTorch's on a card."""

    name = "dlpack"

    def from_list(self, kind: str, values: Any) -> Any:
        return NUMPY.from_list(kind, values)

    def describe(self, a: Exported) -> Any:
        return a.view[1:]

    def pointer(self, a: Exported) -> int:
        return a.view.pointer

    def stream(self, device: int) -> Optional[int]:
        return None if device < 0 else 1

    def view(self, a: Exported) -> View:
        return a.view

    def on(self, block: Any, shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str) -> Any:
        return NUMPY.on(block, shape, strides, dtype)

    def empty(self, shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str, like: Exported) -> Any:
        if like.device < 0:
            return NUMPY.empty(shape, strides, dtype, None)
        try:
            adapter = torch_adapters().ADAPTER
        except ImportError:
            raise _c.Unsupported("out is missing for DLPack arrays on a CUDA device; expected it, since PyTorch, which "
                                 "would make one, is not installed") from None
        return adapter.empty_on(shape, strides, dtype, like.device)


NUMPY = NumpyAdapter()
DLPACK = DlpackAdapter()
_adapters: Dict[type, Any] = {Exported: DLPACK}


_torch: Any = None


def offer_torch(load: Any) -> None:
    """Says what imports the module of PyTorch's adapters: it needs this one, which therefore does not name it."""
    global _torch
    _torch = load


def torch_adapters() -> Any:
    """The module of PyTorch's adapters; the first call imports PyTorch and registers the operators."""
    return _torch()


def _find(kind: type, name: str) -> Any:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    found: Any
    if torch is not None and issubclass(kind, torch.Tensor):
        found = torch_adapters().adapter_for(kind)
    elif numpy is not None and issubclass(kind, numpy.ndarray):
        if issubclass(kind, numpy.ma.MaskedArray):
            raise _c.Invalid(f"{name} is a masked array; expected a plain one, and a mask as an argument of its own")
        found = NUMPY
    elif hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        found = DLPACK
    else:
        raise _c.Invalid(f"{name} is of type {kind.__module__}.{kind.__qualname__}; expected a NumPy array, a "
                         "PyTorch tensor, or an array with __dlpack__")
    _adapters[kind] = found
    return found


def adapter_of(a: Any, name: str = "an argument") -> Any:
    """The adapter of the library of an array, which an error calls by the name."""
    kind = type(a)
    return _adapters.get(kind) or _find(kind, name)
