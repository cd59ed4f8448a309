#!/usr/bin/env python3
"""The device kernels through another compiler: clang.py BUILD

clang compiles each .cu of kernels/cuda/kernels to PTX for Hopper, and ptxas that to machine code: what nvcc alone takes for
C++ shows. `make setup-clang` brings a clang and headers of CUDA 12 (clang 19 does not take those of 13) to BUILD/clang;
TRIREME_CLANG and TRIREME_CLANG_CUDA name others. Ends with 77, and says what is missing, where there is none.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted((ROOT / "kernels/cuda/kernels").glob("*.cu"))
OLDEST = 19  # 14 was seen to fail


def run(*command, **more):
    return subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def version_of(clang):
    found = re.search(r"clang version (\d+)", run(clang, "--version").stdout)
    return int(found[1]) if found else 0


def find_clang():
    """A clang++ that is new enough, or None and why."""
    names = [os.environ["TRIREME_CLANG"]] if "TRIREME_CLANG" in os.environ else [*(f"clang++-{n}" for n in range(30, OLDEST - 1, -1)), "clang++"]
    there = [p for p in map(shutil.which, names) if p]
    for clang in there:
        if version_of(clang) >= OLDEST:
            return clang, ""
    seen = f", and {there[0]} is clang {version_of(there[0])}" if there else ""
    return None, f"clang {OLDEST} or newer ({names[0]} ... {names[-1]}){seen}"


def find_toolkit(build):
    folder = Path(os.environ.get("TRIREME_CLANG_CUDA") or build / "clang/cuda12")
    needed = [folder / "include/cuda_runtime.h", folder / "include/curand_mtgp32_kernel.h", folder / "include/cub/device/device_radix_sort.cuh"]
    missing = [str(f) for f in needed if not f.is_file()]
    return (folder, "") if not missing else (None, f"headers of CUDA 12 ({missing[0]})")


def find_ptxas(toolkit):
    own = toolkit / "bin/ptxas"
    return own if own.is_file() else shutil.which("ptxas")


def compile_one(clang, toolkit, source, ptx):
    return run(clang, "-std=c++20", "-O3", "-DNDEBUG", "-Wall", "-Werror", "-Wno-unknown-cuda-version", "-Wno-cuda-compat", "-x", "cuda", "--cuda-device-only",
               "--cuda-gpu-arch=sm_90", f"--cuda-path={toolkit}", "-isystem", toolkit / "include",
               "-include", ROOT / "tests/cuda/kernels/clang_words.cuh", f"-I{ROOT}", "-S", "-o", ptx, source)


def main():
    build = Path(sys.argv[1]).resolve()
    clang, no_clang = find_clang()
    toolkit, no_toolkit = find_toolkit(build)
    missing = [why for why in (no_clang, no_toolkit) if why]
    if missing:
        print(f"clang: skipped, there is no {' and no '.join(missing)}: `make setup-clang` brings both")
        return 77
    ptxas = find_ptxas(toolkit)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        # It must be able to fail: a word that is none in any language.
        wrong = Path(folder) / "wrong.cu"
        wrong.write_text(SOURCES[0].read_text() + "\n__device__ int f() { return g; }\n")
        if compile_one(clang, toolkit, wrong, Path(folder) / "wrong.ptx").returncode == 0:
            print("clang takes everything")
            failed += 1
        for source in SOURCES:
            ptx = Path(folder) / (source.stem + ".ptx")
            done = compile_one(clang, toolkit, source, ptx)
            if done.returncode == 0 and ".entry" not in ptx.read_text():
                done = subprocess.CompletedProcess([], 1, "there is no kernel in its PTX")
            if done.returncode == 0 and ptxas:
                done = run(ptxas, "-arch=sm_90", "-o", ptx.with_suffix(".cubin"), ptx)
            if done.returncode != 0:
                print(f"{source.name}:\n{done.stdout}")
                failed += 1
    print(f"clang {version_of(clang)}{'' if ptxas else ', no ptxas'}: {len(SOURCES)} files of kernels, {failed} failed")
    return 1 if failed or not SOURCES else 0


if __name__ == "__main__":
    sys.exit(main())
