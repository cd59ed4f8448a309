#!/bin/sh
# A program built for an extension that this CPU lacks ends with code 1, before main, naming it.
if grep -qw xop /proc/cpuinfo; then
  echo "this CPU has xop"
  exit 0
fi
text=$("$1" 2>&1)
code=$?
echo "$text"
[ "$code" -eq 1 ] || { echo "exit code $code, expected 1"; exit 1; }
case $text in
  *"uses xop"*"make build ARCH=x86-64-v3"*) exit 0 ;;
esac
echo "the message names neither the extension nor the way out"
exit 1
