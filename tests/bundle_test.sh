#!/bin/sh
# Makes the bundle, unpacks it elsewhere and uses it from a folder and an environment that know nothing of the build.
# BUNDLE=archive uses one that is there.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wrong() {
  echo "bundle: $*"
  exit 1
}

version=$(cat "$source/VERSION")
if [ -z "${BUNDLE:-}" ]; then
  make -C "$source" bundle
  "$source/tests/kernels/vector_code.py" "$source"/build/bundle-build/CMakeFiles/trireme_objects.dir/kernels/host/*.o ||
    wrong "loops of the host's kernels are scalar for processors with AVX2"
fi
tar -C "$work" -xf "${BUNDLE:-$source/build/trireme-$version-x86_64.tar.xz}"
bundle=$work/trireme-$version-x86_64
[ -d "$bundle" ] || wrong "the archive does not hold trireme-$version-x86_64"
mkdir "$work/elsewhere"
cd "$work/elsewhere"
clean="env -i HOME=$work PATH=/usr/bin:/bin"

# Every library that it holds is the one that is loaded, and it holds none that it should not.
loaded() { # the objects of a program that are not the bundle's although it has them
  while read -r name arrow file rest; do
    [ "$arrow" = "=>" ] || continue
    [ -e "$bundle/lib/$name" ] && [ "$(readlink -f "$file")" != "$bundle/lib/$name" ] && echo "$1: $name is $file"
  done
  true
}
bundle=$(readlink -f "$bundle")
others=
for program in "$bundle/trireme" "$bundle/tests/gpu_test" "$bundle/tests/bench_gpu"; do
  others=$others$($clean ldd "$program" | loaded "$program")
done
for program in "$bundle"/hydra/*; do
  others=$others$($clean LD_LIBRARY_PATH="$bundle/lib" ldd "$program" | loaded "$program")
done
[ -z "$others" ] || wrong "libraries of the system are loaded: $others"
for name in libcud libcublas libnvrtc libnccl libc.so libm.so ld-linux libstdc++ libgcc_s; do
  set -- "$bundle/lib/$name"*
  [ -e "$1" ] && wrong "it holds $1"
done
for program in "$bundle/trireme" "$bundle/tests/gpu_test" "$bundle/tests/bench_gpu"; do
  if readelf -d "$program" | grep -E "R(UN)?PATH" | grep -v '\[$ORIGIN/lib:$ORIGIN/../lib\]'; then
    wrong "$program looks for libraries where only this machine has them"
  fi
done

# A licence text for all that is in lib/.
[ "$(find "$bundle/licences" -type f | wc -l)" -gt 20 ] || wrong "licence texts are missing"

$clean "$bundle/trireme.sh" version > version.txt || wrong "trireme.sh version failed"
grep -F "trireme $version" version.txt || wrong "it is another version: $(cat version.txt)"
ln -s "$bundle/trireme.sh" linked
./linked version | cmp - version.txt || wrong "trireme.sh does not find itself through a link"

# Without CUDA's libraries it runs, and says what is missing when they are asked for, where this machine's loader does not
# know them anyway.
if ldd "$bundle/lib/libtrireme_cuda.so" | grep -q "libcudart.* not found"; then
  $clean CUDA_HOME=/nowhere "$bundle/trireme.sh" version --cuda > absent.txt 2>&1 && wrong "it runs without libcudart?"
  grep -q "libtrireme_cuda.so does not load: libcu" absent.txt || wrong "it does not say what is missing: $(cat absent.txt)"
  $clean CUDA_HOME=/nowhere for_gpu=yes "$bundle/trireme.sh" version > absent.txt 2>&1 && wrong "a machine with a GPU does without libcudart?"
  grep -q "nvidia-cudnn-cu13" absent.txt || wrong "it does not say what to install: $(cat absent.txt)"
else
  $clean "$bundle/trireme.sh" version --cuda | grep -q "CUDA: yes, CUDA runtime" || wrong "its CUDA part does not load"
fi

# A batch job's variables around it, for which the launcher would ask Slurm.
$clean SLURM_JOBID=1 SLURM_JOB_ID=1 SLURM_NODELIST=node1 SLURM_JOB_NODELIST=node1 SLURM_NNODES=1 SLURM_JOB_NUM_NODES=1 \
  SLURM_TASKS_PER_NODE=2 \
  "$bundle/trireme.sh" -n 2 train "$bundle/inputs/quickstart.toml" data.path="$bundle/quickstart.tokens" train.steps=3 \
  parallel.seq=2 zero.stage=3 run.backend=host run.threads=1 data.validation=0 > train.txt 2>&1 || wrong "training on 2 ranks failed: $(cat train.txt)"
[ "$(wc -l < runs/quickstart/history.csv)" -eq 4 ] || wrong "training on 2 ranks left no history of 3 steps"
LD_DEBUG=libs "$bundle/trireme.sh" inspect runs/quickstart 2> debug.txt > /dev/null || wrong "inspect failed"
grep -o "calling init: .*" debug.txt | sort -u | grep -E "libmpich|libhdf5|libdnnl" | grep -v "$bundle" &&
  wrong "libraries above are not the bundle's"

# In a root of another system: TRIREME_OLDER_ROOT=DIR, such as an unpacked container of RHEL 9 or Ubuntu 22.04.
if [ -n "${TRIREME_OLDER_ROOT:-}" ]; then
  cp -r "$bundle" "$TRIREME_OLDER_ROOT/trireme-bundle"
  chroot "$TRIREME_OLDER_ROOT" /trireme-bundle/trireme.sh version | grep -F "trireme $version" ||
    wrong "it does not start in $TRIREME_OLDER_ROOT"
  rm -r "$TRIREME_OLDER_ROOT/trireme-bundle"
else
  echo "bundle: skipped: starting in an older root (TRIREME_OLDER_ROOT is not set)"
fi

$clean "$bundle/gpu-test.sh" --only device > gpu.txt 2>&1 || wrong "gpu-test.sh fails without a GPU: $(cat gpu.txt)"
$clean "$bundle/gpu-test.sh" --backend host --patience 5 --only plans --only device --only gradients --only parity-two-ranks
$clean "$bundle/gpu-bench.sh" > gpu.txt 2>&1 || wrong "gpu-bench.sh fails without a GPU: $(cat gpu.txt)"
$clean "$bundle/gpu-bench.sh" --backend host --tiny --no-torch

echo "bundle: $(find "$bundle/lib" -type f | wc -l) libraries, decks, tests and launcher work from another folder"
