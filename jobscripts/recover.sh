# Continues a run in its allocation after a process or a node has failed. train.sbatch and train_hosts.sh source this file.
# docs/jobs.md describes recovery for users.
#
# `run_and_recover ARGUMENT...` starts `trireme train ARGUMENT...`, starts it again after failures, and returns when the run
# has ended. It sets:
#   code          exit code of the last start
#   requeue_for   the reason to requeue the job that outcome.json does not contain, or an empty text
# The script that sources this file defines:
#   job start run       ID of the job, number of times that the job was requeued, run directory
#   nodes per_node      array of all nodes of the allocation; number of ranks on each node
#   own                 this script's node, or an empty text if it is none of them
#   signalled           not empty after a signal has asked the script to stop
#   say TEXT            prints a message
#   said FIELD          prints a field of outcome.json
#   on_nodes SCRIPT NODE...
#                       runs `bash -c SCRIPT node "$mark" "$memory"` on each of the nodes, for at most TRIREME_ASK_LIMIT seconds.
#                       Scripts must use `expand "$2"`, because variables in $memory may not be replaced yet.
#                       Fails if the script fails on any of them: with code 124 or 137 if one of them gave no answer in time
#   ask_to_stop PID     asks the ranks that the launcher PID started to save a checkpoint and stop, and may repeat this forever
#   end_processes PID   kills these ranks
#   may_continue        fails if the job is being ended
#   limit_time          sets the array `limit` to the options of `train` that limit its time
#   asked               not empty if the script has put the nodes that answer into `answers` (recover_rules.sh). Otherwise, all nodes
#                       are taken to answer at first

# Number of failures in a row without a step of progress after which the run is still started again. With 0, a failed run is
# never started again.
: "${TRIREME_RETRIES:=3}"
# Number of nodes of the allocation that wait until another node fails.
: "${TRIREME_SPARES:=0}"
# Limits in seconds, by this node's monotonic clock: time without a heartbeat of the run, time for a node to answer, for a
# launcher to end, for `trireme rescue`, and until a recovered start trains. A first start has four times as long.
: "${TRIREME_SILENCE:=120}" "${TRIREME_ASK_LIMIT:=10}" "${TRIREME_END_LIMIT:=30}"
: "${TRIREME_RESCUE_LIMIT:=600}" "${TRIREME_START_LIMIT:=900}"

# settings_hold: fails if one of these variables has no valid value, and says which.
settings_hold() {
  local name form
  for name in RETRIES SPARES SILENCE ASK_LIMIT END_LIMIT RESCUE_LIMIT START_LIMIT; do
    case $name in *_LIMIT) form='1 to' ;; *) form='0 to' ;; esac
    name=TRIREME_$name
    [[ ${!name} =~ ^(0|[1-9][0-9]{0,5})$ && "$form ${!name}" != '1 to 0' ]] && continue
    say "$name=${!name} must be a whole number from $form 999999, without a unit"
    return 2
  done
}
settings_hold || return

# Defines verdict, choose_nodes, changes, place, first_death and expand.
. "${BASH_SOURCE[0]%/*}/recover_rules.sh" || exit 1
# Defines clock, moment, runs, within, have_place, heed, here, sweep, ask_nodes, answering, all_answer and end_launcher.
. "${BASH_SOURCE[0]%/*}/recover_processes.sh" || exit 1
# Defines is_this_start, newest_step, last_row, taken_over and record.
. "${BASH_SOURCE[0]%/*}/recover_state.sh" || exit 1
# Defines rescue, copies_wait, rescue_earlier and end_run.
. "${BASH_SOURCE[0]%/*}/recover_copies.sh" || exit 1
# Defines recover.
. "${BASH_SOURCE[0]%/*}/recover_failure.sh" || exit 1

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

# Checks the current start once. Sets `trains` when it trains, `copied` to the contents of memory_copies.json if it makes memory copies,
# and `hung` to the reason if it must be ended.
watch() {
  local now lock copies='' words limit=$TRIREME_START_LIMIT
  [ -n "$has_trained" ] || limit=$((4 * limit)) # files are not in the caches of the nodes yet
  heed 60 60 stat -c '%y %i' "$run/lock" 2> /dev/null
  lock=$words
  clock
  # This script was suspended, and the run perhaps with it, or the file system did not answer: the limits begin anew.
  [ $((now - looked_at)) -le 10 ] || seen_at=$now
  looked_at=$now
  # If a rank dies, the other ranks wait for it until the launcher ends them. srun does so only after Slurm's KillWait (30 s).
  if [ -z "$died_at" ]; then
    if grep -aqs 'does not answer' "$deaths"/*; then
      died_at=$((now - 4)) # the ranks have waited for it
    elif grep -aqsE "$killed" "$deaths"/*; then
      died_at=$now
    fi
  fi
  [ -z "$died_at" ] || [ $((now - died_at)) -lt 5 ] || end_launcher "$pid"
  [ -z "$signalled" ] || [ -n "$signalled_at" ] || signalled_at=$now
  [ -z "$trains" ] || read -r -d '' copies 2> /dev/null < "$run/memory_copies.json"
  if [ -n "$copies" ] && ! taken_over; then copied=$copies; fi
  if [ -z "$trains" ]; then
    if is_this_start; then
      trains=yes has_trained=yes seen_at=$now
      [ -z "$died" ] || record $((now - failed_at))
    elif [ $((now - seen_at)) -ge $limit ]; then
      hung="did not train within $limit s"
    elif [ -n "$signalled_at" ] && [ $((now - signalled_at)) -ge $((2 * TRIREME_END_LIMIT)) ]; then # it has nothing to save
      hung="did not end within $((2 * TRIREME_END_LIMIT)) s after a signal"
    fi
  elif [ "$lock" != "$seen" ]; then
    seen=$lock seen_at=$now
  elif [ "$TRIREME_SILENCE" -gt 0 ] && [ $((now - seen_at)) -ge "$TRIREME_SILENCE" ]; then
    hung="no heartbeat for $TRIREME_SILENCE s"
  fi
}

# note_deaths FILE: copies its input, the output of a launcher, to its output, and the lines about dead processes to the file.
# Continues to copy if the file cannot be written, because ranks end when nobody reads their output.
note_deaths() {
  trap '' TERM INT HUP USR1
  exec tee -p >(exec grep -a --line-buffered -E "$death_lines" > "$1") 2> /dev/null
}

# launch ARGUMENT...: runs `trireme train ARGUMENT...` and waits for its end. Sets `code`, `hung` (why the start was ended, or
# empty) and `death` (the output of first_death).
launch() {
  local out err filters=() pid now again='' trains='' seen='' seen_at looked_at signalled_at='' died_at='' stuck='' deaths name=${launcher[0]-} i
  deaths=$(mktemp -d) || deaths=/nowhere
  # srun reports dead processes on stderr, and MPICH's mpiexec on stdout.
  exec {err}> >(note_deaths "$deaths/err" >&2)
  filters=($!)
  if [ "${name##*/}" = srun ]; then
    exec {out}>&1
  else
    exec {out}> >(note_deaths "$deaths/out")
    filters+=($!)
  fi
  hung='' launched=$TRIREME_RECOVERY mark=$job/$start.$TRIREME_RECOVERY rescued='' asking=''
  clock
  seen_at=$now looked_at=$now
  # In the background, because bash runs traps during `wait`, but not during a foreground command.
  TRIREME_LAUNCHED=$mark "${launcher[@]}" "$TRIREME" train "$@" >&"$out" 2>&"$err" {out}>&- {err}>&- &
  pid=$!
  exec {out}>&- {err}>&-
  while runs $pid && [ -z "$stuck" ]; do
    watch
    [ -z "$hung" ] || end_launcher $pid
    if [ -n "$signalled" ] && [ -z "$again" ]; then # the ranks may not have been running yet, or the signal may have been sent only to the script
      [ ${#launcher[@]} -gt 0 ] || kill -TERM $pid 2> /dev/null
      ask_to_stop $pid 2> /dev/null &
      again=$!
    fi
    moment
  done
  { [ -z "$again" ] || ! runs $again || { kill $again && wait $again; }; } 2> /dev/null
  [ -n "$trains" ] || ! is_this_start || has_trained=yes # it ended soon after it trained
  code=137
  if [ -z "$stuck" ]; then
    wait $pid
    code=$?
  fi
  # Do not wait for the filters: a process that outlives the launcher may keep their input open.
  for i in 1 2 3 4; do kill -0 "${filters[@]}" 2> /dev/null && sleep 0.1; done
  [ $code -eq 0 ] || sleep 0.1
  death=$(first_death "$deaths"/*)
  if [[ $death =~ ^rank\ ([0-9]+)\  ]]; then death="${use[BASH_REMATCH[1] / per_node]-} $death"; fi
  rm -rf "$deaths"
  if [ -z "$trains" ] && [ -n "$died" ]; then
    clock
    if is_this_start; then record $((now - failed_at)); else record ''; fi
  fi
}

run_and_recover() {
  local reached fruitless=0 died='' hung='' death='' rescued='' asking='' failed_at failed_when lost_at continued before
  local grid=() arguments launcher status reason goes_on node spares='' copied='' told='' holder='' earlier_job lock_before has_trained=''
  memory=${TRIREME_MEMORY_DIR:-/dev/shm}/trireme-$(id -u)/$job
  code=1 requeue_for='' earlier_job=$(said job) lock_before=$(cat "$run/lock" 2> /dev/null)
  [[ $earlier_job =~ ^[A-Za-z0-9_][A-Za-z0-9._-]*$ ]] || earlier_job=''
  wanted=$((${#nodes[@]} - TRIREME_SPARES))
  if [ $wanted -lt 1 ]; then
    say "TRIREME_SPARES=$TRIREME_SPARES leaves none of ${#nodes[@]} nodes"
    code=1
    return
  fi
  [ -n "$asked" ] || for node in "${nodes[@]}"; do answers[$node]=yes; done
  use=("${nodes[@]:0:wanted}")
  choose_nodes
  if [ ${#use[@]} -lt $wanted ]; then
    say "the run needs $wanted nodes, and ${#use[@]} answer. Correct the list, or leave out the nodes that do not answer"
    code=1
    return
  fi
  if ! place "$per_node" "${use[@]}"; then
    say "TRIREME_SPARES needs a TRIREME_LAUNCH that can choose nodes: srun, or a command with {hosts} and {ranks}"
    code=1
    return
  fi
  rescue_earlier "$@" || return
  place "$per_node" "${use[@]}"
  for node in "${nodes[@]}"; do
    [[ " ${use[*]} " == *" $node "* ]] || [ -z "${answers[$node]-}" ] || spares+=" $node"
  done
  say "starting $((per_node * ${#use[@]})) ranks, $per_node on each of ${use[*]}${spares:+. Spares:$spares}"
  reached=$(newest_step)
  arguments=("$@")
  case $(said recovery) in '' | 0) ;; *) continue_with "$@" ;; esac
  while :; do
    limit_time
    TRIREME_RECOVERED_FROM=$died launch "${arguments[@]}" "${grid[@]}" "${limit[@]}"
    status='' reason='' goes_on=yes
    if is_this_start; then status=$(said status) reason=$(said exit_reason); fi
    verdict=$(verdict "$signalled" "$hung" "$status" "$code" "$reason" "$death")
    [ "$status" = "done" ] || may_continue || goes_on=''
    [ "$verdict" != over ] && [ -n "$goes_on" ] && recover "$verdict" "$@" || break
    continue_with "$@"
  done
  # A failure must not look like an end that a signal asked for.
  case $verdict$signalled$requeue_for:$code in
    died:0 | died:75 | died:129 | died:130 | died:138 | died:143 | died:10 | died:15) code=1 ;;
  esac
  end_run "$status" "$goes_on"
}
