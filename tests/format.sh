#!/bin/sh
# tests/format.sh -i formats every source; tests/format.sh says which ones are not and fails.
cd "$(dirname "$0")/.." || exit 1
tool=$(command -v clang-format-14 || command -v clang-format)
# Other versions break lines elsewhere.
if [ -z "$tool" ] || ! "$tool" --version | grep -q "version 14\."; then
  echo "format: clang-format 14 is needed, found: ${tool:-none} ($([ -n "$tool" ] && "$tool" --version)); apt-get install clang-format-14" >&2
  exit 1
fi
[ "${1:-}" = -i ] && how=-i || how="--dry-run -Werror"
find lib kernels app tests cmake -type f \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 2> /dev/null |
  xargs -0 -P "$(nproc)" -n 20 "$tool" $how || { echo "format: make format mends the lines above" >&2; exit 1; }
