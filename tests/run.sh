#!/bin/sh
# tests/run.sh BUILD JOBS [ctest options]: runs the tests and ends with one line, "N passed, N failed": of the cases of
# GoogleTest programs, each of which counts, and of the other tests.
set -u
build=$1
jobs=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
output=$build/test.log
counts=$build/counts # of the cases of programs, by tests/cases/run.py

# Threads that spin while another test holds the core cost more than the tests themselves.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" OMP_WAIT_POLICY=passive
export UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS="suppressions=$here/support/lsan.supp:print_suppressions=0"
# Other settings and numbers are drawn each day.
export TRIREME_FUZZ_SEED="${TRIREME_FUZZ_SEED:-$(date +%Y%m%d)}"
echo "what tests draw comes of TRIREME_FUZZ_SEED=$TRIREME_FUZZ_SEED"

# Nothing here may install anything, nor ask for the right to.
guard=$(cd "$build" && pwd)/guard
rm -rf "$guard" "$counts" && mkdir "$guard" "$counts" || exit 1
for tool in apt-get apt sudo; do
  printf '#!/bin/sh\necho "%s $*" | tee -a "%s/called" >&2\nexit 1\n' "$tool" "$guard" > "$guard/$tool"
  chmod +x "$guard/$tool"
done
export PATH="$guard:$PATH"

{
  ctest --test-dir "$build" -j "$jobs" --timeout 240 --output-on-failure --no-label-summary "$@" 2>&1
  echo $? > "$output.code"
} | tee "$output"
code=$(cat "$output.code")
line=$(grep -E "tests passed, [0-9]+ tests? failed out of [0-9]+" "$output" | tail -1)
failed=$(echo "$line" | sed -n 's/.*passed, \([0-9]*\) tests\{0,1\} failed.*/\1/p')
total=$(echo "$line" | sed -n 's/.*failed out of \([0-9]*\).*/\1/p')
skipped=$(grep -c "\*\*\*Skipped" "$output")
if [ -z "$total" ] || [ "$total" -eq 0 ]; then
  echo "no test was run"
  echo "0 passed, 1 failed"
  exit 1
fi
if [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; then
  echo "ctest itself failed with code $code, see above"
  failed=1
fi
if [ -f "$guard/called" ]; then
  echo "tests called what installs packages: $(cat "$guard/called")"
  failed=$((failed + 1))
fi
passed=$((total - failed - skipped))
# A program counts as its cases do.
for file in "$counts"/*; do
  [ -f "$file" ] && read -r cases_passed cases_failed cases_skipped < "$file" || continue
  if [ "$cases_failed" -eq 0 ]; then passed=$((passed - 1)); else failed=$((failed - 1)); fi
  passed=$((passed + cases_passed)) failed=$((failed + cases_failed)) skipped=$((skipped + cases_skipped))
done
[ "$skipped" -gt 0 ] && echo "$skipped skipped: for another machine or number of ranks (ctest --test-dir $build -V says which)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
