# Decisions of recover.sh, which sources this file. These functions start no process and change no file.
# tests/jobs/recovery_test.py compares them with their rules in all cases, and tests/jobs/recovery_model.py calls them in all
# orders of events of a model.

# By node. answers: not empty if the node answered last time. silent: not empty if it gave no answer while the last launcher was ended.
# refused: not empty if it did not start the command that asks, or an old process on it does not end.
# failed: how often it failed. failed_in_vain: how often it failed in a start without progress.
declare -A answers=() refused=() silent=() failed=() failed_in_vain=()
# Nodes of the current start, number of nodes that a start should have, number of the recovery that began the current start, and
# mark of its processes: JOB/RESTART.RECOVERY, in the environment variable TRIREME_LAUNCHED.
use=() wanted=0 launched=-1 mark=

# Matches the lines in which launchers report a process that a signal ended, or a node that failed.
killed='Killed|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception|on signal|[Nn]ode failure'

# verdict SIGNALLED HUNG STATUS CODE REASON DEATH: prints why a start ended. STATUS and REASON are fields of outcome.json, and empty
# if this start did not write the file. DEATH is the output of first_death. Prints one of:
#   over   the run is done, was stopped, or failed by itself
#   died   a process or a node failed
#   ask    a node failed if one does not answer. Otherwise, the run failed by itself
verdict() {
  local lost_rank='MPI_[A-Za-z_]*( with rank [0-9]+)? failed|NCCL: |is not finished after|longer than run.hang_timeout'
  # Errors of a single rank that a broken device may cause. Insufficient memory is not one of them.
  local bad_device='^rank [0-9]+: .*(CUDA|cuBLASLt|cuDNN [0-9]+): .* failed: ' no_memory='out of memory|MEMORY_ALLOCATION|ALLOC_FAILED'
  if [ -n "$1" ] || [ "$3" = "done" ]; then
    echo over
  elif [ "$3" = stopped ]; then
    # After a death, srun sends SIGTERM to the other ranks, which then stop as if a user had asked for it.
    if [[ $6 =~ $killed && $5 == *"a signal asked for it"* ]]; then echo died; else echo over; fi
  elif [ -n "$2" ] || [ "$3" = running ]; then
    echo died
  elif [ "$3" = failed ]; then
    if [[ $5 =~ $lost_rank ]] || [[ $5 =~ $bad_device && ! $5 =~ $no_memory ]]; then echo died; else echo ask; fi
  else
    case $4 in
      0 | 75 | 129 | 130 | 138 | 143 | 10 | 15) echo over ;; # exit codes after a signal asked for the end, as in train.sbatch
      9 | 13[1-9] | 1[4-9]? | 2??) echo died ;;              # a process was killed before the run began
      *) echo ask ;;
    esac
  fi
}

# Fills `use` with the nodes of the next start: at most `wanted` of the nodes that answer, in the order of the
# allocation. Prefers nodes in use to spares, and spares to nodes that failed twice. Excludes nodes that failed twice without
# progress, unless no other node answers.
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

# changes BEFORE AFTER: prints which of the nodes AFTER replace which of the nodes BEFORE. Both are texts of nodes separated by blanks.
changes() {
  local node lost=() added=() i word=', where'
  for node in $1; do [[ " $2 " == *" $node "* ]] || lost+=("$node"); done
  for node in $2; do [[ " $1 " == *" $node "* ]] || added+=("$node"); done
  for ((i = 0; i < ${#lost[@]} && i < ${#added[@]}; ++i)); do
    printf '%s %s replaces %s' "$word" "${added[i]}" "${lost[i]}"
    word=' and'
  done
  [ ${#lost[@]} -le $i ] || printf ', without %s' "${lost[*]:i}"
  [ ${#added[@]} -le $i ] || printf ', and with %s' "${added[*]:i}"
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
  [ "$each $*" = "$per_node ${nodes[*]}" ] && return # the whole allocation, which is the launcher's default
  if [ "${launcher[0]##*/}" != srun ]; then
    launcher=()
    [ "$ranks $1" = "1 $own" ] # one process on this node, without a launcher
    return
  fi
  printf -v hosts ',%s' "$@"
  launcher+=(--nodes=$# --ntasks=$ranks --ntasks-per-node="$each" --nodelist="${hosts:1}")
}

# first_death FILE...: reads the lines that note_deaths kept. Prints the node whose process ended first and how the process ended,
# or nothing. After the death of a rank, the others abort or are killed, and launchers report this in any order. If the ranks say
# which one rank did not answer, prints "rank N does not answer".
first_death() {
  local line lines=() silent=()
  while read -r line; do
    if [[ $line = 'rank '* ]]; then silent+=("$line"); else lines+=("$line"); fi
  done < <(deaths_in "$@")
  if [ ${#silent[@]} -eq 1 ]; then
    echo "${silent[0]}"
    return
  fi
  for line in "${lines[@]}"; do
    [[ $line =~ 'Aborted'|'Exited with exit code' ]] || break
  done
  [ ${#lines[@]} -eq 0 ] || [[ ! $line =~ 'Aborted'|'Exited with exit code' ]] || line=${lines[0]}
  [ ${#lines[@]} -eq 0 ] || echo "$line"
}
# deaths_in FILE...: prints each node or rank of which the lines say that it failed, and how.
deaths_in() {
  sed -nE -e 's/^ *(rank [0-9]+) \(process [^)]*\) does not answer.*$/\1 does not answer/p;t' \
    -e 's/^srun: error: Node failure on ([^][, ]+)$/\1 node failure/p;t' \
    -e 's/^srun: error: ([^][,: ]+): tasks? [0-9,-]+: (.*)$/\1 \2/p;t' \
    -e 's/^=   PID [0-9]+ RUNNING AT ([^ ]+)$/a process on \1 ended/p;t' \
    -e 's/.*process rank [0-9]+ with PID [0-9]+ on node ([^ ]+) (exited .*)$/a process on \1 \2/p' "$@" 2> /dev/null
}
# node_of_death TEXT: prints the node in the output of first_death.
node_of_death() {
  local text=${1#a process on }
  echo "${text%% *}"
}
# Matches the lines that first_death reads.
death_lines='^srun: error: (Node failure on|[^:]+: tasks? )|RUNNING AT |process rank [0-9]+ with PID|^ *rank [0-9]+ \(process [^)]*\) does not answer'

# expand TEXT: prints the text with the values of environment variables for ${NAME}, by the rules of the program. Fails if one of them
# is not set.
expand() {
  local rest=$1 out='' before name
  while [[ $rest == *'${'* ]]; do
    before=${rest%%'${'*} rest=${rest#*'${'}
    if [[ $before == *'$' ]]; then # $${ means ${
      out+=$before'{'
      continue
    fi
    name=${rest%%'}'*}
    [[ $rest == *'}'* && $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ && -n ${!name+set} ]] || return 1
    out+=$before${!name} rest=${rest#*'}'}
  done
  echo "$out$rest"
}
