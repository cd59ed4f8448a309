#!/bin/sh
# tests/check.sh BUILD JOBS: what can be said of the sources without running them.
build=$1
jobs=$2
cd "$(dirname "$0")/.." || exit 1
failed=0

step() {
  name=$1
  shift
  if "$@"; then
    echo "check: $name: good"
  else
    echo "check: $name: FAILED"
    failed=1
  fi
}

headers() { cmake --build "$build" -j "$jobs" --target headers > "$build/headers.log" 2>&1 || { grep -v '^\[' "$build/headers.log"; return 1; }; }
# The deck's own tests compare its table with docs/deck.md; --help is compared with docs/reference/commands.md.
docs() {
  ls tests/deck/*_test.cpp > /dev/null 2>&1 || return 0
  cmake --build "$build" -j "$jobs" --target deck_test trireme > "$build/docs.log" 2>&1 || { cat "$build/docs.log"; return 1; }
  "$build/tests/deck_test" --gtest_brief=1 --gtest_filter='*Reference*' > "$build/docs.log" 2>&1 || { cat "$build/docs.log"; return 1; }
  grep -q "PASSED  \] [1-9]" "$build/docs.log" || { echo "deck_test has no case named *Reference*"; return 1; }
  tests/reference.py "$build/trireme" --check
}

step "format" tests/format.sh
step "layers" tests/layers.py
step "one type, one name" tests/odr.py
step "headers alone" headers
step "docs in step with the program" docs
exit $failed
