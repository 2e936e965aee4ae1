"""Random arrays of NumPy's for the tests of this folder, and the seed of them all: ATTNGEN_SEED sets it, and it is printed."""
import os
import sys

import numpy as np

SEED = int(os.environ.get("ATTNGEN_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
rng = np.random.default_rng(SEED)
print(f"# ATTNGEN_SEED={SEED}", file=sys.stderr)


def draw(*shape, dtype=np.float32):
    return rng.standard_normal(shape, np.float32).astype(dtype)
