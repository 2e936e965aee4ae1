#!/usr/bin/env python3
"""Prints TFLOP/s of a dense bf16 product of 8192 cubed, by PyTorch: what bench_ladder compares its rungs with."""
from bench_gpu import dense_product

print(f"{dense_product():.1f}")
