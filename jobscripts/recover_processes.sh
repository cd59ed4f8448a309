# Processes of recover.sh, which sources this file: commands with deadlines, and the nodes and what earlier starts left on them.

# Sets `now` to the time of this node's monotonic clock in whole seconds. It does not print the time, because a signal may be lost while
# bash 5.2 runs $(...): its trap then fails with a syntax error. Loops that wait therefore avoid $(...).
clock() { local rest; read -r now rest < /proc/uptime && now=${now%.*}; }
# moment [SECONDS]: waits, by default for half a second. A signal ends the wait, so that its trap runs.
moment() { sleep "${1-0.5}" & wait $!; }

# runs PID: succeeds if the process is a child of this shell and has not ended. Unlike `kill -0`, it is not misled by another
# process that has got the number of a child that ended.
runs() {
  local stat
  { read -r stat < "/proc/$1/stat"; } 2> /dev/null || return
  stat=${stat##*) }
  [[ $stat == [!ZX]" $BASHPID "* ]]
}

# within SECONDS PID: waits for a child, and kills it after these seconds. Returns its exit code, or 124 if it was killed. `timeout`
# alone is not enough, because it waits for a command that hangs in a system call.
within() {
  local now until
  clock
  until=$((now + $1))
  while runs "$2"; do
    clock
    if [ "$now" -ge $until ]; then
      kill -KILL "$2" 2> /dev/null
      return 124
    fi
    moment 0.1
  done
  wait "$2"
}

# have_place SECONDS: waits until fewer than 64 of the processes in `live` run, and kills one of them after these seconds. Removes ended
# processes from `live`.
have_place() {
  local now until pid all
  clock
  until=$((now + $1))
  while :; do
    all=("${live[@]}") live=()
    for pid in "${all[@]}"; do ! runs "$pid" || live+=("$pid"); done
    [ ${#live[@]} -ge 64 ] || return 0
    [ "$now" -lt $until ] || kill -KILL "${live[0]}" 2> /dev/null
    moment 0.1
    clock
  done
}

# heed SECONDS SECONDS_AFTER_SIGNAL COMMAND...: runs a command, and ends it after these seconds, the second number of which counts
# from a signal to this script. Sets `words` to the output of the command. Returns its exit code, or 124 if it did not end.
heed() {
  local until now after=$2 child='' part='' line hurried='' ends=(TERM KILL) out
  clock
  until=$((now + $1))
  shift 2
  words=''
  exec {out}< <(
    { echo $BASHPID && exec "$@"; } < /dev/null &
    trap '' TERM INT HUP USR1
    wait $!
    printf '\nended with code %s\n' $?
  )
  while :; do
    line=''
    if IFS= read -r -t 0.5 line <&"$out"; then
      line=$part$line part=''
      if [[ $line =~ ^'ended with code '([0-9]+)$ ]]; then
        exec {out}<&-
        return "${BASH_REMATCH[1]}"
      elif [ -z "$child" ]; then
        child=$line
      elif [ -n "$line" ]; then
        words+=$line$'\n'
      fi
    elif [ $? -gt 128 ]; then # the line is not complete yet
      part+=$line
    else
      break
    fi
    clock
    if [ -n "$signalled" ] && [ -z "$hurried" ]; then
      hurried=yes
      [ $((now + after)) -ge $until ] || until=$((now + after))
    fi
    [ "$now" -ge $until ] || continue
    [ ${#ends[@]} -gt 0 ] || break
    [ -z "$child" ] || kill -"${ends[0]}" "$child" 2> /dev/null
    ends=("${ends[@]:1}") until=$((now + 5))
  done
  exec {out}<&-
  return 124
}

# Ends the processes that earlier starts left on a node. Their environment contains the mark $1 or an earlier mark of the same
# job. A later mark is left alone, because a slow node may run this script when the next start has begun. Launchers are left
# alone, because they report the end of their ranks. If a process does not end, fails before TRIREME_ASK_LIMIT has passed, because a
# node that does not answer in time counts as gone. A process that is about to end loses its environment first, so the script
# remembers the processes that it has found.
sweep="limit=$((TRIREME_ASK_LIMIT > 5 ? TRIREME_ASK_LIMIT - 3 : (TRIREME_ASK_LIMIT + 1) / 2)) SECONDS=0"'
job=${1%/*} number=${1##*/}
declare -A found=()
ended() { # PROCESS: a process ends with its last thread
  local stat threads
  read -r stat < "$1/stat" || return 0
  stat=${stat##*) } threads=("$1"/task/*)
  [[ $stat == [ZX]* ]] && [ ${#threads[@]} -le 1 ]
}
for i in {1..16}; do
  for process in $(grep -lazF "TRIREME_LAUNCHED=$job/" /proc/[0-9]*/environ); do
    process=${process%/environ} its=
    while IFS= read -r -d "" line; do
      [[ $line != "TRIREME_LAUNCHED=$job/"* ]] || its=${line##*/}
    done < "$process/environ"
    [[ $its =~ ^[0-9]+\.[0-9]+$ ]] || continue
    [ "${its%.*}" -lt "${number%.*}" ] || { [ "${its%.*}" -eq "${number%.*}" ] && [ "${its#*.}" -le "${number#*.}" ]; } || continue
    read -r name < "$process/comm" || continue
    case $name in
      srun | mpiexec* | mpirun* | hydra* | orted* | prted* | prterun* | ssh | timeout) continue ;;
    esac
    found[${process#/proc/}]=yes
    kill -KILL "${process#/proc/}"
  done
  for process in "${!found[@]}"; do
    ! ended "/proc/$process" || unset "found[$process]"
  done
  [ ${#found[@]} -gt 0 ] || exit 0
  [ $SECONDS -lt $limit ] || break
  sleep 0.5
done 2> /dev/null
exit 1'

# Runs a script on this node, like on_nodes.
here() { timeout -k 2 "$TRIREME_ASK_LIMIT" bash -c "$1" node "$mark" "$memory"; }

# note_answer NODE SECONDS PID: waits for a process that asks the node, and notes its answer: yes, no (the node refuses, or an old
# process does not end), or none in time.
note_answer() {
  within "$2" "$3"
  case $? in
    0) answers[$1]=yes asking=yes ;;
    124 | 137) ;;
    *) refused[$1]=yes ;;
  esac
}

# Runs `sweep` on all nodes in one step and, if that fails or takes longer than two seconds, on each node separately, because one step
# waits for a node that does not answer. If a signal asked this script to stop, there is only the one step. Waits for nodes that were
# `silent` just now only one second longer than for the others. Also runs `sweep` on this node directly. Fills `answers` and `refused`.
# Sets `asking` to yes if at least one node could be asked. Otherwise, the command that asks has failed, not the nodes.
ask_nodes() {
  local node i now pids=() live=() mine='' limit=$((TRIREME_ASK_LIMIT + 5)) asked=() all='' until
  local -A again=()
  answers=() asking='' refused=()
  if [ -n "$own" ]; then
    here "$sweep" > /dev/null 2>&1 &
    mine=$!
  fi
  if [ "${nodes[*]}" = "$own" ]; then
    asking=yes
  else
    for node in "${nodes[@]}"; do
      if [ -z "${silent[$node]-}" ]; then
        asked+=("$node")
      elif [ ${#again[@]} -lt 64 ]; then
        on_nodes "$sweep" "$node" > /dev/null 2>&1 &
        again[$node]=$!
      fi
    done
    if [ ${#asked[@]} -gt 1 ]; then
      on_nodes "$sweep" "${asked[@]}" > /dev/null 2>&1 &
      all=$!
      clock
      until=$((now + 2))
      while runs $all && [ "$now" -lt $until ]; do
        moment 0.1
        clock
      done
    fi
    if [ -n "$all" ] && ! runs $all && wait $all; then
      asking=yes
      for node in "${asked[@]}"; do answers[$node]=yes; done
    elif [ -n "$all" ] && [ -n "$signalled" ]; then
      if within $limit $all; then
        asking=yes
        for node in "${asked[@]}"; do answers[$node]=yes; done
      fi
    else
      for ((i = 0; i < ${#asked[@]}; ++i)); do
        have_place $limit
        on_nodes "$sweep" "${asked[i]}" > /dev/null 2>&1 &
        pids[i]=$! live+=($!)
      done
      for ((i = 0; i < ${#asked[@]}; ++i)); do
        note_answer "${asked[i]}" $limit "${pids[i]}"
      done
      if [ -n "$all" ] && within 0 $all; then # it was slow
        for node in "${asked[@]}"; do answers[$node]=yes asking=yes; done
      fi
    fi
    clock
    until=$((now + 1))
    for node in "${!again[@]}"; do
      clock
      note_answer "$node" $((until > now ? until - now : 0)) "${again[$node]}"
    done
  fi
  silent=()
  [ -n "$mine" ] || return 0
  answers[$own]=''
  if within $limit $mine; then answers[$own]=yes; fi
}
# Prints the nodes that answered.
answering() {
  local node
  for node in "${nodes[@]}"; do
    [ -z "${answers[$node]-}" ] || echo "$node"
  done
}
# Succeeds if all nodes answered.
all_answer() { [ "$(answering)" = "$(printf '%s\n' "${nodes[@]}")" ]; }

# end_launcher PID: ends the ranks of a launcher. Kills the launcher after TRIREME_END_LIMIT, or earlier if a node does not answer and
# the nodes that answer have no ranks any more. Sets `stuck` if the launcher is not gone even then. Sets `silent` to the nodes that give
# no answer in time. A node that refuses may only be slow to end its ranks, so that it is asked again like all others.
end_launcher() {
  local now until last helpers=() found asked='' node i
  found=$(mktemp) || found=/dev/null
  clock
  until=$((now + TRIREME_END_LIMIT)) last=$((now + 2 * TRIREME_END_LIMIT))
  # Two ways at the same time, because each may fail: Slurm refuses to kill a step that is about to end, and a node may refuse
  # to start the step that runs `sweep`.
  end_processes "$1" > /dev/null 2>&1 &
  helpers=($!)
  (ask_nodes && { answering && printf 'no %s\n' "${!refused[@]}"; } > "$found") > /dev/null 2>&1 &
  helpers+=($!)
  while runs "$1"; do
    clock
    if [ "$now" -ge $last ]; then
      say "the launcher, process $1, does not end although it was killed. The script does not wait for it any more"
      stuck=yes
      break
    fi
    # srun waits for its tasks on a node without a network for longer than Slurm's KillWait.
    if [ -z "$asked" ] && ! runs "${helpers[1]}"; then
      asked=yes
      i=$(grep -cv '^no ' "$found")
      if [ "$i" -gt 0 ] && [ "$i" -lt ${#nodes[@]} ] && [ $until -gt $now ]; then until=$now; fi
    fi
    [ "$now" -lt $until ] || kill -KILL "$1" 2> /dev/null
    moment
  done
  # end_processes ends what it finds by name, so it must not run during the next start.
  within $((2 * TRIREME_ASK_LIMIT + 10)) "${helpers[0]}"
  within $((2 * TRIREME_ASK_LIMIT + 10)) "${helpers[1]}"
  if grep -qv '^no ' "$found"; then
    for node in "${nodes[@]}"; do
      grep -qxF -e "$node" -e "no $node" "$found" || silent[$node]=yes
    done
  fi
  [ "$found" = /dev/null ] || rm -f "$found"
}
