#!/bin/sh
# clang_setup.sh BUILD: what tests/cuda/kernels/clang.py needs: clang 19 by apt, CUDA 12's headers and ptxas from PyPI's
# wheels in BUILD/clang/cuda12.
set -eu
clang=$1/clang
if ! command -v clang++-19 > /dev/null; then
  root=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $root apt-get update -q -o DPkg::Lock::Timeout=300
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q -o DPkg::Lock::Timeout=300 --no-install-recommends clang-19
fi
[ -e "$clang/cuda12/include/cuda_runtime.h" ] && exit 0
rm -rf "$clang"
mkdir -p "$clang/wheels" "$clang/new"
python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$clang/wheels" \
  nvidia-cuda-runtime-cu12==12.5.82 nvidia-cuda-nvcc-cu12==12.5.82 nvidia-cuda-cccl-cu12==12.9.27 \
  nvidia-curand-cu12==10.3.10.19  # clang includes one of its headers
for wheel in "$clang"/wheels/*.whl; do
  python3 -m zipfile -e "$wheel" "$clang/wheels"
done
for part in cuda_runtime cuda_nvcc cuda_cccl curand; do  # the first one's version is that of headers they share
  for folder in include bin nvvm; do
    if [ -d "$clang/wheels/nvidia/$part/$folder" ]; then
      cp -rn "$clang/wheels/nvidia/$part/$folder" "$clang/new/"
    fi
  done
done
chmod +x "$clang"/new/bin/*
rm -r "$clang/wheels"
mv "$clang/new" "$clang/cuda12"
