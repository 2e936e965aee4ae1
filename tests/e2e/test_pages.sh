#!/bin/bash
# The documents against what is here (pages.py beside this). Prints TAP.
set -u
cd "$(dirname "$0")/../.."
for python in ${PYTHON:-} python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2> /dev/null && break
    python=
done
[[ -n $python ]] || { echo '1..1'; echo 'not ok 1 - a Python with NumPy; `make deps` installs python3-numpy'; exit 1; }
exec "$python" tests/e2e/pages.py 2>&1
