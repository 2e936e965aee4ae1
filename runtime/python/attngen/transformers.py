"""For Hugging Face's transformers: after register(), attn_implementation="attngen" works in any model that uses
AttentionInterface.

    import attngen.transformers
    attngen.transformers.register()
    model = AutoModel.from_pretrained(..., attn_implementation="attngen")      # inference: torch.no_grad()

Masks are made as for "sdpa". The kernel itself computes soft caps (Gemma 2), sinks (gpt-oss) and position biases (T5).
Needs transformers 4.56 or later.
"""
from __future__ import annotations

from typing import Any, Optional, Tuple

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
        raise _c.Unsupported("the cache is a paged one of continuous batching; expected a dense cache")
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


def register(name: str = "attngen") -> None:
    """Registers attn_implementation=name with transformers, with the masks of "sdpa"."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
