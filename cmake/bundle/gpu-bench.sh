#!/bin/sh
# Speed of the cuda backend here, beside torch where Python has it: gpu-bench.sh [--only 124M], see tests/bench/gpu.py.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/env.sh"
exec python3 "$here/tests/bench/gpu.py" "$here" "$@"
