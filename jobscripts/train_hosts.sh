#!/bin/bash
# Trains one deck on a list of hosts with mpiexec, without Slurm, and continues after a process or a host has failed:
#   jobscripts/train_hosts.sh n1,n2,n3,n4 8 inputs/llama_7b.toml parallel.pipe=4 zero.stage=3 [section.key=value ...] [--run-dir DIR]
#   jobscripts/train_hosts.sh "$PBS_NODEFILE" 8 DECK ...
# The arguments are the hosts or a file with one host per line, the number of ranks on each host, and the arguments of
# `trireme train`. Run the script on the first host. The script does not recover from a failure of this host. All hosts must see
# the run directory, and must accept a command by ssh without a password. See docs/jobs.md for details.
# Exit code: 0 if the run is done, 75 if you can continue it with the same command, another code after an error.
set -u
trap 'signalled=yes' TERM INT HUP
trap : USR1
signalled=

# The program, as a name or path that all hosts know.
: "${TRIREME:=trireme}"
# The command that starts the ranks. The default is for MPICH and Intel MPI. With 8 ranks on each of n1 and n2, the script replaces
# {hosts} by n1:8,n2:8, {ranks} by 16 and {per_node} by 8. For Open MPI: mpiexec --mca odls_base_sigkill_timeout 60 --host {hosts}
# -n {ranks} -x PATH -x LD_LIBRARY_PATH -x TRIREME_JOB -x TRIREME_RECOVERY -x TRIREME_RECOVERED_FROM -x TRIREME_LAUNCHED
: "${TRIREME_LAUNCH:=mpiexec -hosts {hosts\} -n {ranks\}}"
# The command that runs another command on a host.
: "${TRIREME_SSH:=ssh -o BatchMode=yes -o ConnectTimeout=5}"

say() { echo "train_hosts.sh: $*" >&2; }
if [ $# -lt 3 ] || ! [ "$2" -ge 1 ] 2> /dev/null; then
  echo "usage: train_hosts.sh HOST,HOST,...|FILE RANKS_PER_HOST DECK [section.key=value ...] [options of trireme train]" >&2
  exit 2
fi
. "${BASH_SOURCE[0]%/*}/recover.sh" || exit
# A file may name a host once for each of its cores.
each_once='{ sub(/#.*/, "") } NF && !seen[$1]++ { print $1 }'
if [[ $1 == */* || -e $1 ]]; then
  if [ -d "$1" ] || ! [ -r "$1" ]; then
    say "there is no file $1 that this process can read. Name a file with one host per line, or a list such as n1,n2"
    exit 2
  fi
  mapfile -t nodes < <(awk "$each_once" "$1")
else
  mapfile -t nodes < <(tr , '\n' <<< "$1" | awk "$each_once")
fi
for node in "${nodes[@]}"; do
  [[ ! $node =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || continue
  say "'$node' is not the name of a host. The hosts were read from $1"
  exit 2
done
if [ ${#nodes[@]} -eq 0 ]; then
  say "the list of hosts is empty${1:+: $1 names none}"
  exit 2
fi
per_node=$2
shift 2
case " $* " in
  *' --restart'[\ =]* | *' --overwrite '*) ;;
  *) set -- "$@" --restart latest --or-start ;;
esac

# The ID of this job, by which `trireme` recognizes earlier processes of the job in the run directory.
unset SLURM_JOB_ID SLURM_ARRAY_JOB_ID SLURM_RESTART_COUNT
TRIREME_JOB=${PBS_JOBID:-hosts}-$(hostname)-$$-$(date +%s)
export TRIREME_JOB=${TRIREME_JOB//[^A-Za-z0-9._-]/_} TRIREME_RECOVERY=0
job=$TRIREME_JOB start=0
said() { sed -n "s/^ *\"$1\": \\(.*\\)/\\1/p" "$run/outcome.json" 2> /dev/null | sed 's/,$//; s/^"\(.*\)"$/\1/'; }
heed 300 5 "$TRIREME" train "$@" --print-run-dir
code=$? run=${words%$'\n'}
[ -z "$signalled" ] || exit 75
[ $code -eq 0 ] || exit $code

name=$(hostname) own=''
for node in "${nodes[@]}"; do
  case $node in "$name" | "${name%%.*}" | localhost) own=${own:-$node} ;; esac
done
# The remote login shell need not be bash, so the script and its arguments go over stdin. ssh does not pass on this environment, so
# variables in $memory are replaced here, where mpiexec takes them from, too.
on_nodes() { # SCRIPT NODE...
  local script=$1 node pids=() pid bad=0 there
  shift
  there=$(expand "$memory") || return
  there=${there//'${'/'$${'} # because scripts expand it
  printf -v script '{\nset -- %q %q\n%s\nexit\n}\n' "$mark" "$there" "$script"
  for node; do
    if [ "$node" = "$own" ]; then
      printf %s "$script" | timeout -k 2 "$TRIREME_ASK_LIMIT" bash -s &
    else
      printf %s "$script" | timeout -k 2 "$TRIREME_ASK_LIMIT" $TRIREME_SSH "$node" bash -s &
    fi
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid"
    case $? in
      0) ;;
      124 | 137 | 255) bad=124 ;; # 255: ssh cannot connect
      *) [ $bad -eq 124 ] || bad=1 ;;
    esac
  done
  return $bad
}
# Asks all hosts, because mpiexec would wait without a limit for one that does not answer. Fills `answers`. Says why hosts do not answer.
ask_hosts() {
  local node i pids=() live=() words
  words=$(mktemp -d 2> /dev/null)
  for ((i = 0; i < ${#nodes[@]}; ++i)); do
    have_place $((TRIREME_ASK_LIMIT + 5))
    if [ -n "$words" ]; then on_nodes : "${nodes[i]}" > "$words/$i" 2>&1 & else on_nodes : "${nodes[i]}" & fi
    pids[i]=$! live+=($!)
  done
  for ((i = 0; i < ${#nodes[@]}; ++i)); do
    node=${nodes[i]}
    if within $((TRIREME_ASK_LIMIT + 5)) "${pids[i]}"; then
      answers[$node]=yes
    else
      say "no answer from $node within $TRIREME_ASK_LIMIT s to: $TRIREME_SSH $node bash -s. $(tail -n 1 "$words/$i" 2> /dev/null)"
    fi
  done
  [ -z "$words" ] || rm -rf "$words"
}
ask_to_stop() { kill -TERM "$1"; }
end_processes() { kill -KILL "$1"; } # when mpiexec is gone, its proxies on the hosts end the ranks
may_continue() { :; }
limit_time() { limit=(); }

code=75 requeue_for=
memory= mark=
asked=yes
[ -n "$signalled" ] || ask_hosts
[ -n "$signalled" ] || run_and_recover "$@"
if [ -n "$requeue_for" ]; then
  say "$requeue_for. To continue, start the script again"
  exit 75
fi
# mpiexec may lose the program's exit code, above all after signals, so outcome.json decides.
if is_this_start; then
  case $(said status) in
    done) exit 0 ;;
    stopped)
      say "stopped at step $(said step): $(said exit_reason)"
      exit 75
      ;;
  esac
  reason=$(said exit_reason)
  say "the run ended with code $code: ${reason:-a process was killed, see above}"
  exit $((code == 0 || code == 75 ? 1 : code))
fi
[ -z "$signalled" ] || exit 75
exit $code
