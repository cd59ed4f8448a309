# State of the run directory, for recover.sh, which sources this file.

# Succeeds if the current start wrote outcome.json.
is_this_start() {
  local text=''
  read -r -d '' text 2> /dev/null < "$run/outcome.json"
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

# Succeeds if another job has locked the run directory since this script began. Sets `holder` to the job that holds the lock. An older
# lock may be that of an earlier job, for whose end the program waits.
taken_over() {
  local rest
  holder=''
  read -r rest holder rest 2> /dev/null < "$run/lock"
  [ -n "$holder" ] && [ "$holder" != "$job" ] && [ "$(cat "$run/lock" 2> /dev/null)" != "${lock_before-}" ]
}

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
