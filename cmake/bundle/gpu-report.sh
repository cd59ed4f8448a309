#!/bin/sh
# Checks and measures what is new on the GPU of this machine: gpu-report.sh [--record FILE], see tests/gpu/report.py.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/env.sh"
exec python3 "$here/tests/gpu/report.py" "$here" "$@"
