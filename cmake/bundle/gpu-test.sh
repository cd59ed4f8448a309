#!/bin/sh
# Checks the cuda backend here: gpu-test.sh [--only NAME] [--list], see tests/gpu/run.py.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/env.sh"
exec python3 "$here/tests/gpu/run.py" "$here" "$@"
