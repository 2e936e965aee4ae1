"""For Hugging Face's transformers: after register(), attn_implementation="attngen" works in any model that uses
AttentionInterface.

    import attngen.transformers
    attngen.transformers.register()
    model = AutoModel.from_pretrained(..., attn_implementation="attngen")      # inference: torch.no_grad()

Masks are made as for "sdpa". The kernel itself computes soft caps (Gemma 2), sinks (gpt-oss) and position biases (T5).
Needs transformers 4.56 or later.
"""
from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

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


def paged_attention_forward(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0,
                            scaling: Optional[float] = None, softcap: Optional[float] = None, s_aux: Any = None,
                            position_bias: Any = None, *, cache: Any, cu_seq_lens_q: Any, cu_seq_lens_k: Any,
                            max_seqlen_q: int, max_seqlen_k: Any, read_index: Any, write_index: Any,
                            **kwargs: Any) -> Tuple[Any, None]:
    """The function that a model calls in continuous batching, as model.generate_batch does it. query, key and value are
    [1, heads, rows of all sequences, D]; new keys are written to the cache, and the others are read where they lie in its
    blocks. Returns ([1, rows, heads, Dv], None)."""
    if dropout:
        raise _c.Unsupported(f"dropout is {dropout}; expected 0.0, since kernels have no dropout")
    if attention_mask is not None or position_bias is not None:
        raise _c.Unsupported("continuous batching has a mask or a position bias; expected neither")
    layer = module.layer_idx
    group, at = cache.layer_index_to_group_indices[layer]
    window = cache.sliding_windows[layer]
    if isinstance(cu_seq_lens_k, dict):
        kind = "full_attention" if window == 1 else "sliding_attention"
        cu_seq_lens_k, max_seqlen_k = cu_seq_lens_k[kind], max_seqlen_k[kind]
    if at == 0:  # the first of the group's layers
        prepared = _batch(cache.block_size, read_index[group], cu_seq_lens_q, cu_seq_lens_k, max_seqlen_k)
        cache.attngen_batches = {**getattr(cache, "attngen_batches", {}), group: prepared}
    batch = cache.attngen_batches[group]
    options: Dict[str, Any] = dict(causal=True, scale=scaling, softcap=softcap,
                                   sinks=None if s_aux is None else s_aux.float().contiguous())
    if batch.table is None or window != 1:  # whole prompts; or a window's few keys, of which transformers makes a copy
        if window != 1:
            options["window"] = (window - 1, 0)
        key, value = cache.update(key, value, layer, read_index, write_index)
        o = attention(query[0].transpose(0, 1), key, value, q_starts=batch.q_starts, kv_starts=batch.kv_starts,
                      q_len=max_seqlen_q, kv_len=max_seqlen_k, **options)
        return o[None], None
    pages = []
    for x, kept in ((key, cache.key_cache[at]), (value, cache.value_cache[at])):
        kept.index_copy_(0, write_index[group], x[0].transpose(0, 1))
        pages.append(kept.view(-1, cache.block_size, *kept.shape[1:]).transpose(1, 2))
    if max_seqlen_q == 1 and query.shape[2] == batch.kv_lens.shape[0]:
        o = attention(query.permute(2, 1, 0, 3), *pages, block_table=batch.table, kv_lens=batch.kv_lens, **options)
        return o.permute(2, 0, 1, 3), None
    o = attention(query[0].transpose(0, 1), *pages, q_starts=batch.q_starts, q_len=max_seqlen_q, block_table=batch.table,
                  kv_lens=batch.kv_lens, **options)
    return o[None], None


def register(name: str = "attngen") -> None:
    """Registers attn_implementation=name with transformers, with the masks of "sdpa"; and "paged|" + name, which
    continuous batching uses and which takes no mask."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    AttentionInterface.register(name, attention_forward)
    AttentionInterface.register("paged|" + name, paged_attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
