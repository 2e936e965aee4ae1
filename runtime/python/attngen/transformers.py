"""For Hugging Face's transformers: after register(), attn_implementation="attngen" works in any model that uses
AttentionInterface.

    import attngen.transformers
    attngen.transformers.register()
    model = AutoModel.from_pretrained(..., attn_implementation="attngen")      # inference: torch.no_grad()

Masks are made as for "sdpa". The kernel itself computes soft caps (Gemma 2), sinks (gpt-oss) and position biases (T5).
Needs transformers 4.56 or later, for models like BERT 5.0, and for continuous batching 5.8.
"""
from __future__ import annotations

import logging
import threading
import weakref
from typing import Any, Dict, NamedTuple, Optional, Set, Tuple

import torch

from . import _c
from ._call import attention, sdpa


def attention_forward(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0,
                      scaling: Optional[float] = None, is_causal: Optional[bool] = None,
                      softcap: Optional[float] = None, s_aux: Any = None, position_bias: Any = None,
                      cache: Any = None, **kwargs: Any) -> Tuple[Any, None]:
    """The function that a model calls. query is [batch, heads, rows, D], key and value are [batch, KV heads, keys, D];
    attention_mask is None, or bool or float with sides that are 1 or those of [batch, heads, rows, keys]. Returns
    ([batch, rows, heads, Dv], None).

    Without a mask, the layer of a decoder is causal unless there is only one row. dropout must be 0, as in inference."""
    if cache is not None:
        return paged_attention_forward(module, query, key, value, attention_mask, dropout, scaling, softcap=softcap,
                                       s_aux=s_aux, position_bias=position_bias, cache=cache, **kwargs)
    rows = query.shape[2]
    lens = getattr(attention_mask, "attngen_kv_lens", None)  # of a captured step; the mask then says no more
    if lens is not None:
        if dropout:
            raise _c.Unsupported(f"dropout is {dropout}; expected 0.0, since kernels have no dropout")
        o = attention(query, key, value, kv_lens=lens, scale=scaling, softcap=softcap, bias=position_bias,
                      sinks=None if s_aux is None else s_aux.float().contiguous())
        return o.transpose(1, 2).contiguous(), None
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    causal = bool(is_causal) and attention_mask is None and rows > 1
    if causal and key.shape[2] > rows:  # a static cache that is not full yet
        key, value = key[:, :, :rows], value[:, :, :rows]
        position_bias = None if position_bias is None else position_bias[..., :rows]
    if softcap is None and s_aux is None and position_bias is None:
        o = sdpa(query, key, value, attention_mask, dropout, causal, scaling, True)
    else:
        if dropout:
            raise _c.Unsupported(f"dropout is {dropout}; expected 0.0, since kernels have no dropout")
        mask, bias = None, position_bias
        if attention_mask is not None and attention_mask.dtype.is_floating_point:
            bias = attention_mask if bias is None else bias + attention_mask
        else:
            mask = attention_mask
        sinks = None if s_aux is None else s_aux.float().contiguous()
        o = attention(query, key, value, causal=causal, align="top-left", scale=scaling, softcap=softcap, bias=bias,
                      mask=mask, sinks=sinks)
    return o.transpose(1, 2).contiguous(), None


class _Batch(NamedTuple):
    """What the layers of a group share in one forward pass of continuous batching, as libattn takes it."""
    q_starts: Any  # [sequences + 1]
    kv_starts: Any
    kv_lens: Any  # [sequences]
    table: Any  # [sequences, blocks of the longest], the cache's blocks in their order; None: nothing is read from the cache


def _batch(size: int, read: Any, q_starts: Any, kv_starts: Any, longest: int) -> _Batch:
    """`read` holds the positions in the cache of all keys, one sequence after another; `size` of them are a block."""
    q_starts, kv_starts, table = q_starts.long(), kv_starts.long(), None
    if read.shape[0] > 0:
        blocks = torch.arange(0, longest, size, device=read.device)
        table = (read[(kv_starts[:-1, None] + blocks).clamp_(max=read.shape[0] - 1)] // size).int()
    return _Batch(q_starts, kv_starts, kv_starts[1:] - kv_starts[:-1], table)


class _Layer(NamedTuple):
    """A layer's part of the cache of continuous batching. Positions in it, which transformers gives, count rows."""
    group: int  # which lists of positions are its own
    kind: str  # the key of its lengths
    window: Optional[int]  # the last keys that a row sees, itself included
    first: bool  # whether no layer of its group comes before
    size: int  # rows of a block
    blocks: Any  # K and V, each [blocks, size, KV heads, D]; only without a window


def _layer_of(cache: Any, layer: int) -> _Layer:
    """Of transformers' cache: since 5.18 an allocator has the layers of a kind, and before a group of equal layers did."""
    if hasattr(cache, "layer_to_allocator"):
        has = cache.layer_to_allocator[layer]
        window = getattr(has, "sliding_window", None)
        kind = next(name for name, one in cache.cache_allocators.items() if one is has)
        return _Layer(has.index, kind, window, layer == has.layer_indices[0], has.tokens_per_page,
                      has.get_cache_for_block_table(layer) if window is None else None)
    if not hasattr(cache, "layer_index_to_group_indices"):
        raise _c.Unsupported("continuous batching in this version of transformers keeps another cache; expected transformers "
                             "5.8 or later")
    group, at = cache.layer_index_to_group_indices[layer]
    window = cache.sliding_windows[layer]
    rows = (cache.key_cache[at], cache.value_cache[at])
    return _Layer(group, "full_attention" if window == 1 else "sliding_attention", None if window == 1 else window, at == 0,
                  cache.block_size, [x.view(-1, cache.block_size, *x.shape[1:]) for x in rows])


def _update(cache: Any, layer: int, key: Any, value: Any, kwargs: Dict[str, Any]) -> Tuple[Any, Any]:
    """Writes new keys to the cache, and returns all that are needed, [rows, KV heads, D]: copies, if some are in the cache."""
    if "max_length_k" in kwargs:  # transformers 5.20 and later
        found = _own_update(cache)(key_states=key, value_states=value, layer_idx=layer, kwargs=dict(kwargs))
        return found[0][0].transpose(0, 1), found[1][0].transpose(0, 1)
    key, value = cache.update(key, value, layer, kwargs["read_index"], kwargs["write_index"])
    return key, value


def _own_update(cache: Any) -> Any:
    """transformers' own method, where _admit() put one before it."""
    return getattr(type(cache).update, "attngen", type(cache).update).__get__(cache)


@torch.compiler.disable  # the cache is written to in place, by views of it
def paged_attention_forward(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0,
                            scaling: Optional[float] = None, softcap: Optional[float] = None, s_aux: Any = None,
                            position_bias: Any = None, cache: Any = None, **kwargs: Any) -> Tuple[Any, None]:
    """The function that a model calls in continuous batching, as model.generate_batch does it. query, key and value are
    [1, heads, rows of all sequences, D]; new keys are written to the cache, and the others are read where they lie in its
    blocks. Returns ([1, rows, heads, Dv], None)."""
    if cache is None:
        raise _c.Unsupported("there is no cache of continuous batching; expected attn_implementation=\"attngen\" outside "
                             "generate_batch")
    if dropout:
        raise _c.Unsupported(f"dropout is {dropout}; expected 0.0, since kernels have no dropout")
    if attention_mask is not None or position_bias is not None:
        raise _c.Unsupported("continuous batching has a mask or a position bias; expected neither")
    if kwargs.get("block_table") is not None:
        raise _c.Unsupported("continuous batching gives a block table instead of positions; expected max_blocks_per_request=0")
    at = _layer_of(cache, module.layer_idx)
    longest_q, longest_k = (kwargs["max_length_" + x] if "max_length_" + x in kwargs else kwargs["max_seqlen_" + x]
                            for x in "qk")
    starts = kwargs["cu_seq_lens_k"]
    if isinstance(starts, dict):
        starts, longest_k = starts[at.kind], longest_k[at.kind]
    if at.first:
        prepared = _batch(at.size, kwargs["read_index"][at.group], kwargs["cu_seq_lens_q"], starts, longest_k)
        cache.attngen_batches = {**getattr(cache, "attngen_batches", {}), at.group: prepared}
    batch = cache.attngen_batches[at.group]
    options: Dict[str, Any] = dict(causal=True, scale=scaling, softcap=softcap,
                                   sinks=None if s_aux is None else s_aux.float().contiguous())
    if batch.table is None or at.window is not None:  # whole prompts; or a window's few keys, of which a copy is made
        if at.window is not None:
            options["window"] = (at.window - 1, 0)
        key, value = _update(cache, module.layer_idx, key, value, kwargs)
        o = attention(query[0].transpose(0, 1), key, value, q_starts=batch.q_starts, kv_starts=batch.kv_starts,
                      q_len=longest_q, kv_len=longest_k, **options)
        return o[None], None
    for x, kept in zip((key, value), at.blocks):
        kept.flatten(0, 1).index_copy_(0, kwargs["write_index"][at.group], x[0].transpose(0, 1))
    pages = [x.transpose(1, 2) for x in at.blocks]
    if longest_q == 1 and query.shape[2] == batch.kv_lens.shape[0]:
        o = attention(query.permute(2, 1, 0, 3), *pages, block_table=batch.table, kv_lens=batch.kv_lens, **options)
        return o.permute(2, 0, 1, 3), None
    o = attention(query[0].transpose(0, 1), *pages, q_starts=batch.q_starts, q_len=longest_q, block_table=batch.table,
                  kv_lens=batch.kv_lens, **options)
    return o[None], None


_paged: Dict[str, str] = {}  # names that register() was given, and the name of each in continuous batching


def _admit() -> None:
    """transformers 5.20 and later let only implementations that they know by name compute continuous batching, and drop
    "paged|" from names: lets those of register() in, under a name for which no mask is made."""
    try:
        from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager
    except ImportError:
        return
    manager: Any = ContinuousBatchingManager
    own = getattr(manager, "switch_to_cb_friendly_attn", None)
    if own is None or hasattr(own, "attngen"):
        return

    def switch(self: Any, model: Any, *args: Any, **kwargs: Any) -> None:
        asked = model.config._attn_implementation
        if asked in _paged:
            model.set_attn_implementation(_paged[asked])
            self._original_attn_impl = asked
        elif asked not in _paged.values():
            own(self, model, *args, **kwargs)

    setattr(switch, "attngen", True)
    manager.switch_to_cb_friendly_attn = switch
    _let_models_update()


def _let_models_update() -> None:
    """Since transformers 5.24 a model itself updates the cache of continuous batching, which copies all its keys, and its attention
    is told only of the copies: has models with our attention leave that to it, and tell it of the cache."""
    from transformers.generation.continuous_batching.cache import PagedAttentionCache
    own: Any = PagedAttentionCache.update

    def update(self: Any, key_states: Any, value_states: Any, layer_idx: int, kwargs: Any, *args: Any, **more: Any) -> Any:
        if getattr(self.config, "_attn_implementation", None) not in _paged.values():
            return own(self, key_states, value_states, layer_idx, kwargs, *args, **more)
        kwargs["cache"] = self
        return key_states, value_states

    setattr(update, "attngen", own)
    setattr(PagedAttentionCache, "update", update)


_names: Set[str] = set()  # that register() was given
_captured: Any = weakref.WeakSet()  # models whose steps are captured


def _attention_of(model: Any) -> str:
    return model.config.get_text_config(decoder=True)._attn_implementation


def _let_grow() -> None:
    """Has generate() of models with these names, on the processor, make a cache whose layers grow in place. A cache that the
    caller gives, or asks for by cache_implementation, stays what it is. On a card copies run beside the host, which such
    layers take more time of."""
    from transformers.generation.utils import GenerationMixin
    own: Any = getattr(GenerationMixin, "_prepare_cache_for_generation", None)
    if own is None or hasattr(own, "attngen"):
        return

    def prepare(self: Any, generation_config: Any, model_kwargs: Any, *args: Any, **kwargs: Any) -> Any:
        from . import _growing
        given = _growing.cache_of(model_kwargs)
        found = own(self, generation_config, model_kwargs, *args, **kwargs)
        made = _growing.cache_of(model_kwargs)
        if made is not given and (self in _captured or (self.device.type == "cpu" and _attention_of(self) in _names)):
            _growing.let_grow(made)
        return found

    setattr(prepare, "attngen", True)
    setattr(GenerationMixin, "_prepare_cache_for_generation", prepare)


_next = threading.local()  # the cache of the generate() that is about to ask for what takes its steps


def _say(model: Any, why: str) -> None:
    logging.getLogger("attngen").warning("%s: steps of generate() are not captured: %s", type(model).__name__, why)


def _let_capture() -> None:
    """Has generate() of captured models take its steps by graphs, where transformers ask whether to compile them."""
    from transformers.generation.utils import GenerationMixin
    from transformers.modeling_utils import PreTrainedModel
    own: Any = GenerationMixin._valid_auto_compile_criteria
    own_call: Any = PreTrainedModel.get_compiled_call
    if hasattr(own, "attngen"):
        return

    def criteria(self: Any, model_kwargs: Any, generation_config: Any, *args: Any, **kwargs: Any) -> bool:
        from . import _growing, _steps
        cache, _next.cache = _growing.cache_of(model_kwargs), None
        if self in _captured and not generation_config.disable_compile and not getattr(cache, "is_compileable", False):
            why = _steps.obstacle(self, cache, _names)
            if why is None:
                _next.cache = cache
                return True
            _say(self, why)
        return bool(own(self, model_kwargs, generation_config, *args, **kwargs))

    def compiled(self: Any, *args: Any, **kwargs: Any) -> Any:
        from . import _steps
        cache, _next.cache = getattr(_next, "cache", None), None
        if cache is None or self not in _captured:
            return own_call(self, *args, **kwargs)
        return _steps.Steps(self, cache, lambda why: _say(self, why))

    setattr(criteria, "attngen", True)
    setattr(GenerationMixin, "_valid_auto_compile_criteria", criteria)
    setattr(PreTrainedModel, "get_compiled_call", compiled)


def capture(model: Any) -> Any:
    """Has model.generate() on a card take each step, of one token a sequence, by a CUDA graph, which it captures anew in every
    call: the host then launches a whole step at once. The cache that generate() makes is a GrowingCache, or the caller gives one.
    Any attention will do. Beams, drafts and prompts are computed as before, and everything where a capture fails, which the
    logger "attngen" says. Returns the model; release(model) undoes it.

    Raises attngen.Unsupported for a model of which can be seen that its steps cannot be captured: sliding windows, rotary
    embeddings that depend on the length, an encoder, several devices."""
    from . import _steps
    why = _steps.refusal(model)
    if why is not None:
        raise _c.Unsupported(f"{type(model).__name__} cannot be captured: {why}")
    _let_grow()
    _let_capture()
    _captured.add(model)
    return model


def release(model: Any) -> Any:
    """Has model.generate() call the model for each token again. Returns the model."""
    _captured.discard(model)
    return model


def register(name: str = "attngen") -> None:
    """Registers attn_implementation=name with transformers, with the masks of "sdpa"; and "paged|" + name, which
    continuous batching uses and which takes no mask. Where transformers no longer know the prefix "paged|", which is since
    5.20, generate_batch uses it for models with attn_implementation=name. The cache that generate() makes for such a model
    on the processor by default is a GrowingCache then."""
    import transformers
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
    _names.add(name)
    _let_grow()
    if tuple(int(x) for x in transformers.__version__.split(".")[:2]) < (5, 20):
        AttentionInterface.register("paged|" + name, paged_attention_forward)
        return
    _paged[name] = name + "_paged"
    AttentionInterface.register(_paged[name], paged_attention_forward)
    _admit()


def __getattr__(name: str) -> Any:
    if name == "GrowingCache":
        from ._growing import GrowingCache
        return GrowingCache
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
