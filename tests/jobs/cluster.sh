#!/bin/bash
# A real Slurm of several virtual nodes on this machine, for tests; nothing of it is installed as a service or outlives
# `stop`. Whoever starts it owns it; root is not needed.
#   cluster.sh start DIR [NODES [CPUS of a node]]   then SLURM_CONF=DIR/slurm.conf reaches it
#   cluster.sh stop DIR
#   cluster.sh try        starts one, runs a task on each node, stops it
# Partitions: main, whose jobs are preempted by those of urgent and requeued.
set -eu
PATH=$PATH:/usr/sbin:/sbin
say() { echo "cluster: $*" >&2; }

for program in munged slurmctld slurmd srun; do
  command -v $program > /dev/null || { say "no $program here: make setup-slurm"; exit 77; }
done

free_ports() { # so many in a row that nobody listens on
  python3 - "$1" << 'P'
import random, socket, sys
n = int(sys.argv[1])
for _ in range(100):
    first, held = random.randrange(20000, 30000), []
    try:
        for port in range(first, first + n):
            held.append(socket.socket())
            held[-1].bind(("127.0.0.1", port))
    except OSError:
        continue
    finally:
        for s in held:
            s.close()
    print(first)
    break
P
}

configure() {
  local user host port
  user=$(id -un) host=$(hostname -s) port=$(free_ports $((nodes + 1)))
  cat << C
ClusterName=trireme_test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock,cred_expire=5
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
MpiDefault=pmi2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$dir/log/jobcomp.txt
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=30
OverTimeLimit=0
SlurmctldTimeout=30
SlurmdTimeout=30
MessageTimeout=60
SlurmdParameters=config_overrides
C
  for ((i = 1; i <= nodes; ++i)); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=$cpus State=UNKNOWN"
  done
  echo "PartitionName=main Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=30"
  echo "PartitionName=urgent Nodes=n[1-$nodes] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF"
}

start() {
  mkdir -p "$dir"/{state,log,run}
  chmod 755 "$dir"
  (umask 077 && head -c 128 /dev/urandom > "$dir/munge.key")
  munged --key-file="$dir/munge.key" --socket="$dir/munge.sock" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/munge.seed" --num-threads=2
  export SLURM_CONF=$dir/slurm.conf
  configure > "$SLURM_CONF"
  slurmctld -f "$SLURM_CONF"
  for ((i = 1; i <= nodes; ++i)); do
    mkdir -p "$dir/spool.n$i"
    slurmd -f "$SLURM_CONF" -N "n$i"
  done
  for ((k = 0; k < 600; ++k)); do
    [ "$(sinfo -h -N -p main -t idle 2> /dev/null | wc -l)" = "$nodes" ] && return
    sleep 0.1
  done
  say "the nodes did not come up; logs are in $dir/log"
  exit 1
}

ended() { # pids: gone within ten seconds, or killed
  for p in "$@"; do
    for ((k = 0; k < 100; ++k)); do
      kill -0 "$p" 2> /dev/null || break
      sleep 0.1
    done
    kill -9 "$p" 2> /dev/null || true
  done
}

stop() {
  export SLURM_CONF=$dir/slurm.conf
  scancel --full -s KILL -u "$(id -un)" 2> /dev/null || true
  scancel -u "$(id -un)" 2> /dev/null || true
  for ((k = 0; k < 50; ++k)); do
    [ -n "$(squeue -h -t R,CG 2> /dev/null)" ] || break
    sleep 0.1
  done
  local pids
  pids=$(cat "$dir"/run/slurmctld.pid "$dir"/run/slurmd.*.pid 2> /dev/null || true)
  scontrol shutdown 2> /dev/null || true
  ended $pids
  [ -s "$dir/run/munged.pid" ] || return 0
  pids=$(cat "$dir/run/munged.pid")
  kill "$pids" 2> /dev/null || true # last, as the others need it to end
  ended "$pids"
}

try() {
  dir=$(mktemp -d)
  chmod 755 "$dir" # munge insists
  trap 'stop; rm -rf "$dir"' EXIT
  start
  srun -N "$nodes" --ntasks-per-node=1 true
  say "Slurm $(srun --version | sed 's/[^0-9]* *//') runs tasks on $nodes virtual nodes"
}

nodes=${3:-3} cpus=${4:-2}
case ${1-} in
  start | stop) dir=$(realpath -m "$2") && $1 ;;
  try) try ;;
  *) say "usage: cluster.sh start|stop DIR [NODES [CPUS]], or cluster.sh try" && exit 1 ;;
esac
