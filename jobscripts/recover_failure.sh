# What recover.sh, which sources this file, does after a failure: finds the nodes that are gone, saves the memory copies, and prepares
# the next start.

# fit_grid ARGUMENT...: chooses a grid for fewer nodes than the run began on. If TRIREME_MACHINE names a machine file, this is
# the fastest grid, and otherwise the grid of the deck. Sets `grid` to overrides of the deck, and `grid_text` to a description with
# the reason. If no grid fits all nodes in `use`, removes nodes from `use`. Fails if no grid fits a single node, or after a signal.
fit_grid() {
  local n ranks deck=() words why row='s/^ *[0-9.e+-]+ s +[0-9.]+ [A-Za-z]+  (.*)$/\1/p;T;q'
  while [ $# -gt 0 ]; do
    case $1 in
      --restart | --run-dir | --time-limit | --progress) shift ;;
      --*) ;;
      *) deck+=("$1") ;;
    esac
    shift
  done
  for ((n = ${#use[@]}; n > 0; --n)); do
    ranks=$((n * per_node)) grid=() why="TRIREME_MACHINE names no machine file"
    if [ -n "${TRIREME_MACHINE-}" ]; then
      why="\`trireme plan --search\` finds no grid for $ranks ranks with $TRIREME_MACHINE"
      heed 120 0 "$TRIREME" plan "${deck[@]}" --search --machine "$TRIREME_MACHINE" --ranks $ranks
      grid=($(printf %s "$words" | sed -nE "$row"))
      [ ${#grid[@]} -eq 0 ] || break
    fi
    heed 120 0 "$TRIREME" check "${deck[@]}" --ranks $ranks && break
    [ -z "$signalled" ] || return
  done
  grid_text="The grid is that of the deck, because $why"
  [ ${#grid[@]} -eq 0 ] || grid_text="The grid is ${grid[*]}, the fastest for $ranks ranks with $TRIREME_MACHINE"
  [ $n -eq ${#use[@]} ] || grid_text="No grid fits more nodes. $grid_text"
  use=("${use[@]:0:n}")
  [ $n -gt 0 ] && [ -z "$signalled" ]
}

# blame NODE...: counts a failure of each of these nodes.
blame() {
  local node
  for node in "$@"; do
    failed[$node]=$((${failed[$node]:-0} + 1))
    [ $fruitless -eq 0 ] || failed_in_vain[$node]=$((${failed_in_vain[$node]:-0} + 1))
  done
}

# find_gone: asks the nodes, up to three times if none can be asked, and fills `gone` with nodes in `use` that do not answer.
find_gone() {
  local node try
  for try in 1 2 3; do
    ask_nodes
    [ -z "$asking" ] && [ -z "$signalled" ] || break
  done
  for node in "${use[@]}"; do
    [ -n "${answers[$node]-}" ] || gone+=("$node")
  done
}

# count_failure: counts a failure of the nodes that are gone, or else of the node in `use` whose process died first. Also counts the
# failures in a row without a newer checkpoint, whose step is `newest`. A newer checkpoint forgives nodes that failed once in vain.
count_failure() {
  local node
  if [ "$newest" -gt "$reached" ]; then
    reached=$newest fruitless=0
    for node in "${!failed_in_vain[@]}"; do
      [ "${failed_in_vain[$node]}" -ge 2 ] || unset "failed_in_vain[$node]"
    done
  else
    fruitless=$((fruitless + 1))
  fi
  node=$(node_of_death "$death")
  if [ ${#gone[@]} -gt 0 ]; then
    blame "${gone[@]}"
  elif [ -n "$node" ] && [[ " ${use[*]} " == *" $node "* ]]; then
    blame "$node"
  fi
}

# prepare_start ARGUMENT...: chooses the nodes, the grid and the launcher of the next start. Sets `why` to the reason if there is none.
prepare_start() {
  choose_nodes
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
}

# recover VERDICT ARGUMENT...: prepares the next start after a start has ended. The arguments are those of the script. Fails if the
# run must not be started again.
recover() {
  local verdict=$1 now gone=() newest why='' grid_text=''
  shift
  ! taken_over || return
  clock
  failed_at=$now failed_when=$(date -u +%FT%TZ) lost_at=$(last_row) before=("${use[@]}")
  find_gone
  if [ "$verdict" != died ]; then # the program failed by itself, unless a node is gone
    [ -n "$asking" ] && [ ${#gone[@]} -gt 0 ] || return
  fi
  died=${hung:-${death:-a process died, and the launcher exited with code $code}}
  [ -n "$signalled" ] || [ -z "$asking" ] || [ ${#gone[@]} -eq 0 ] || died="no answer from ${gone[*]}"
  say "the run failed after step ${lost_at:-0}: $died"
  if [ -n "$signalled" ] && ! all_answer; then
    requeue_for="a signal arrived during the recovery" rescued=no
    return 1
  elif [ -z "$asking" ]; then
    say "the run is not continued in this allocation: no node answers"
    requeue_for="$died" rescued=no
    return 1
  fi
  SLURM_OVERLAP=1 # the remains of an earlier step must not delay the next one
  export SLURM_OVERLAP
  rescue 3
  if [ -n "$signalled" ]; then
    requeue_for="a signal arrived during the recovery"
    return 1
  fi
  if copies_wait; then
    [ ${#gone[@]} -eq 0 ] || requeue_for="$died"
    return 1
  fi
  newest=$(newest_step)
  continued=$((newest < 0 ? 0 : newest))
  count_failure
  prepare_start "$@"
  if [ -n "$signalled" ]; then
    requeue_for="a signal arrived during the recovery"
    return 1
  fi
  if [ -n "$why" ]; then
    say "the run is not continued in this allocation: $why"
    [ ${#gone[@]} -eq 0 ] && [ ${#use[@]} -gt 0 ] || requeue_for="$died"
    return 1
  fi
  if [ ${#use[@]} -ge "$wanted" ]; then
    [ ${#before[@]} -ge "$wanted" ] || grid_text="The grid is that of the deck again"
    grid=()
  fi
  say "recovery $TRIREME_RECOVERY: continuing after step $continued with $((per_node * ${#use[@]})) ranks on" \
    "${use[*]}$(changes "${before[*]}" "${use[*]}")${grid_text:+. $grid_text}"
}
