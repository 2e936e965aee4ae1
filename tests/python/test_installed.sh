#!/bin/bash
# The Python package as it is installed in an environment with PyTorch, $ATTNGEN_INSTALLED: all tests of this folder. Prints TAP.
set -u
cd "$(dirname "$0")"
unset PYTHONPATH ATTNGEN
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error PYTHONDONTWRITEBYTECODE=1
exec "$ATTNGEN_INSTALLED/bin/python" run.py test_*.py 2>&1
