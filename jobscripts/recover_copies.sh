# Memory copies of a run, for recover.sh, which sources this file: when they are rescued, and when they are removed.

# rescue TRIES: runs `trireme rescue` on the nodes that answer. Tries again, because another node may fail meanwhile. After a signal,
# it tries only once, for twice TRIREME_END_LIMIT. Sets `rescued` to one of:
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
    heed "$TRIREME_RESCUE_LIMIT" $((2 * TRIREME_END_LIMIT)) env TRIREME_LAUNCHED="$mark" "${launcher[@]}" "$TRIREME" rescue "$run"
    answer=$?
    printf %s "$words"
    case $answer$words in # a launcher may lose the exit code
      0*'nothing to rescue: no process has an intact copy'* | 0*'nothing to rescue: no memory copy of the run is in'*) rescued=lost ;;
      0*'rescued step '* | 0*'nothing to rescue: '*) rescued=yes ;;
    esac
    [ $rescued = no ] || return
    say "trireme rescue ended with code $answer (attempt $try of $1)"
    [ -z "$signalled" ] || return
    ask_nodes
  done
  TRIREME_RECOVERY=$((TRIREME_RECOVERY + 1))
}

# Succeeds if `trireme rescue` failed although the run has memory copies, which the next start of the run would remove. Says how to
# rescue them by hand.
copies_wait() {
  [ "$rescued" = no ] && [ -e "$run/memory_copies.json" ] || return
  say "memory copies of the run may be in $memory on the nodes, and the next start of the run would remove them. Call" \
    "\`trireme rescue $run\` with one process on each of these nodes, and then continue the run. To continue from the newest" \
    "checkpoint on disk instead, remove $run/memory_copies.json first"
}

# rescue_earlier ARGUMENT...: before the first start, makes a checkpoint from the memory copies that an earlier start left. Fails if
# the run must not be started.
rescue_earlier() {
  [ -e "$run/memory_copies.json" ] || return 0
  [[ " $* " != *' --overwrite '* ]] || [ "$(said job)" = "$job" ] || return 0
  rescue 3
  if [ -n "$signalled" ]; then
    code=75
    return 1
  fi
  copies_wait || return 0
  code=1
  [ "$(answering)" = "$(printf '%s\n' "${nodes[@]}")" ] || requeue_for="trireme rescue failed, and not all nodes answer"
  return 1
}

# Removes the job's memory copies from the nodes, unless they may still be needed.
clear_memory() {
  local left=("${nodes[@]}") others=() node missed=() i pids=()
  [ -z "$asking" ] || left=($(answering))
  if [ "$rescued" = no ] || { [ "$rescued" = lost ] && [ ${#left[@]} -lt ${#nodes[@]} ]; }; then
    say "copies of the run may remain in $memory on the nodes, because they could not be written as a checkpoint"
    return
  fi
  for node in "${left[@]}"; do
    [ "$node" = "$own" ] || others+=("$node")
  done
  local remove="$(declare -f expand); memory=\$(expand \"\$2\") && rm -rf -- \"\$memory\""
  if [ ${#others[@]} -gt 0 ]; then
    on_nodes "$remove" "${others[@]}" > /dev/null 2>&1 &
    if ! within $((TRIREME_ASK_LIMIT + 5)) $!; then # one of them may have left the job since it was asked
      for ((i = 0; i < ${#others[@]}; ++i)); do
        [ $i -lt 64 ] || within $((TRIREME_ASK_LIMIT + 5)) "${pids[i - 64]}" # at most 64 at a time
        on_nodes "$remove" "${others[i]}" > /dev/null 2>&1 &
        pids[i]=$!
      done
      for ((i = 0; i < ${#others[@]}; ++i)); do
        within $((TRIREME_ASK_LIMIT + 5)) "${pids[i]}" || missed+=("${others[i]}")
      done
    fi
  fi
  if [ -n "$own" ]; then
    here "$remove" > /dev/null 2>&1 &
    within $((TRIREME_ASK_LIMIT + 5)) $! || missed+=("$own")
  fi
  [ ${#missed[@]} -eq 0 ] || say "$memory was not removed on ${missed[*]}"
}

# end_run STATUS MAY_CONTINUE: after the last start, whose STATUS outcome.json has. Rescues the memory copies if it has left any, and
# removes them. A run that is done or stopped has removed its copies.
end_run() {
  case $1 in
    done | stopped)
      rescued=yes
      # The nodes need not be asked for empty folders while the job is being stopped.
      [ -n "$died" ] || { [ -z "$signalled" ] && local_copies; } || return
      ;;
    *)
      if [ -z "$rescued" ] && [ -e "$run/memory_copies.json" ]; then
        rescued=no
        if [ "$2" = yes ]; then
          ask_nodes
          rescue 1
        fi
      fi
      # If outcome.json cannot be read, memory_copies.json may exist, too.
      [ -n "$rescued" ] || { [ -e "$run/outcome.json" ] && { [ -n "$died" ] || local_copies; }; } || return
      ;;
  esac
  clear_memory
}
# Succeeds if this node has a folder for memory copies of the job.
local_copies() {
  local folder
  folder=$(expand "$memory") 2> /dev/null && [ -d "$folder" ]
}
