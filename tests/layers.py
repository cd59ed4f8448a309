#!/usr/bin/env python3
"""Checks the text of every #include against the order of the layers and the fences of vendor headers.

  tests/layers.py [ROOT]       one line per finding, file:line: what and why; exit code 1 when there is one
  tests/layers.py --self-test  plants one of each and looks for it
"""
import pathlib
import re
import tempfile

from checker import main

# A file includes from its own folder or folders further up. kernels/ holds the contract itself;
# backends beside each other share a place in the order and do not see each other.
ORDER = [
    ["lib/base"],
    ["kernels"],
    ["kernels/math"],
    ["kernels/ref", "kernels/host", "kernels/fenced", "kernels/dry", "kernels/rounding", "kernels/cuda"],
    ["kernels/cuda/runtime", "kernels/cuda/kernels", "kernels/cuda/attention"],
    ["kernels/cuda/products"],
    ["kernels/cuda/backend"],
    ["kernels/open"],
    ["lib/tensor"],
    ["lib/comm/transport"],
    ["lib/comm/transport/nccl"],
    ["lib/comm/engine"],
    ["lib/comm"],
    ["lib/launch"],
    ["lib/autograd"],
    ["lib/ops"],
    ["lib/model"],
    ["lib/matrix"],
    ["lib/shard"],
    ["lib/pipe"],
    ["lib/tokenizer"],
    ["lib/keys"],
    ["lib/chat"],
    ["lib/data"],
    ["lib/corpus"],
    ["lib/io"],
    ["lib/train"],
    ["lib/run"],
    ["lib/compare"],
    ["lib/plan"],
    ["lib/predict"],
    ["lib/calibrate"],
    ["lib/deck"],
    ["lib/interchange"],
    ["lib/interchange/families"],
    ["lib/report"],
    ["app"],
    ["tests"],
]
PLACE = {folder: place for place, folders in enumerate(ORDER) for folder in folders}
SEES = {("kernels/fenced", "kernels/host"), ("tests", "tests")}

# Vendor header -> where it may be included. tests/X may include what kernels/X or lib/X may.
FENCES = [
    # What runs on a machine without the toolkit is in the other folders of kernels/cuda.
    (r"cuda|cublas|cudnn|cooperative_groups|cub/|thrust/|nvtx3/|nvrtc",
     r"kernels/cuda/(backend|products|kernels|attention/cudnn)/", "in folders of kernels/cuda for the toolkit"),
    # host.cpp starts them, parallel.hpp is what calls them.
    (r"Kokkos|omp\.h", r"kernels/host/(parallel|host)\.", "in kernels/host/parallel.*"),
    (r"dnnl|oneapi/dnnl", r"kernels/host/", "in kernels/host"),
    # A job is started and ended beside what its ranks say to each other.
    (r"mpi\.h", r"lib/(comm/transport/[^/]*|launch/mpi_job)\.cpp$", "in .cpp files of lib/comm/transport and the job's"),
    (r"nccl\.h", r"lib/comm/transport/nccl/", "in lib/comm/transport/nccl"),
    (r"hdf5|H5", r"lib/io/", "in lib/io"),
    (r"pcre2", r"lib/tokenizer/regex\.cpp$", "in lib/tokenizer/regex.cpp"),
    (r"utf8proc", r"lib/tokenizer/utf8\.cpp$", "in lib/tokenizer/utf8.cpp"),
]
# Benchmarks time vendor libraries themselves; parallel tests start MPI, those of launch end it; a simulated NCCL goes
# through it.
TESTS_MAY = {
    "bench": r"Kokkos|omp\.h|dnnl|oneapi/dnnl|mpi\.h|nccl\.h",
    "launch": r"mpi\.h",
    "parallel": r"mpi\.h|nccl\.h",
    "cuda/simulated": r"mpi\.h|nccl\.h|cuda|cublas|cudnn|cub/",
}

# A variant is a file that CMake leaves out. The few conditions that stay, each in its one file:
CONDITIONS = {
    "lib/base/expect.hpp": r"NDEBUG",
    "kernels/host/parallel.hpp": r"KOKKOS_ENABLE_OPENMP",
}
DNNL_CONDITION = r"DNNL_VERSION_MAJOR"  # one adapter file in kernels/host, whatever its name

SOURCE = (".cpp", ".hpp", ".cu", ".cuh", ".h")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif)\b(.*)")
OPENMP = re.compile(r"\s*#\s*pragma\s+omp\s+(?!simd)")  # simd only hints, it starts no thread


def folder_of(path):
    """The longest folder of ORDER that holds this path, or None."""
    parts = pathlib.PurePosixPath(path).parts[:-1]
    for n in range(len(parts), 0, -1):
        if "/".join(parts[:n]) in PLACE:
            return "/".join(parts[:n])
    return None


def twins(path):
    """Where a file counts as standing: a test also stands in the folders that it tests."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] != "tests" or len(parts) < 3:
        return [path]
    rest = "/".join(parts[1:])
    return [path, rest, "lib/" + rest, "kernels/" + rest]


def check_include(path, kind, target, root):
    mine = folder_of(path)
    if kind == '"' or folder_of(target):
        if not (root / target).is_file():
            # A file written by CMake is the only include with no path.
            return None if "/" not in target and target.endswith(".inc") else (
                f'"{target}" is no file: write the path from the top of the tree')
        other = folder_of(target)
        if other is None:
            return f'"{target}" lies in no layer'
        allowed = other == mine or (mine, other) in SEES or PLACE[other] < PLACE[mine]
        if mine.startswith("kernels/") and PLACE[other] > PLACE["lib/base"] and other.startswith("lib/"):
            allowed = False
        return None if allowed else f'{mine} must not include "{target}": {other} is not above it'
    for header, where, name in FENCES:
        if re.match(header, target):
            if any(re.match(where, place) for place in twins(path)):
                return None
            if any(path.startswith(f"tests/{folder}/") and re.match(may, target) for folder, may in TESTS_MAY.items()):
                return None
            return f"<{target}> belongs {name} only"
    return None


def check_condition(path, condition):
    if not path.startswith(("lib/", "kernels/")):
        return None
    if re.search(CONDITIONS.get(path, r"$^"), condition):
        return None
    if path.startswith("kernels/host/") and re.search(DNNL_CONDITION, condition):
        return None
    return f"#if{condition.rstrip()[:40]}: a variant is a file that CMake leaves out, not a condition in the code"


def findings(root):
    found = []
    for top in ("lib", "kernels", "app", "tests"):
        for file in sorted((root / top).rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.suffix not in SOURCE:
                continue
            if folder_of(path) is None:
                found.append(f"{path}:1: this folder is in no layer: add it to ORDER in tests/layers.py")
                continue
            for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
                what = None
                if m := INCLUDE.match(line):
                    what = check_include(path, m[1], m[2], root)
                elif m := CONDITION.match(line):
                    what = check_condition(path, m[2])
                elif OPENMP.match(line) and not re.match(r"kernels/host/parallel\.|tests/bench/", path):
                    what = "OpenMP is called in kernels/host/parallel.* only"
                if what:
                    found.append(f"{path}:{number}: {what}")
    return found


def self_test():
    good = {
        "lib/base/expect.hpp": "#pragma once\n#ifdef NDEBUG\n#endif\n",
        "kernels/backend.hpp": '#include "lib/base/expect.hpp"\n',
        "kernels/host/gemm.cpp": '#include <dnnl.hpp>\n#include "kernels/math/exp.hpp"\n#if DNNL_VERSION_MAJOR < 3\n#endif\n',
        "kernels/host/parallel.hpp": "#include <Kokkos_Core.hpp>\n#include <omp.h>\n#pragma omp parallel\n",
        "kernels/math/exp.hpp": "",
        "kernels/fenced/fenced.cpp": '#include "kernels/host/parallel.hpp"\n',
        "kernels/cuda/device.hpp": '#include "kernels/backend.hpp"\n',
        "kernels/cuda/kernels/cast.cu": "#include <cuda_runtime.h>\n",
        "kernels/cuda/attention/cudnn/sdpa.cpp": "#include <cudnn.h>\n",
        "lib/comm/transport/mpi.cpp": "#include <mpi.h>\n",
        "lib/comm/transport/nccl/nccl.cpp": "#include <nccl.h>\n",
        "lib/comm/transport/transport.hpp": "",
        "lib/comm/engine/engine.cpp": '#include "lib/comm/transport/transport.hpp"\n',
        "lib/launch/mpi_job.cpp": '#include <mpi.h>\n#include "lib/comm/comm.hpp"\n',
        "lib/comm/comm.hpp": '#include "kernels/backend.hpp"\n',
        "lib/io/file.hpp": "#include <hdf5.h>\n",
        "app/trireme.cpp": '#include "lib/io/file.hpp"\n',
        "tests/io/file_test.cpp": '#include <hdf5.h>\n#include "app/trireme.cpp"\n#ifdef X\n#endif\n',
        "tests/cuda/simulated/nccl.cpp": "#include <mpi.h>\n",
        "tests/bench/floor_bench.cpp": "#include <dnnl.hpp>\n#pragma omp parallel\n",
    }
    # One wrong file each, and what the finding must say.
    wrong = [
        ("lib/base/up.hpp", '#include "lib/io/file.hpp"', "lib/io is not above it"),
        ("kernels/host/sees.cpp", '#include "kernels/cuda/device.hpp"', "kernels/cuda is not above it"),
        ("kernels/host/fences.cpp", '#include "kernels/fenced/fenced.cpp"', "kernels/fenced is not above it"),
        ("kernels/open/lib.cpp", '#include "lib/comm/comm.hpp"', "lib/comm is not above it"),
        ("lib/comm/test.cpp", '#include "tests/io/file_test.cpp"', "tests is not above it"),
        ("lib/io/near.cpp", '#include "file.hpp"', "is no file"),
        ("lib/io/angle.cpp", "#include <lib/deck/deck.hpp>", "is no file"),
        ("lib/comm/gpu.cpp", "#include <cuda_runtime.h>", "in folders of kernels/cuda"),
        ("kernels/cuda/attention/plan.cpp", "#include <cudnn.h>", "in folders of kernels/cuda"),
        ("kernels/cuda/runtime/sees.cpp", '#include "kernels/cuda/kernels/cast.cu"', "kernels/cuda/kernels is not above it"),
        ("kernels/host/omp.cpp", "#include <omp.h>", "kernels/host/parallel.* only"),
        ("kernels/host/pragma.cpp", "#pragma omp parallel for simd", "OpenMP is called"),
        ("kernels/cuda/cpu.cpp", "#include <oneapi/dnnl/dnnl.hpp>", "in kernels/host only"),
        ("lib/comm/transport/mpi.hpp", "#include <mpi.h>", ".cpp files of lib/comm/transport and"),
        ("lib/comm/mpi.cpp", "#include <mpi.h>", ".cpp files of lib/comm/transport and"),
        ("lib/launch/threads.cpp", "#include <mpi.h>", ".cpp files of lib/comm/transport and"),
        ("lib/launch/mpi_job.hpp", "#include <nccl.h>", "in lib/comm/transport/nccl only"),
        ("lib/train/nccl.cpp", "  #  include <nccl.h>", "in lib/comm/transport/nccl only"),
        ("lib/comm/transport/up.hpp", '#include "lib/comm/comm.hpp"', "lib/comm is not above it"),
        ("lib/comm/launch.cpp", '#include "lib/launch/mpi_job.cpp"', "lib/launch is not above it"),
        ("lib/data/h5.cpp", "#include <H5Fpublic.h>", "in lib/io only"),
        ("tests/data/h5_test.cpp", "#include <hdf5.h>", "in lib/io only"),
        ("tests/ops/mpi_test.cpp", "#include <mpi.h>", ".cpp files of lib/comm/transport and"),
        ("lib/ops/variant.cpp", "#ifdef TRIREME_CUDA", "a file that CMake leaves out"),
        ("kernels/ref/variant.cpp", "#if defined(__AVX512F__)", "a file that CMake leaves out"),
        ("lib/io/debug.cpp", "#ifndef NDEBUG", "a file that CMake leaves out"),
        ("lib/new/new.cpp", "", "in no layer"),
    ]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in {**good, **{path: text + "\n" for path, text, _ in wrong}}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        found = findings(root)
    for path, text, says in wrong:
        mine = [f for f in found if f.startswith(path + ":1: ")]
        if len(mine) != 1 or says not in mine[0]:
            print(f"not found: {path}: {text!r} should say {says!r}, got {mine}")
            failed += 1
    for f in found:
        if f.split(":")[0] in good:
            print(f"found without reason: {f}")
            failed += 1
    print(f"layers.py: {len(wrong)} wrong includes planted, {failed} mistakes")
    return 1 if failed else 0


if __name__ == "__main__":
    main(findings, self_test, "layers: in order")
