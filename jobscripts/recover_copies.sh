# Memory copies of a run, for recover.sh, which sources this file: when they are rescued, and when they are removed.

# rescue TRIES: runs `trireme rescue` on the nodes that answer. Tries again, because another node may fail meanwhile. After a signal,
# it tries only once, for TRIREME_END_LIMIT. Sets `rescued` to one of:
#   yes    the copies are on disk, or are not needed
#   lost   the nodes that answer do not have a complete copy
#   no     `trireme rescue` failed
rescue() {
  local try answer words nodes_left
  rescued=no
  for ((try = 1; try <= $1; ++try)); do
    # Only a start with a higher number takes over the lock at once.
    [ $try -eq 1 ] && [ "$TRIREME_RECOVERY" != "$launched" ] || TRIREME_RECOVERY=$((TRIREME_RECOVERY + 1))
    nodes_left=($(answering))
    [ ${#nodes_left[@]} -gt 0 ] || return
    # Several processes on a node do no harm.
    if ! place 1 "${nodes_left[@]}" && ! { [ "${nodes_left[*]}" = "${nodes[*]}" ] && place "$per_node" "${nodes[@]}"; }; then
      say "TRIREME_LAUNCH cannot start \`trireme rescue\` on each node. Write {hosts} and {ranks} into it"
      return
    fi
    mark=$job/$start.$TRIREME_RECOVERY
    heed "$TRIREME_RESCUE_LIMIT" $TRIREME_END_LIMIT env TRIREME_LAUNCHED="$mark" "${launcher[@]}" "$TRIREME" rescue "$run"
    answer=$?
    printf %s "$words"
    case $answer$words in # a launcher may lose the exit code
      0*'nothing to rescue: no process has an intact copy'* | 0*'nothing to rescue: no memory copy of the run is in'*) rescued=lost ;;
      0*'rescued step '* | 0*'nothing to rescue: '*) rescued=yes ;;
    esac
    [ $rescued = no ] || return
    say "trireme rescue ended with code $answer (attempt $try of $1)"
    ask_nodes # and ends what is left of its processes
    [ -z "$signalled" ] || return
  done
  TRIREME_RECOVERY=$((TRIREME_RECOVERY + 1))
}

# Succeeds if `trireme rescue` failed although the run has memory copies, which the next start of the run would remove. Says how to
# rescue them.
copies_wait() {
  [ "$rescued" = no ] && [ -e "$run/memory_copies.json" ] || return
  told=yes
  say "memory copies of the run may be in $memory on the nodes, and \`trireme train\` would remove them. Correct the cause, and" \
    "start this script again on the same nodes, or call \`${TRIREME_MEMORY_DIR:+TRIREME_MEMORY_DIR='$TRIREME_MEMORY_DIR' }trireme" \
    "rescue $run\` with one process on each of these nodes. To continue from the newest checkpoint on disk instead, remove" \
    "$run/memory_copies.json first"
}

# rescue_earlier ARGUMENT...: before the first start, makes a checkpoint from the memory copies that an earlier start left. Fails if
# the run must not be started.
rescue_earlier() {
  [ -e "$run/memory_copies.json" ] || return 0
  copied=earlier
  [[ " $* " != *' --overwrite '* ]] || [ "$(said job)" = "$job" ] || return 0
  rescue 3
  if [ -n "$signalled" ]; then
    [ "$rescued" != no ] || say "a signal arrived before memory copies of an earlier start were rescued. The next start of this script rescues them"
    code=75
    return 1
  fi
  copies_wait || return 0
  code=1
  all_answer || requeue_for="trireme rescue failed, and not all nodes answer"
  return 1
}

# Prints the step of the newest complete memory copy of the newest start on this node, or nothing.
copied_step() {
  local folder path step newest='' start
  folder=$(expand "$memory") && start=$(sed -n 's/^ *"start": *"\([A-Za-z0-9._-]*\)".*/\1/p' "$run/memory_copies.json") || return
  for path in "$folder"/*/"${start:-none}"/*/step-*/copy.json; do
    step=${path%/copy.json} step=${step##*/step-}
    if [[ -e $path && $step =~ ^[0-9]+$ ]] && [ $((10#$step)) -gt "${newest:--1}" ]; then newest=$((10#$step)); fi
  done 2> /dev/null
  echo "$newest"
}

# Succeeds if the memory copies on the nodes may be newer than the newest checkpoint, and says where they remain and how to use them.
copies_remain() {
  local step newest why="they could not be written as a checkpoint"
  [ -e "$run/memory_copies.json" ] || return
  step=$(copied_step 2> /dev/null) newest=$(newest_step)
  [ -z "$step" ] || [ "$step" -gt "$newest" ] || return
  [ -z "$signalled" ] || why="a signal ended this job before they were rescued"
  ! taken_over || why="job $holder may be rescuing them"
  [ "$newest" -ge 0 ] && newest="The newest checkpoint is of step $newest" || newest="There is no checkpoint"
  [ -n "$told" ] || say "memory copies${step:+ of step $step} remain in $memory on ${nodes[*]}, because $why. $newest." \
    "The next start of this script rescues the copies if it is on these nodes. To give them up, remove the folder on each node"
}

# Removes the job's memory copies from the nodes, unless they may still be needed. Also removes the empty folder of an earlier job of
# the run, whose copies a start has removed. The folder of the user stays, because another job may be creating a folder in it.
clear_memory() {
  local left=("${nodes[@]}") others=() node missed=() i pids=() live=() remove
  [ -z "$asking" ] || left=($(answering))
  if [ "$rescued" = no ] || { [ "$rescued" = lost ] && [ ${#left[@]} -lt ${#nodes[@]} ]; }; then
    ! copies_remain || return
  fi
  for node in "${left[@]}"; do
    [ "$node" = "$own" ] || others+=("$node")
  done
  [ "$rescued" != no ] || [ -n "$asking" ] || { missed=("${others[@]}") && others=(); } # no node answers
  [ "$(said job)" = "$job" ] || earlier_job='' # the earlier job may still train
  printf -v remove '%s; memory=$(expand "$2") && { rm -rf -- "$memory" || exit; rmdir -- "${memory%%/*}"/%q; true; }' \
    "$(declare -f expand)" "${earlier_job:-.none}"
  if [ ${#others[@]} -gt 0 ]; then
    on_nodes "$remove" "${others[@]}" > /dev/null 2>&1 &
    if ! within $((TRIREME_ASK_LIMIT + 5)) $!; then # one of them may have left the job since it was asked
      missed=("${others[@]}")
      if [ -z "$signalled" ]; then
        missed=()
        for ((i = 0; i < ${#others[@]}; ++i)); do
          have_place $((TRIREME_ASK_LIMIT + 5))
          on_nodes "$remove" "${others[i]}" > /dev/null 2>&1 &
          pids[i]=$! live+=($!)
        done
        for ((i = 0; i < ${#others[@]}; ++i)); do
          within $((TRIREME_ASK_LIMIT + 5)) "${pids[i]}" || missed+=("${others[i]}")
        done
      fi
    fi
  fi
  if [ -n "$own" ]; then
    here "$remove" > /dev/null 2>&1 &
    within $((TRIREME_ASK_LIMIT + 5)) $! || missed+=("$own")
  fi
  # A run that is done or stopped has left only empty folders.
  [ ${#missed[@]} -eq 0 ] || [ "$1" = "done" ] || [ "$1" = stopped ] || [ -z "$copied" ] || say "$memory was not removed on ${missed[*]}"
}

# end_run STATUS MAY_CONTINUE: after the last start, whose STATUS outcome.json has. Rescues the memory copies if it has left any, and
# removes them. A run that is done or stopped has removed its copies.
end_run() {
  if [ "$1" = "done" ] || [ "$1" = stopped ]; then
    rescued=yes
  elif taken_over; then
    leave_to_holder
  elif [ -z "$rescued" ] && [ -e "$run/memory_copies.json" ]; then
    rescued=no
    if [ "$2" = yes ]; then
      ask_nodes
      [ -n "$signalled" ] && ! all_answer || rescue 1
    fi
  fi
  # If outcome.json cannot be read, memory_copies.json may exist, too.
  [ -n "$rescued" ] || [ -e "$run/outcome.json" ] || return
  [ -z "$copied$died" ] && ! local_copies || clear_memory "$1"
}
# Succeeds if this node has a folder for memory copies of the job.
local_copies() {
  local folder
  folder=$(expand "$memory") 2> /dev/null && [ -d "$folder" ]
}

# The memory copies of this job are not needed any more if another job has taken over the run, unless the other job may be rescuing them.
leave_to_holder() {
  say "job $holder has taken over $run, so this job ends"
  rescued=yes
  if [ -n "$copied" ] && [ "$(cat "$run/memory_copies.json" 2> /dev/null)" = "$copied" ]; then rescued=no; fi
}
