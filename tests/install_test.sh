#!/bin/sh
# Installs into a temporary prefix and uses what is there from an empty directory, with an environment
# that knows nothing of the source tree.
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

make -C "$source" install PREFIX="$prefix"
"$source/tests/kernels/vector_code.py" "$source"/build/install-v3/CMakeFiles/trireme_lib.dir/kernels/host/*.o ||
  wrong "loops of the host's kernels are scalar for processors with AVX2"

mkdir "$work/empty"
cd "$work/empty"
clean="env -i HOME=$work PATH=/usr/bin:/bin"

ldd "$prefix/bin/trireme" | grep "not found" && wrong "libraries above are not found: the RPATH is wrong"
$clean "$prefix/bin/trireme" version > version.txt || wrong "trireme version failed"
grep -F "$version" version.txt || wrong "trireme version does not say $version: $(cat version.txt)"

decks=0
for deck in "$prefix"/share/trireme/inputs/*.toml; do
  [ -f "$deck" ] || wrong "no deck in share/trireme/inputs"
  decks=$((decks + 1))
done
[ -f "$prefix/share/trireme/jobscripts/train.sbatch" ] || wrong "share/trireme/jobscripts/train.sbatch is missing"

# What the modulefile puts into PATH must start.
module=$prefix/share/modulefiles/trireme/$version
[ -f "$module" ] || wrong "$module is missing"
grep -q '^#%Module' "$module" || wrong "$module does not start with #%Module"
path=$(sed -n 's/^set root "\(.*\)"$/\1/p' "$module")/bin
$clean PATH="$path:/usr/bin:/bin" sh -c 'trireme version' > module.txt || wrong "PATH from the modulefile finds no trireme"
cmp version.txt module.txt

echo "install: bin, $decks decks, jobscripts and modulefile $version work from an empty directory"
