#!/bin/bash
# For clusters that do not allow requeueing: submits N jobs, each of which resumes the run where the previous job ended.
#   jobscripts/chain.sh 5 --nodes=4 ... jobscripts/train.sbatch DECK [section.key=value ...]
# If the run is done, the remaining jobs end at once. Prints the ids of the jobs. To stop the run early, cancel first the
# jobs that have not begun, and then the running job.
set -eu
if [ $# -lt 2 ] || ! [ "$1" -ge 1 ] 2> /dev/null; then
  echo "usage: chain.sh N [sbatch options] train.sbatch DECK [section.key=value ...]" >&2
  exit 1
fi
jobs=$1
shift
for argument; do
  case $argument in
    --overwrite | --restart*)
      echo "chain.sh: every job of the chain would repeat $argument. Submit the first job by itself, then start the chain without $argument" >&2
      exit 1
      ;;
  esac
done
export TRIREME_REQUEUE=no
after=()
for ((i = 0; i < jobs; ++i)); do
  id=$(sbatch --parsable "${after[@]}" "$@")
  echo "${id%%;*}"
  after=(--dependency=afterany:"${id%%;*}")
done
