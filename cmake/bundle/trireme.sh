#!/bin/sh
# Starts the bundle's trireme from anywhere: trireme.sh [-n RANKS] SUBCOMMAND ...
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
. "$here/env.sh"
if [ "${1:-}" = -n ]; then
  ranks=$2
  shift 2
  exec "$here/mpiexec" -n "$ranks" "$here/trireme" "$@"
fi
exec "$here/trireme" "$@"
