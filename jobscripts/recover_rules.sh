# Decisions of recover.sh, which sources this file. They start nothing and change no file. tests/jobs/recovery_test.py compares
# them with their rules in all cases, and tests/jobs/recovery_model.py searches a model of recovery that asks them.

# By node: whether it answered when last asked; how often it failed; how often it failed in a start without progress.
declare -A answers=() failed=() failed_in_vain=()
# Nodes of the present start, how many nodes a start should have, the number of the present start, and the mark of its processes.
use=() wanted=0 launched=0 mark=

# What launchers write of a process that a signal ended, and of a node that failed.
killed='Killed|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception|on signal|[Nn]ode failure'

# verdict SIGNALLED HUNG STATUS CODE REASON DEATH: what the end of a start means. STATUS and REASON are those of outcome.json,
# empty if this start wrote none. DEATH is the launcher's word on who died first. Prints "over" (it ended as it should, or by an
# error of its own), "died" (a process or a node failed), or "ask" (the same if a node does not answer, or else an error of its
# own).
verdict() {
  local lost_rank='MPI_[A-Za-z_]* failed|NCCL: |is not finished after|longer than run.hang_timeout'
  if [ -n "$1" ] || [ "$3" = "done" ]; then
    echo over
  elif [ "$3" = stopped ]; then
    # After a death, srun sends SIGTERM to the other ranks, which nobody asked for.
    if [[ $6 =~ $killed ]]; then echo died; else echo over; fi
  elif [ -n "$2" ] || [ "$3" = running ]; then
    echo died
  elif [ "$3" = failed ]; then
    if [[ $5 =~ $lost_rank ]]; then echo died; else echo ask; fi
  else
    case $4 in
      0 | 75 | 129 | 130 | 138 | 143 | 10 | 15) echo over ;; # codes of a stop by a signal, as train.sbatch reads them
      9 | 13[1-9] | 1[4-9]? | 2??) echo died ;;              # a process was killed before the run began
      *) echo ask ;;
    esac
  fi
}

# Fills `use` with the nodes of the next start: of the nodes that answer at most `wanted`, in the order of the
# allocation. Nodes in use come first, then spares, then nodes that failed twice. Nodes that failed twice without
# progress are excluded, unless no other node answers.
choose_nodes() {
  local node rank ranked=() excluded='' chosen=' ' count=0
  for node in "${nodes[@]}"; do
    [ -n "${answers[$node]-}" ] || continue
    if [ "${failed_in_vain[$node]:-0}" -ge 2 ]; then
      excluded+=" $node"
      continue
    fi
    [[ " ${use[*]} " == *" $node "* ]] && rank=0 || rank=$((1 + ${failed[$node]:-0}))
    [ "${failed[$node]:-0}" -lt 2 ] || rank=3
    ranked[rank]+=" $node"
  done
  for node in ${ranked[*]:-$excluded}; do
    [ $((count++)) -ge "$wanted" ] || chosen+="$node "
  done
  use=()
  for node in "${nodes[@]}"; do
    [[ $chosen != *" $node "* ]] || use+=("$node")
  done
}

# place RANKS_PER_NODE NODE...: fills `launcher` with the command that starts ranks on these nodes. Fails if
# TRIREME_LAUNCH cannot choose nodes.
place() {
  local each=$1 text=$TRIREME_LAUNCH hosts
  shift
  local ranks=$((each * $#))
  if [[ $text == *'{hosts}'* ]]; then
    printf -v hosts ",%s:$each" "$@"
    text=${text//'{hosts}'/${hosts:1}}
    text=${text//'{ranks}'/$ranks}
    launcher=(${text//'{per_node}'/$each})
    return
  fi
  launcher=($text)
  [ "$each $*" = "$per_node ${nodes[*]}" ] && return # the whole allocation, which launchers know
  if [ "${launcher[0]##*/}" != srun ]; then
    launcher=()
    [ "$ranks $1" = "1 ${nodes[0]}" ] # a process of its own, here
    return
  fi
  printf -v hosts ',%s' "$@"
  launcher+=(--nodes=$# --ntasks=$ranks --ntasks-per-node="$each" --nodelist="${hosts:1}")
}

# Reads what the launcher wrote, from files. Prints the node whose process ended first and how it ended, or nothing.
first_death() {
  sed -nE -e 's/^srun: error: Node failure on ([^][, ]+)$/\1 node failure/p;t' \
    -e 's/^srun: error: ([^][,: ]+): tasks? [0-9,-]+: (.*)$/\1 \2/p;t' \
    -e 's/^=   PID [0-9]+ RUNNING AT ([^ ]+)$/\1 ended/p;t' \
    -e 's/.*process rank [0-9]+ with PID [0-9]+ on node ([^ ]+) (exited .*)$/\1 \2/p' "$@" 2> /dev/null | head -n 1
}
death_lines='^srun: error: (Node failure on|[^:]+: tasks? )|RUNNING AT |process rank [0-9]+ with PID'
