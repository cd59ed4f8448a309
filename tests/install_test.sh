#!/bin/sh
# Installs into a temporary prefix and uses what is there from an empty directory, with an environment
# that knows nothing of the source tree. $1: the CPU to build for; that of the build that is there compiles nothing again
# where there is ccache.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
version=$(cat "$source/VERSION")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

wrong() {
  echo "install: $*"
  exit 1
}

make -C "$source" install PREFIX="$prefix" ARCH="$1"

mkdir "$work/empty"
cd "$work/empty"
clean="env -i HOME=$work PATH=/usr/bin:/bin"

ldd "$prefix/bin/trireme" | grep "not found" && wrong "libraries above are not found: the RPATH is wrong"
$clean "$prefix/bin/trireme" version > version.txt || wrong "trireme version failed"
if [ -e "$prefix/lib/trireme/libtrireme_cuda.so" ]; then
  $clean "$prefix/bin/trireme" version --cuda | grep -q "CUDA: yes, CUDA runtime" || wrong "the installed CUDA part does not open"
fi
grep -F "$version" version.txt || wrong "trireme version does not say $version: $(cat version.txt)"

decks=0
for deck in "$prefix"/share/trireme/inputs/*.toml; do
  [ -f "$deck" ] || wrong "no deck in share/trireme/inputs"
  decks=$((decks + 1))
done
for script in train.sbatch train_gpu.sbatch recover.sh recover_rules.sh recover_processes.sh recover_copies.sh recover_state.sh recover_failure.sh train_hosts.sh; do
  [ -f "$prefix/share/trireme/jobscripts/$script" ] || wrong "share/trireme/jobscripts/$script is missing"
done

# What the modulefile puts into PATH must start.
module=$prefix/share/modulefiles/trireme/$version
[ -f "$module" ] || wrong "$module is missing"
grep -q '^#%Module' "$module" || wrong "$module does not start with #%Module"
path=$(sed -n 's/^set root "\(.*\)"$/\1/p' "$module")/bin
$clean PATH="$path:/usr/bin:/bin" sh -c 'trireme version' > module.txt || wrong "PATH from the modulefile finds no trireme"
cmp version.txt module.txt

# Manual pages: one for each subcommand that --help lists, without a complaint of groff's.
man=$prefix/share/man/man1
for name in $($clean "$prefix/bin/trireme" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]*\) .*/\1/p'); do
  [ -f "$man/trireme-$name.1" ] || wrong "no manual page of trireme $name"
  pages=$((${pages:-0} + 1))
done
[ "${pages:-0}" -ge 9 ] && [ -f "$man/trireme.1" ] || wrong "only ${pages:-0} manual pages in $man"
if command -v groff > /dev/null; then
  for page in "$man"/trireme*.1; do
    groff -ww -man -Tutf8 -P-cbou "$page" > page.txt 2> complaints.txt || wrong "groff cannot read $page"
    [ -s complaints.txt ] && wrong "$page: $(cat complaints.txt)"
    grep -q "^NAME" page.txt || wrong "$page shows no NAME"
  done
fi
for page in README.md tutorials/first-model.md install.md deck.md; do
  [ -f "$prefix/share/doc/trireme/$page" ] || wrong "share/doc/trireme/$page is missing"
done

# The quick start of docs/install.md, from the installed decks, with nothing of the source tree.
yes 'the quick brown fox jumps over the lazy dog' | head -c 100000 > text.txt
quick() { $clean OMP_NUM_THREADS=2 PATH="$prefix/bin:/usr/bin:/bin" "$@"; }
sed -n '/^<!-- quick start -->/,/^```$/p' "$prefix/share/doc/trireme/install.md" | sed -n 's/^trireme .*/&/p' > quick.sh
[ "$(wc -l < quick.sh)" -ge 3 ] || wrong "docs/install.md has no quick start"
sed -i "s|PREFIX|$prefix|g" quick.sh
sed -i '/^trireme train/s/$/ train.steps=4/' quick.sh
quick sh -e quick.sh > quick.txt 2>&1 || wrong "the installed quick start failed: $(tail -n 20 quick.txt)"
[ -f runs/quickstart/history.csv ] || wrong "the installed quick start left no run"

echo "install: bin, manual, documents, $decks decks, jobscripts and modulefile $version work from an empty directory"
