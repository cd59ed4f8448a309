#!/bin/bash
# A real Slurm of several virtual nodes on this machine, for tests; nothing of it is installed as a service or outlives
# `stop`. Whoever starts it owns it; root is not needed.
#   cluster.sh start DIR [NODES [CPUS of a node [SUBNET]]]   then SLURM_CONF=DIR/slurm.conf reaches it
#   cluster.sh stop DIR
#   cluster.sh boot DIR NODE   starts a node again that lost its power
# With a SUBNET such as 10.99.0, each node has a network, processes, a memory file system and a name of its own: node n2 is at
# 10.99.0.2, and `ip link set n2 down` cuts its network. This needs root, and a network namespace for the cluster.
#   cluster.sh try        starts one, runs a task on each node, stops it
# Partitions: main, whose jobs are preempted by those of urgent and requeued.
set -eu
PATH=$PATH:/usr/sbin:/sbin
say() { echo "cluster: $*" >&2; }

for program in munged slurmctld slurmd srun ${5:+ip unshare}; do
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
SlurmctldHost=$host(${subnet:-127.0.0}.${subnet:+25}1)
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
    if [ -n "$subnet" ]; then
      echo "NodeName=n$i NodeAddr=$subnet.$i Port=$((port + i)) CPUs=$cpus State=UNKNOWN"
    else
      echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=$cpus State=UNKNOWN"
    fi
  done
  echo "PartitionName=main Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=30"
  echo "PartitionName=urgent Nodes=n[1-$nodes] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF"
}

# The network of nodes in namespaces.
bridge() {
  ip link set lo up
  ip link add nodes type bridge
  ip addr add "$subnet.251/24" dev nodes
  ip link set nodes up
  { echo "127.0.0.1 localhost" && echo "$subnet.251 $(hostname -s)"; } > "$dir/hosts"
  for ((i = 1; i <= nodes; ++i)); do echo "$subnet.$i n$i" >> "$dir/hosts"; done
  mount --bind "$dir/hosts" /etc/hosts
}

# Process 1 of a node in namespaces. If it is killed, so are all others of the node.
inside='
dir=$1 node=$2 address=$3
read -r pid rest < /proc/self/stat
hostname "$node"
mount -t proc proc /proc
mount -t tmpfs -o size=256m tmpfs /dev/shm
mkdir /dev/shm/etc{,.work}
mount -t overlay -o lowerdir=/etc,upperdir=/dev/shm/etc,workdir=/dev/shm/etc.work overlay /etc
mount --bind "$dir/hosts" /etc/hosts
echo "$pid" > "$dir/run/node.$node.pid"
until ip link set eth0 up; do sleep 0.05; done 2> /dev/null
ip link set lo up
ip addr add "$address/24" dev eth0
slurmd -D -f "$dir/slurm.conf" -N "$node" &
wait'

boot() { # NODE
  local pid=$dir/run/node.$1.pid
  mkdir -p "$dir/spool.$1"
  if [ -z "$subnet" ]; then
    slurmd -f "$SLURM_CONF" -N "$1"
    return
  fi
  rm -f "$pid"
  setsid unshare --mount --net --uts --ipc --pid --fork bash -c "$inside" node "$dir" "$1" "$subnet.${1#n}" > "$dir/log/node.$1.log" 2>&1 < /dev/null &
  until [ -s "$pid" ]; do sleep 0.05; done
  ip link del "$1" 2> /dev/null || true
  ip link add "$1" type veth peer name eth0 netns "$(cat "$pid")"
  ip link set "$1" master nodes up
}

start() {
  mkdir -p "$dir"/{state,log,run}
  echo "$subnet" > "$dir/subnet"
  chmod 755 "$dir"
  (umask 077 && head -c 128 /dev/urandom > "$dir/munge.key")
  munged --key-file="$dir/munge.key" --socket="$dir/munge.sock" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/munge.seed" --num-threads=2
  export SLURM_CONF=$dir/slurm.conf
  configure > "$SLURM_CONF"
  [ -z "$subnet" ] || bridge
  slurmctld -f "$SLURM_CONF"
  for ((i = 1; i <= nodes; ++i)); do boot "n$i"; done
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
  ! pids=$(cat "$dir"/run/node.*.pid 2> /dev/null) || kill -9 $pids 2> /dev/null || true
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

nodes=${3:-3} cpus=${4:-2} subnet=${5-}
case ${1-} in
  start | stop) dir=$(realpath -m "$2") && $1 ;;
  boot)
    dir=$(realpath -m "$2") subnet=$(cat "$2/subnet")
    export SLURM_CONF=$dir/slurm.conf
    boot "$3"
    ;;
  try) try ;;
  *) say "usage: cluster.sh start|stop DIR [NODES [CPUS [SUBNET]]], cluster.sh boot DIR NODE, or cluster.sh try" && exit 1 ;;
esac
