"""PyTorch's operators attngen::sdpa, attention and quantise, and those that write to `out`, with their fakes, so that
torch.compile, torch.export and CUDA graphs see each as one operator. Imported when the first tensor is met."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch

from ._call import attention, sdpa_now
from ._plans import defaults
from ._prepare import BLOCKS, dense_like
from ._quantise import quantise
from ._torch import ADAPTER, adapter_for, lse_like, o_like, order_like, refuse_gradients, scales_shape

__all__ = ["ADAPTER", "adapter_for"]
_library = torch.library.Library("attngen", "DEF")
_library.define("sdpa(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
                "bool is_causal=False, float? scale=None, bool enable_gqa=False, str? fallback=None) -> Tensor",
                tags=(torch.Tag.needs_fixed_stride_order,))
_library.define("sdpa_out(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float dropout_p, "
                "bool is_causal, float? scale, bool enable_gqa, Tensor(a!) out) -> ()")
_ATTENTION = ("Tensor q, Tensor k, Tensor v, Tensor? bias=None, Tensor? mask=None, "
              "Tensor? alibi_slopes=None, Tensor? sinks=None, Tensor? kv_lens=None, Tensor? q_starts=None, "
              "Tensor? kv_starts=None, Tensor? block_table=None, Tensor? k_scales=None, Tensor? v_scales=None, "
              "str? kv_dtype=None, bool causal=False, str align='bottom-right', "
              "SymInt? q_offset=None, float? scale=None, SymInt[]? window=None, float? softcap=None, "
              "str layout='bhsd', SymInt? q_len=None, SymInt? kv_len=None, str? o_dtype=None, bool lse=False, "
              "str? variant=None, bool? invariant=None")
_library.define(f"attention({_ATTENTION}) -> (Tensor, Tensor)", tags=(torch.Tag.needs_fixed_stride_order,))
_library.define(f"attention_out(Tensor(a!) out, Tensor(b!)? lse_out, {_ATTENTION}) -> ()",
                tags=(torch.Tag.needs_fixed_stride_order,))
_library.define("quantise(Tensor x, str to, Tensor? scales=None, str share='row') -> (Tensor, Tensor)")
_library.define("quantise_out(Tensor(a!) out, Tensor(b!)? out_scales, Tensor x, str to, Tensor? scales=None, str share='row', "
                "Tensor? slots=None) -> ()")


def _sdpa(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
          scale: Optional[float] = None, enable_gqa: bool = False, fallback: Optional[str] = None) -> Any:
    o = sdpa_now(ADAPTER, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, None, fallback)
    if fallback or defaults["fallback"]:  # what PyTorch computed may lie otherwise in memory than the fake says
        promised = dense_like(o.shape, query.stride() if o.dim() <= 4 else range(o.dim(), 0, -1))
        if o.stride() != promised:
            o = o.new_empty_strided(o.shape, promised).copy_(o)
    return o


def _sdpa_out(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
              scale: Optional[float], enable_gqa: bool, out: Any) -> None:
    sdpa_now(ADAPTER, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, out, None)


def _attention(q: Any, k: Any, v: Any, bias: Any = None, mask: Any = None, alibi_slopes: Any = None,
               sinks: Any = None, kv_lens: Any = None, q_starts: Any = None, kv_starts: Any = None,
               block_table: Any = None, k_scales: Any = None, v_scales: Any = None,
               kv_dtype: Optional[str] = None, causal: bool = False, align: str = "bottom-right",
               q_offset: Optional[int] = None, scale: Optional[float] = None, window: Optional[List[int]] = None,
               softcap: Optional[float] = None, layout: str = "bhsd", q_len: Optional[int] = None,
               kv_len: Optional[int] = None, o_dtype: Optional[str] = None, lse: bool = False,
               variant: Optional[str] = None, invariant: Optional[bool] = None, out: Any = None,
               lse_out: Any = None) -> Tuple[Any, Any]:
    found = attention(q, k, v, bias=bias, mask=mask, alibi_slopes=alibi_slopes, sinks=sinks, kv_lens=kv_lens,
                      q_starts=q_starts, kv_starts=kv_starts, block_table=block_table, k_scales=k_scales,
                      v_scales=v_scales, kv_dtype=kv_dtype, causal=causal, align=align,
                      q_offset=q_offset, scale=scale, window=None if window is None else (window[0], window[1]),
                      softcap=softcap, layout=layout, q_len=q_len, kv_len=kv_len, o_dtype=o_dtype,
                      lse=lse if lse_out is None else lse_out, variant=variant, invariant=invariant, out=out)
    return found if lse else (found, q.new_empty(0, dtype=torch.float32))


def _attention_out(out: Any, lse_out: Any, *features: Any, **named: Any) -> None:
    named.update(out=out, lse_out=lse_out)
    _attention(*features, **named)


def _quantise(x: Any, to: str, scales: Any = None, share: str = "row") -> Tuple[Any, Any]:
    stored, made = quantise(x, to, scales=scales, share=share)
    return stored, x.new_empty(0, dtype=torch.float32) if made is scales else made


def _quantise_out(out: Any, out_scales: Any, x: Any, to: str, scales: Any = None, share: str = "row", slots: Any = None) -> None:
    quantise(x, to, scales=scales, share=share, out=out, out_scales=out_scales, slots=slots)


# ---- their fakes: results of the right sides, strides and types ------------------------------------------------------
# A compiler that would record gradients meets the refusal here: the operator itself, when it runs, no longer sees them.

def _nothing(*arguments: Any, **named: Any) -> None:
    refuse_gradients(*arguments, *named.values())


def _quantise_fake(x: Any, to: str, scales: Any = None, share: str = "row") -> Tuple[Any, Any]:
    refuse_gradients(x, scales)
    width = x.shape[3] // 32 * BLOCKS[to] if to in BLOCKS else x.shape[3]
    stored = x.new_empty(tuple(x.shape[:3]) + (width,), dtype=torch.int8 if to == "int8" else torch.uint8)
    return stored, x.new_empty((0,) if scales is not None or to in BLOCKS else scales_shape(x, share), dtype=torch.float32)


def _sdpa_fake(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
               is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False,
               fallback: Optional[str] = None) -> Any:
    refuse_gradients(query, key, value, attn_mask)
    return order_like(tuple(query.shape[:-1]) + (value.shape[-1],), query)


def _attention_fake(q: Any, k: Any, v: Any, *rest: Any, q_starts: Any = None, layout: str = "bhsd",
                    o_dtype: Optional[str] = None, lse: bool = False, kv_dtype: Optional[str] = None,
                    **others: Any) -> Tuple[Any, Any]:
    refuse_gradients(q, k, v, q_starts, *rest, *others.values())
    named = dict(zip(("bias", "mask", "alibi_slopes", "sinks", "kv_lens", "q_starts", "kv_starts", "block_table",
                      "k_scales", "v_scales", "kv_dtype", "causal", "align", "q_offset", "scale", "window", "softcap",
                      "layout", "q_len", "kv_len", "o_dtype", "lse", "variant", "invariant"), rest))
    q_starts, layout = named.get("q_starts", q_starts), named.get("layout", layout)
    o_dtype, lse = named.get("o_dtype", o_dtype), named.get("lse", lse)
    o = o_like(q, v, o_dtype, named.get("kv_dtype", kv_dtype))
    return o, lse_like(q, q_starts, layout) if lse else torch.empty(0, dtype=torch.float32, device=q.device)


for _name, _body, _fake in (("sdpa", _sdpa, _sdpa_fake), ("sdpa_out", _sdpa_out, _nothing),
                            ("attention", _attention, _attention_fake), ("attention_out", _attention_out, _nothing),
                            ("quantise", _quantise, _quantise_fake), ("quantise_out", _quantise_out, _nothing)):
    for _where in ("CPU", "CUDA"):
        _library.impl(_name, _body, _where)
    torch.library.register_fake("attngen::" + _name, _fake, lib=_library)
