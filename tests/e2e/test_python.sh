#!/bin/bash
# The Python package on NumPy arrays, from the source tree, with the system's Python: its structs against attn.h, and its
# results against the definition. Prints TAP. (make test-python runs what needs PyTorch.)
set -u
cd "$(dirname "$0")/../.."
for python in ${PYTHON:-} python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2> /dev/null && break
    python=
done
[[ -n $python ]] || { echo '1..1'; echo 'not ok 1 - a Python with NumPy; `make deps` installs python3-numpy'; exit 1; }
export PYTHONPATH=$PWD/runtime/python PYTHONDONTWRITEBYTECODE=1
exec "$python" tests/python/run.py test_abi.py test_numpy.py test_surroundings.py 2>&1
