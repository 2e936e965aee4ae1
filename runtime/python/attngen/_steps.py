"""For transformers: the steps of generate() as a captured CUDA graph, so that the host launches a whole step at once.

A step is the model's forward pass over one token of each sequence. Its graph is captured when a cache is first seen, and again
when the cache was given more room; it reads tokens and positions from memory that is written before each replay, and writes K and V
to rows that a position on the device names. Whatever is no such step is an ordinary call, as everything is where capturing fails.
"""
from __future__ import annotations

import contextlib
import gc
import threading
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch
from transformers.cache_utils import Cache, DynamicCache

from . import _c
from ._growing import NAMES, GrowingLayer, cache_of

DEVICES = ("cuda",)  # that capture
CHECKS = 2  # the first step and the first replay


class Refused(Exception):
    """A step is not captured, for the reason that this says."""


_kept = threading.local()  # by device, of each thread: a pool of memory for graphs, its stream, and a graph that keeps it


def _record(body: Callable[[], Any], pool: Any, side: Any) -> Tuple[Any, Any]:
    """What `body` does, captured on the stream `side` as a graph, and what it returns."""
    graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    side.wait_stream(current)
    collecting = gc.isenabled()
    gc.disable()  # what it frees may not be freed while a stream is captured
    try:
        with torch.cuda.stream(side):
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                outputs = body()
            finally:
                graph.capture_end()
    except BaseException:
        _forget_capture(torch.cuda.current_device(), pool)
        raise
    finally:
        if collecting:
            gc.enable()
    current.wait_stream(side)
    return graph, outputs


def _forget_capture(device: int, pool: Any) -> None:
    """What PyTorch leaves undone when a capture fails: the allocator still brings memory to the pool, and the generator of random
    numbers takes itself to be captured, and would refuse to draw; a copy of its state does not."""
    _kept.__dict__.get("pools", {}).pop(device, None)
    generator: Any = torch.cuda.default_generators[device]
    if hasattr(generator, "graphsafe_set_state"):
        generator.graphsafe_set_state(generator.clone_state())
    end = next((getattr(torch._C, name) for name in ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool")
                if hasattr(torch._C, name)), None)
    if end is not None:
        with contextlib.suppress(RuntimeError, TypeError):  # it had ended
            end(device, pool)


def _pool() -> Tuple[Any, Any]:
    """Memory for graphs, and the stream that they are captured on. The next graph reuses what one that is gone had: on the same stream,
    and as long as some graph has the pool, which a small one does."""
    device = torch.cuda.current_device()
    pools = _kept.__dict__.setdefault("pools", {})
    if device not in pools:
        pool, side = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
        pools[device] = pool, side, _record(lambda: torch.zeros(1, device="cuda"), pool, side)
    return pools[device][:2]


class _Graph:
    """What a step does, as one launch."""

    def __init__(self, step: Any) -> None:
        self.device = step.at.device
        with torch.cuda.device(self.device):
            self.graph, self.outputs = _record(step.body, *_pool())

    def replay(self) -> Any:
        with torch.cuda.device(self.device):
            self.graph.replay()
        return self.outputs


def _copied(outputs: Any) -> Any:
    """A model's outputs in memory that the next step leaves alone."""
    found = {}
    for name, value in outputs.items():
        if isinstance(value, torch.Tensor):
            value = value.clone()
        elif value is not None and not isinstance(value, Cache):
            raise Refused(f"the model returns {name}, which is of type {type(value).__name__}")
        found[name] = value
    return type(outputs)(**found)


def _alike(a: Any, b: Any) -> bool:
    """Whether logits agree but for the order of sums."""
    bound = 2e-4 if a.dtype == torch.float32 else 2e-2
    return bool(((a - b).abs().max() <= bound * b.abs().max()) | a.isnan().any())


class _Recorded:
    """The step of a cache whose rooms stay as they are: static inputs, the mask, and the graph once there is one."""

    def __init__(self, model: Any, cache: Any, rooms: List[Any], key: Any, inputs: Dict[str, Any], padding: Any,
                 cache_name: str) -> None:
        self.model, self.cache, self.rooms, self.key, self.graph = model, cache, rooms, key, None
        first = rooms[0]
        batch, device, self.most = first.kind[0], first.kind[8], first.most
        for room in rooms:  # a masked row counts nothing times its value, which must then be a number
            for part in room.unversioned:
                part.narrow(2, room.rows, room.most - room.rows).zero_()
        self.inputs = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
        self.tensors = [(name, value) for name, value in self.inputs.items() if isinstance(value, torch.Tensor)]
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.ones = torch.ones(batch, dtype=torch.int64, device=device)
        self.columns = torch.arange(self.most, device=device).view(1, 1, 1, -1).expand(batch, 1, 1, -1)
        self.mask = torch.empty(batch, 1, 1, self.most, dtype=torch.bool, device=device)
        self.lens = torch.empty(batch, dtype=torch.int64, device=device)
        self.padding = None
        if padding is not None:
            self.padding = torch.ones_like(self.mask)
            self.padding[:, 0, 0, :padding.shape[1]] = padding != 0
        else:
            self.mask.attngen_kv_lens = self.lens  # says all that the mask says
        text = model.config.get_text_config(decoder=True)
        kinds = getattr(text, "layer_types", None)
        self.inputs["attention_mask"] = self.mask if kinds is None else {kind: self.mask for kind in set(kinds)}
        self.inputs[cache_name] = cache

    def fits(self, rooms: List[Any], key: Any) -> bool:
        return key == self.key and len(rooms) == len(self.rooms) and all(a is b for a, b in zip(rooms, self.rooms))

    def body(self) -> Any:
        torch.le(self.columns, self.at, out=self.mask)
        if self.padding is not None:
            self.mask.logical_and_(self.padding)
        torch.add(self.ones, self.at, out=self.lens)
        return self.model(**self.inputs)

    def set_inputs(self, inputs: Dict[str, Any]) -> None:
        self.at.fill_(self.rooms[0].rows)
        for name, static in self.tensors:
            static.copy_(inputs[name])

    def called(self, body: Callable[[], Any]) -> Any:
        """`body`, in which the cache's layers write where `at` says."""
        for room in self.rooms:
            room.at = self.at
        try:
            return body()
        finally:
            for room in self.rooms:
                room.at = None

    def undo(self, rows: int) -> None:
        """After a step that failed: no more rows are in use than before it."""
        for layer, room in zip(self.cache.layers, self.rooms):
            layer._room, room.rows, room.views = room, rows, None


class Steps:
    """The forward pass of one generate(): what it calls instead of the model for each token."""

    def __init__(self, model: Any, cache: Any, refuse: Callable[[str], None]) -> None:
        self.model, self.cache, self.refuse = model, cache, refuse
        self.recorded: Optional[_Recorded] = None
        self.checked, self.off, self.padded = 0, False, None

    def __call__(self, **inputs: Any) -> Any:
        step = None if self.off else self._step(inputs)
        if step is None:
            return self.model(**inputs)
        rows = step.rooms[0].rows
        step.set_inputs(inputs)
        try:
            return self._take(step, inputs)
        except (Refused, RuntimeError, TypeError, ValueError, NotImplementedError) as why:
            self._stop(str(why))
            step.undo(rows)
            return self.model(**inputs)

    def _stop(self, why: str) -> None:
        self.off, self.recorded = True, None
        self.refuse(why)

    def _step(self, inputs: Dict[str, Any]) -> Optional[_Recorded]:
        """What takes this step; None if it is none of one token behind a cache, or of another kind than the last one."""
        cache, ids = cache_of(inputs), inputs.get("input_ids")
        mask = inputs.get("attention_mask")
        if cache is self.cache and isinstance(ids, torch.Tensor) and ids.shape[-1] > 1:  # every rejected draft costs the graph its room
            self._stop("its steps are of several tokens, as those with drafts are")
            return None
        if cache is not self.cache or ids is None or ids.dim() != 2 or ids.shape[1] != 1 or torch.is_grad_enabled() or \
                (mask is not None and mask.dim() != 2):
            return None
        rooms = [layer.room() if type(layer) is GrowingLayer else None for layer in cache.layers]
        if not rooms or None in rooms or len({room.rows for room in rooms}) != 1 or rooms[0].kind[0] != ids.shape[0] or \
                rooms[0].inference != torch.is_inference_mode_enabled() or \
                (mask is not None and mask.shape != (ids.shape[0], rooms[0].rows + 1)):
            return None
        given = {name: value for name, value in inputs.items() if name not in (*NAMES, "attention_mask")}
        if not any(isinstance(given.get(name), torch.Tensor) for name in ("position_ids", "cache_position")):
            self._stop("generate() gives the model no positions")
            return None
        key = tuple((name, value.shape, value.dtype) if isinstance(value, torch.Tensor) else (name, value)
                    for name, value in given.items())
        if self.recorded is None or not self.recorded.fits(rooms, key):
            if any(value is not None and not isinstance(value, (bool, int, str, torch.Tensor)) for value in given.values()):
                self._stop("the model takes inputs that are no tensors")
                return None
            if self.padded is None:
                self.padded = mask is not None and not bool(mask.all())
            self.recorded = None  # and its memory
            self.recorded = _Recorded(self.model, cache, rooms, key, given, mask if self.padded else None,
                                      next(name for name in NAMES if inputs.get(name) is not None))
        return self.recorded

    def _take(self, step: _Recorded, inputs: Dict[str, Any]) -> Any:
        """The step: called at first, which loads what kernels it needs, and captured. What it gives at the first two steps of all
        must be what the model gives, as transformers call it: a model whose Python counts tokens, or that takes masks for something
        else, is found so."""
        if step.graph is None:
            found = _copied(step.called(step.body))
            step.graph = step.called(lambda: _Graph(step))
        else:
            found = _copied(step.graph.replay())
        if self.checked < CHECKS:
            outputs = self.model(**inputs)
            if not _alike(found.logits, outputs.logits):
                self._stop("a step gives other logits than the model")
            self.checked += 1
            return outputs
        for room in step.rooms:
            room.advance()
        return found


def refusal(model: Any) -> Optional[str]:
    """Why the steps of this model cannot be captured, in words; None if they can, as far as can be seen."""
    from transformers.generation.utils import GenerationMixin
    if not isinstance(model, GenerationMixin):
        return "it has no generate(); expected a model such as AutoModelForCausalLM makes"
    has: Any = model
    config = has.config.get_text_config(decoder=True)
    if has.config.is_encoder_decoder:
        return "it has an encoder; expected a decoder alone"
    if not getattr(has, "_can_compile_fullgraph", False):
        return "transformers do not say that its forward pass can be compiled whole"
    for name in ("_valid_auto_compile_criteria", "get_compiled_call", "_prepare_cache_for_generation"):
        if not hasattr(has, name):
            return f"this version of transformers has no {name}; expected one from 4.56 to 5.24"
    for name in ("_update_model_kwargs_for_generation", "create_masks_for_generate"):
        if getattr(type(has), name, None) is not getattr(GenerationMixin, name, None):
            return f"it has a {name} of its own"
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or (getattr(config, "layer_types", None) is None and getattr(config, "sliding_window", None)):
        return f"its layers are {', '.join(sorted(kinds - {'full_attention'})) or 'of a sliding window'}; expected attention to all keys"
    for module in has.modules():
        rope = getattr(module, "rope_type", None)
        if any("dynamic" in str(r) or "longrope" in str(r) for r in (rope.values() if isinstance(rope, dict) else [rope])):
            return f"its rotary embedding is {rope}, which depends on the length"
    if len(set(getattr(has, "hf_device_map", {}).values())) > 1:
        return "it is on several devices; expected one"
    quantizer = getattr(has, "hf_quantizer", None)
    if quantizer is not None and not getattr(quantizer, "is_compileable", False):
        return "its weights are quantised in a way that transformers do not compile"
    return None


def obstacle(model: Any, cache: Any, names: Set[str]) -> Optional[str]:
    """Why steps of this model with this cache, which generate() is about to take, are not captured; None if they may be.
    `names` are the implementations of attention whose masks are those of "sdpa"."""
    attention = model.config.get_text_config(decoder=True)._attn_implementation
    if model.device.type not in DEVICES:
        return f"the model is on {model.device}; expected a CUDA card"
    if model.training:
        return "the model is in training; expected model.eval()"
    if attention not in names and attention != "sdpa":
        return f"its attention is {attention!r}; expected 'sdpa' or 'attngen'"
    if cache is None:
        return "there is no cache; expected use_cache=True"
    if not isinstance(cache, DynamicCache) or getattr(cache, "offloading", False):
        return f"its cache is {type(cache).__name__}; expected generate()'s own, or a GrowingCache"
    if not cache.layers or any(type(layer) is not GrowingLayer for layer in cache.layers):
        return "some layer of its cache does not grow in place; expected a GrowingCache(config=model.config)"
    return None
