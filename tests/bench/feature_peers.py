#!/usr/bin/env python3
"""feature_peers.py - what PyTorch takes on a GPU for attention with a bias, a mask or ALiBi: cuDNN and the memory-efficient
kernel through scaled_dot_product_attention, FlexAttention compiled. Beside it, in one sitting, stands

    out/bin/attngen bench --device opencl --dtype bf16 --shape 4,16,16,4096,4096,128 [--bias bf16 | --mask random | --alibi random]

after `attngen tune` of the same. What it is not: a comparison by rounds that alternate, as bench_gpu.py makes.
"""
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench_gpu import median, timed

BATCH, HEADS, LENGTH, DIM = 4, 16, 4096, 128
WARM, ROUNDS, LAUNCHES = 8, 10, 4


def milliseconds(run):
    """The median round, of one launch."""
    for _ in range(WARM):
        run()
    torch.cuda.synchronize()
    return median([timed(torch, run, LAUNCHES) for _ in range(ROUNDS)])


def say(what, run):
    try:
        print(f"{what}: {milliseconds(run):.3f} ms", flush=True)
    except Exception as error: # each backend refuses in its own way
        print(f"{what}: refused, {str(error).splitlines()[0]}", flush=True)


def main():
    q, k, v = (torch.randn(BATCH, HEADS, LENGTH, DIM, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    pairs = (BATCH, HEADS, LENGTH, LENGTH)
    masks = {"plain": lambda: None,
             "bias bf16": lambda: torch.randn(pairs, device="cuda", dtype=torch.bfloat16),
             "bool mask": lambda: torch.rand(pairs, device="cuda") > 0.1}
    for name, backend in ("cuDNN", SDPBackend.CUDNN_ATTENTION), ("memory-efficient", SDPBackend.EFFICIENT_ATTENTION):
        for what, make in masks.items():
            mask = make()
            with sdpa_kernel(backend):
                say(f"{name}, {what}",
                    lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))

    from torch.nn.attention.flex_attention import flex_attention
    flex, slopes = torch.compile(flex_attention), torch.rand(HEADS, device="cuda")
    say("FlexAttention, ALiBi",
        lambda: flex(q, k, v, score_mod=lambda s, b, h, i, j: s - slopes[h] * (i - j).abs()))


if __name__ == "__main__":
    main()
