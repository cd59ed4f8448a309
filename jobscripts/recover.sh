# Continues a run in its allocation after a process or a node has failed. train.sbatch and train_hosts.sh source this file.
# docs/jobs.md describes recovery for users.
#
# `run_and_recover ARGUMENT...` starts `trireme train ARGUMENT...`, starts it again after failures, and returns when the run
# has ended. It sets:
#   code          exit code of the last start
#   requeue_for   the reason to requeue the job that outcome.json does not contain, or an empty text
# The script that sources this file defines:
#   job start run       ID of the job, number of times that the job was requeued, run directory
#   nodes per_node      array of all nodes of the allocation, beginning with this script's node; number of ranks on each node
#   signalled           not empty after a signal has asked the script to stop
#   say TEXT            prints a message
#   said FIELD          prints a field of outcome.json
#   on_nodes SCRIPT NODE...
#                       runs `bash -c SCRIPT node "$mark" "$memory"` on each of the nodes, for at most TRIREME_ASK_LIMIT seconds.
#                       Fails if the script fails on any of them
#   ask_to_stop PID     asks the ranks that the launcher PID started to save a checkpoint and stop, and may repeat this forever
#   end_processes PID   kills these ranks
#   may_continue        fails if the job is being ended
#   limit_time          sets the array `limit` to the options of `train` that limit its time

# Number of failures in a row without a step of progress after which the run is still started again. With 0, a failed run is
# never started again.
: "${TRIREME_RETRIES:=3}"
# Number of nodes of the allocation that wait until another node fails.
: "${TRIREME_SPARES:=0}"
# Limits in seconds, by this node's monotonic clock: time without a heartbeat of the run, time for a node to answer, for a
# launcher to end, for `trireme rescue`, and until a recovered start trains.
: "${TRIREME_SILENCE:=120}" "${TRIREME_ASK_LIMIT:=10}" "${TRIREME_END_LIMIT:=30}"
: "${TRIREME_RESCUE_LIMIT:=600}" "${TRIREME_START_LIMIT:=900}"

# Prints the time of this node's monotonic clock in whole seconds.
uptime() { local up rest; read -r up rest < /proc/uptime && echo "${up%.*}"; }
# Waits for half a second. A signal ends the wait, so that its trap runs.
moment() { sleep 0.5 & wait $!; }

# Defines verdict, choose_nodes, place and first_death.
. "${BASH_SOURCE[0]%/*}/recover_rules.sh" || exit 1

### State of the run directory ###

# Succeeds if the current start wrote outcome.json.
is_this_start() {
  local text
  { text=$(< "$run/outcome.json"); } 2> /dev/null || return
  [[ $text == *"\"job\": \"$job\","* && $text =~ \"restart\":\ $start[^0-9] ]] || return
  [[ $text =~ \"recovery\":\ ([0-9]+) ]]
  [ "${BASH_REMATCH[1]-0}" = "$launched" ]
}

# Prints the step of the newest checkpoint, or -1.
newest_step() {
  local path newest=-1 step
  for path in "$run"/checkpoints/step-*/manifest.json; do
    step=${path%/manifest.json} step=${step##*/step-}
    if [[ -e $path && $step =~ ^[0-9]+$ ]] && [ $((10#$step)) -gt $newest ]; then newest=$((10#$step)); fi
  done
  echo $newest
}

# Prints the step of the newest row of history.csv, or nothing.
last_row() { tail -n 1 "$run/history.csv" 2> /dev/null | sed -n 's/^\([0-9][0-9]*\),.*/\1/p'; }

# record SECONDS: adds a row to recoveries.csv. SECONDS is the time from the failure until the new start trained, or empty if the
# new start failed before it trained. docs/reference/tables.md describes the columns.
record() {
  local file=$run/recoveries.csv step=''
  if [ -n "$1" ]; then
    step=$(said step) # before `continued` if the newest checkpoint is damaged, after it if the start has saved another one
    [ "${step:-$continued}" -lt "$continued" ] || step=$continued
  fi
  [ -s "$file" ] || echo 'time,job,restart,recovery,died,nodes_before,nodes_after,ranks,last_step,step,seconds' >> "$file"
  echo "$failed_when,$job,$start,$TRIREME_RECOVERY,${died//[,\"]/;},${before[*]},${use[*]},$((per_node * ${#use[@]})),$lost_at,$step,$1" >> "$file"
}

# continue_with ARGUMENT...: fills `arguments` with the arguments of a start that continues the run. If this job has saved a
# checkpoint, --restart latest replaces --overwrite and --restart DIR, which would ignore the checkpoint.
continue_with() {
  arguments=("$@")
  [ "$(said job)" = "$job" ] && [ "$(newest_step)" -ge 0 ] || return 0
  arguments=()
  while [ $# -gt 0 ]; do
    case $1 in
      --restart) shift ;;
      --restart=* | --or-start | --overwrite) ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  arguments+=(--restart latest)
}

### Actions ###

# Ends the processes that earlier starts left on a node. Their environment contains the mark $1 or an earlier mark of the same
# job. A later mark is left alone, because a slow node may run this script when the next start has begun. Launchers are left
# alone, because they report the end of their ranks. Fails if a process does not end.
sweep='
job=${1%/*} number=${1##*/}
for i in 1 2 3 4 5 6; do
  left=
  for process in $(grep -lazE "^TRIREME_LAUNCHED=$job/" /proc/[0-9]*/environ); do
    process=${process%/environ}
    its=$(tr "\0" "\n" < "$process/environ" | sed -n "s|^TRIREME_LAUNCHED=.*/||p")
    [ "${its%.*}" -lt "${number%.*}" ] || { [ "${its%.*}" -eq "${number%.*}" ] && [ "${its#*.}" -le "${number#*.}" ]; } || continue
    read -r name < "$process/comm" || continue
    case $name in srun | mpiexec* | mpirun* | hydra* | orted* | prted* | ssh | timeout) ;; *) left+=" ${process#/proc/}" ;; esac
  done
  [ -n "$left" ] || exit 0
  kill -KILL $left
  sleep 0.5
done 2> /dev/null
exit 1'

# Fills `answers`: runs `sweep` on all nodes at once and, if that fails, on each node separately.
ask_nodes() {
  local node i pids=()
  answers=()
  if on_nodes "$sweep" "${nodes[@]}" > /dev/null 2>&1; then
    for node in "${nodes[@]}"; do answers[$node]=yes; done
    return
  fi
  [ ${#nodes[@]} -gt 1 ] || return 0
  for ((i = 0; i < ${#nodes[@]}; ++i)); do
    [ $i -lt 64 ] || wait "${pids[i - 64]}" # at most 64 at a time
    on_nodes "$sweep" "${nodes[i]}" > /dev/null 2>&1 &
    pids[i]=$!
  done
  for ((i = 0; i < ${#nodes[@]}; ++i)); do
    if wait "${pids[i]}"; then answers[${nodes[i]}]=yes; fi
  done
}
# Prints the nodes that answered.
answering() {
  local node
  for node in "${nodes[@]}"; do
    [ -z "${answers[$node]-}" ] || echo "$node"
  done
}

# end_launcher PID: ends the ranks of a launcher, and kills the launcher if it is not gone after TRIREME_END_LIMIT.
end_launcher() {
  local until=$(($(uptime) + TRIREME_END_LIMIT))
  # Two ways at the same time, because each may fail: Slurm refuses to kill a step that is about to end, and a node may refuse
  # to start the step that runs `sweep`.
  end_processes "$1" > /dev/null 2>&1 &
  (ask_nodes) > /dev/null 2>&1 &
  while kill -0 "$1" 2> /dev/null; do
    [ "$(uptime)" -lt $until ] || kill -KILL "$1" 2> /dev/null
    moment
  done
}

# Checks the current start once. Sets `trains` when it trains, and `hung` to the reason if it must be ended.
watch() {
  local now lock
  now=$(uptime)
  # If a rank dies, the other ranks wait for it until the launcher ends them. srun does so only after Slurm's KillWait (30 s).
  if grep -qsE "$killed" "$deaths"/*; then
    [ -n "$died_at" ] || died_at=$now
    [ $((now - died_at)) -lt 5 ] || end_launcher "$pid"
  fi
  if [ -z "$trains" ]; then
    if is_this_start; then
      trains=yes seen_at=$now
      [ -z "$died" ] || record $((now - failed_at))
    elif [ -n "$died" ] && [ $((now - seen_at)) -ge "$TRIREME_START_LIMIT" ]; then
      hung="did not train within $TRIREME_START_LIMIT s"
    fi
    return
  fi
  lock=$(stat -c '%y %i' "$run/lock" 2> /dev/null)
  if [ "$lock" != "$seen" ]; then
    seen=$lock seen_at=$now
  elif [ "$TRIREME_SILENCE" -gt 0 ] && [ $((now - seen_at)) -ge "$TRIREME_SILENCE" ]; then
    hung="no heartbeat for $TRIREME_SILENCE s"
  fi
}

# note_deaths FILE: copies its input, the output of a launcher, to its output, and the lines about dead processes to the file.
# Continues to copy if the file cannot be written, because ranks end when nobody reads their output.
note_deaths() {
  trap '' TERM INT HUP USR1
  exec tee -p >(exec grep --line-buffered -E "$death_lines" > "$1") 2> /dev/null
}

# launch ARGUMENT...: runs `trireme train ARGUMENT...` and waits for its end. Sets `code`, `hung` (why the start was ended, or
# empty) and `death` (the output of first_death).
launch() {
  local out err filters=() pid again='' trains='' seen='' seen_at died_at='' deaths i
  deaths=$(mktemp -d) || deaths=/nowhere
  # srun reports dead processes on stderr, and MPICH's mpiexec on stdout.
  exec {err}> >(note_deaths "$deaths/err" >&2)
  filters=($!)
  if [ "${launcher[0]##*/}" = srun ]; then
    exec {out}>&1
  else
    exec {out}> >(note_deaths "$deaths/out")
    filters+=($!)
  fi
  hung='' launched=$TRIREME_RECOVERY mark=$job/$start.$TRIREME_RECOVERY seen_at=$(uptime)
  # In the background, because bash runs traps during `wait`, but not during a foreground command.
  TRIREME_LAUNCHED=$mark "${launcher[@]}" "$TRIREME" train "$@" >&"$out" 2>&"$err" {out}>&- {err}>&- &
  pid=$!
  exec {out}>&- {err}>&-
  while kill -0 $pid 2> /dev/null; do
    if [ -z "$signalled" ]; then
      watch
      [ -z "$hung" ] || end_launcher $pid
    elif [ -z "$again" ]; then # the ranks may not have been running yet, or the signal may have been sent only to the script
      ask_to_stop $pid 2> /dev/null &
      again=$!
    fi
    moment
  done
  [ -z "$again" ] || { kill $again && wait $again; } 2> /dev/null
  wait $pid
  code=$?
  # Do not wait for the filters: a process that outlives the launcher may keep their input open.
  for i in 1 2 3 4; do kill -0 "${filters[@]}" 2> /dev/null && sleep 0.1; done
  [ $code -eq 0 ] || sleep 0.1
  death=$(first_death "$deaths"/*)
  rm -rf "$deaths"
  if [ -z "$trains" ] && [ -n "$died" ]; then
    if is_this_start; then record $(($(uptime) - failed_at)); else record ''; fi
  fi
}

# Runs `trireme rescue` on the nodes that answer. Tries three times, because another node may fail meanwhile. Sets `rescued` to
# yes or no.
rescue() {
  local try answer pid nodes_left
  rescued=no
  for try in 1 2 3; do
    TRIREME_RECOVERY=$((TRIREME_RECOVERY + 1)) # only a later start of the job takes over the lock at once
    nodes_left=($(answering))
    [ ${#nodes_left[@]} -gt 0 ] && [ -z "$signalled" ] || return
    if ! place 1 "${nodes_left[@]}"; then
      say "TRIREME_LAUNCH cannot start \`trireme rescue\` on each node, so the run continues from its checkpoint on disk. Write {hosts} and {ranks} into TRIREME_LAUNCH"
      return
    fi
    mark=$job/$start.$TRIREME_RECOVERY
    TRIREME_LAUNCHED=$mark timeout -k 5 "$TRIREME_RESCUE_LIMIT" "${launcher[@]}" "$TRIREME" rescue "$run" &
    pid=$!
    while kill -0 $pid 2> /dev/null; do moment; done
    wait $pid
    answer=$?
    if [ $answer -eq 0 ]; then
      rescued=yes
      return
    fi
    say "trireme rescue ended with code $answer (attempt $try of 3)"
    ask_nodes
  done
  TRIREME_RECOVERY=$((TRIREME_RECOVERY + 1))
}

# fit_grid ARGUMENT...: chooses a grid for fewer nodes than the run began on. If TRIREME_MACHINE names a machine file, this is
# the fastest grid, and otherwise the grid of the deck. Sets `grid` to overrides of the deck. If no grid fits all nodes in
# `use`, removes nodes from `use`. Fails if no grid fits a single node.
fit_grid() {
  local n ranks deck=() row='s/^ *[0-9.e+-]+ s +[0-9.]+ [A-Za-z]+  (.*)$/\1/p;T;q'
  while [ $# -gt 0 ]; do
    case $1 in
      --restart | --run-dir | --time-limit | --progress) shift ;;
      --*) ;;
      *) deck+=("$1") ;;
    esac
    shift
  done
  for ((n = ${#use[@]}; n > 0; --n)); do
    ranks=$((n * per_node)) grid=()
    if [ -n "${TRIREME_MACHINE-}" ]; then
      grid=($(timeout -k 5 120 "$TRIREME" plan "${deck[@]}" --search --machine "$TRIREME_MACHINE" --ranks $ranks | sed -nE "$row"))
      [ ${#grid[@]} -eq 0 ] || break
    fi
    timeout -k 5 120 "$TRIREME" check "${deck[@]}" --ranks $ranks > /dev/null && break
  done
  use=("${use[@]:0:n}")
  [ $n -gt 0 ]
}

# blame NODE...: counts a failure of each of these nodes.
blame() {
  local node
  for node in "$@"; do
    failed[$node]=$((${failed[$node]:-0} + 1))
    [ $fruitless -eq 0 ] || failed_in_vain[$node]=$((${failed_in_vain[$node]:-0} + 1))
  done
}

# recover VERDICT ARGUMENT...: prepares the next start after a start has ended. The arguments are those of the script. Fails if the
# run must not be started again.
recover() {
  local verdict=$1 node gone=() newest holder='' rest
  shift
  read -r rest holder rest 2> /dev/null < "$run/lock"
  if [ -n "$holder" ] && [ "$holder" != "$job" ]; then
    say "job $holder has taken over $run, so this job ends"
    return 1
  fi
  failed_at=$(uptime) failed_when=$(date -u +%FT%TZ) lost_at=$(last_row) before=("${use[@]}")
  ask_nodes
  for node in "${use[@]}"; do
    [ -n "${answers[$node]-}" ] || gone+=("$node")
  done
  [ "$verdict" = died ] || [ ${#gone[@]} -gt 0 ] || return # the program failed by itself
  died=${hung:-${death:-a process died, and the launcher exited with code $code}}
  [ ${#gone[@]} -eq 0 ] || died="no answer from ${gone[*]}"
  say "the run failed after step ${lost_at:-0}: $died"
  SLURM_OVERLAP=1 # the remains of an earlier step must not delay the next one
  export SLURM_OVERLAP
  rescue
  [ -z "$signalled" ] || { requeue_for="a signal arrived during the recovery" && return 1; }
  newest=$(newest_step)
  if [ "$newest" -gt "$reached" ]; then
    reached=$newest fruitless=0
    for node in "${!failed_in_vain[@]}"; do
      [ "${failed_in_vain[$node]}" -ge 2 ] || unset "failed_in_vain[$node]"
    done
  else
    fruitless=$((fruitless + 1))
  fi
  if [ ${#gone[@]} -gt 0 ]; then
    blame "${gone[@]}"
  elif [[ " ${use[*]} " == *" ${death%% *} "* ]]; then
    blame "${death%% *}"
  fi
  choose_nodes
  continued=$((newest < 0 ? 0 : newest))
  local why=
  if [ "$TRIREME_RETRIES" -eq 0 ]; then
    why="TRIREME_RETRIES is 0"
  elif [ $fruitless -gt "$TRIREME_RETRIES" ]; then
    why="$TRIREME_RETRIES recoveries in a row made no progress"
  elif [ ${#use[@]} -eq 0 ]; then
    why="no node answers"
  elif [ ${#use[@]} -lt "$wanted" ] && ! fit_grid "$@"; then
    why="no grid fits the nodes that answer"
  elif ! place "$per_node" "${use[@]}"; then
    why="TRIREME_LAUNCH cannot choose nodes. Write {hosts} and {ranks} into it"
  fi
  if [ -n "$why" ]; then
    say "the run is not continued in this allocation: $why"
    [ ${#gone[@]} -eq 0 ] && [ ${#use[@]} -gt 0 ] || requeue_for="$died"
    return 1
  fi
  [ ${#use[@]} -lt "$wanted" ] || grid=()
  say "recovery $TRIREME_RECOVERY: continuing after step $continued with $((per_node * ${#use[@]})) ranks on ${use[*]}" \
    "${grid[*]:+(${grid[*]})}"
}

# Removes the job's memory copies from the nodes that answer, unless `trireme rescue` failed.
clear_memory() {
  if [ "$rescued" = no ]; then
    say "copies of the run may remain in $memory on the nodes, because they could not be written as a checkpoint"
    return
  fi
  local left
  left=($(answering))
  [ ${#left[@]} -eq 0 ] || on_nodes 'rm -rf -- "$2"' "${left[@]}" > /dev/null 2>&1 ||
    say "$memory was not removed on all of the nodes ${left[*]}"
}

run_and_recover() {
  local reached fruitless=0 died='' hung='' death='' rescued='' failed_at failed_when lost_at continued before grid=() arguments launcher
  memory=${TRIREME_MEMORY_DIR:-/dev/shm}/trireme-$(id -u)/$job
  requeue_for='' wanted=$((${#nodes[@]} - TRIREME_SPARES))
  if [ $wanted -lt 1 ]; then
    say "TRIREME_SPARES=$TRIREME_SPARES leaves none of ${#nodes[@]} nodes"
    code=1
    return
  fi
  use=("${nodes[@]:0:wanted}") reached=$(newest_step)
  if ! place "$per_node" "${use[@]}"; then
    say "TRIREME_SPARES needs a TRIREME_LAUNCH that can choose nodes: srun, or a command with {hosts} and {ranks}"
    code=1
    return
  fi
  arguments=("$@")
  case $(said recovery) in '' | 0) ;; *) continue_with "$@" ;; esac
  while :; do
    limit_time
    TRIREME_RECOVERED_FROM=$died launch "${arguments[@]}" "${grid[@]}" "${limit[@]}"
    local status='' reason=''
    if is_this_start; then status=$(said status) reason=$(said exit_reason); fi
    verdict=$(verdict "$signalled" "$hung" "$status" "$code" "$reason" "$death")
    [ "$verdict" != over ] && may_continue && recover "$verdict" "$@" || break
    continue_with "$@"
  done
  [ -z "$died" ] || clear_memory
}
