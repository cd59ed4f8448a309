#!/usr/bin/env python3
"""Packs a build for a machine that has nothing but CUDA's libraries: bundle.py BUILD OUTPUT

BUILD is a folder configured with the preset "bundle". OUTPUT gets trireme-VERSION-x86_64.tar.xz and its unpacked folder:
trireme, the tests of a GPU and what measures its speed, the shared objects that these use (none of NVIDIA's, nor glibc, nor GCC's
libstdc++ and libgcc_s), MPICH's launcher, decks, the quick start's tokens, and the licence texts of all of it.
"""
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
UNPACKED_LIMIT, PACKED_LIMIT = 64 * MIB, 24_000_000  # one of them is to be kept; MPI and oneDNN alone are 80 MB unpacked

PROGRAMS = ["trireme", "tests/gpu_test", "tests/bench_gpu"]
CUDA = "lib/libtrireme_cuda.so"  # opened by the programs where a device answers; NVIDIA's libraries are asked for by it alone
TREE = ["inputs", "tests/gpu", "tests/bench/gpu.py", "tests/bench/torch_gpt.py", "tests/cuda/attention/h200_deviceprop.json", "README.md",
        "LICENSE", "VERSION"]
LAUNCHERS = ["env.sh", "trireme.sh", "gpu-test.sh", "gpu-bench.sh", "gpu-report.sh", "mpiexec"]

# The target has its own.
GLIBC = re.compile(r"(lib(c|m|dl|rt|pthread|resolv|util|nsl|anl)|ld-linux[-\w]*)\.so")
GCC = re.compile(r"lib(stdc\+\+|gcc_s)\.so")
# What the oldest targets have: RHEL 9 (glibc 2.34, GCC 11); Ubuntu 22.04 is younger.
OLDEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
NVIDIA = re.compile(r"lib(cud|cublas|cudnn|nv|nccl|cufft|curand|cusolver|cusparse)")
# What Debian's HDF5 uses to read from S3, and its hydra to find the nodes of a Slurm job: with what they load in turn, a
# third of the bundle. Libraries of these names stand in for them, whose functions say so and end the program.
LEFT_OUT = ["libcurl.so.4", "libcrypto.so.3", "libslurm.so"]
COMMON = Path("/usr/share/common-licenses")
APACHE_HEADERS = "cudnn[-_]frontend"  # headers alone, fetched by cmake/setup.sh


def stop(text):
    sys.exit(f"bundle: {text}")


def output_of(*command):
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0:
        stop(f"{' '.join(map(str, command))} ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def cached(build, name):
    found = re.search(rf"^{name}:[^=]*=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else stop(f"{build}/CMakeCache.txt has no {name}")


def wanted(file):
    """Names of the shared objects that a file asks for and that are not the target's own."""
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", file))
    return [n for n in names if not any(own.match(n) for own in (NVIDIA, GLIBC, GCC))]


def left_out(name):
    return any(name == n or name.startswith(n + ".") for n in LEFT_OUT)


def needed_by(program):
    """Shared objects that a program loads, but for what those that are left out load: name -> file."""
    places = dict(re.findall(r"^\s*(\S+) => (.*?)(?: \(0x[0-9a-f]+\))?$", output_of("ldd", program), re.M))
    found, todo = {}, wanted(program)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        if not places.get(name, "").startswith("/"):
            stop(f"{program} needs {name}, which is not found here")
        found[name] = Path(places[name]).resolve()
        if not left_out(name):
            todo += wanted(found[name])
    return found


def symbols(file, which):
    """Name and version ("" for none) of the symbols that a shared object defines, or of those that it does not."""
    lines = output_of("nm", "-D", f"--{which}-only", "--with-symbol-versions", file)
    return {(m[1], m[2] or "") for m in re.finditer(r" \w (\w+)(?:@@?(\S+))?$", lines, re.M)}


def too_young(file):
    """Symbols that a program or shared object takes from a younger glibc or libstdc++ than the oldest target has."""
    found = []
    for symbol, of in sorted(symbols(file, "undefined")):
        library, _, version = of.partition("_")
        numbers = re.fullmatch(r"\d+(\.\d+)*", version)
        if library in OLDEST and numbers and tuple(map(int, version.split("."))) > OLDEST[library]:
            found.append(f"{symbol}@{of}")
    return found


def require_old_enough(files):
    young = {f: too_young(f) for f in files}
    if any(young.values()):
        stop("these do not start on RHEL 9 or Ubuntu 22.04:\n"
             + "".join(f"  {f} needs {', '.join(s)}\n" for f, s in young.items() if s)
             + "bind them to older versions (cmake/bundle/older_symbols.hpp), or use the library's headers alone")


def put_stand_in(name, original, users, compiler, target):
    """A library with the functions that `users` take from `original`; to call one is an error."""
    used = symbols(original, "defined") & set().union(*(symbols(u, "undefined") for u in users))
    source = target.with_suffix(".c")
    source.write_text("#include <stdio.h>\n#include <stdlib.h>\n"
                      + "".join(f'void {s}(void) {{ fputs("trireme: {s}: this bundle has no {name}\\n", stderr); abort(); }}\n'
                                for s, _ in sorted(used)))
    script = target.with_suffix(".map")
    versions = sorted({v for _, v in used if v})
    script.write_text("".join(f"{v} {{ {' '.join(s + ';' for s, of in sorted(used) if of == v)} }};\n" for v in versions))
    output_of(compiler, "-x", "c", "-shared", "-fPIC", "-s", source, f"-Wl,-soname,{name}",
              *([f"-Wl,--version-script,{script}"] if versions else []), "-o", target)
    source.unlink()
    script.unlink()


def launcher(build):
    """hydra's mpiexec and the proxy that starts ranks."""
    mpiexec = Path(cached(build, "MPIEXEC_EXECUTABLE")).resolve()
    proxy = mpiexec.parent / "hydra_pmi_proxy"
    if not proxy.is_file():
        stop(f"{mpiexec} is not hydra's: no {proxy}. Bundles are made with MPICH")
    return [mpiexec, proxy]


def put(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def put_stripped(source, target):
    put(source, target)
    target.chmod(0o755)
    output_of("strip", "--strip-unneeded", target)


# -- licences


def owners(files):
    """Debian packages of these files."""
    names = {str(f) for f in files}
    older = {n.removeprefix("/usr") for n in names if n.startswith("/usr/lib")}  # as recorded before /lib became a link
    said = subprocess.run(["dpkg", "-S", *sorted(names | older)], text=True, capture_output=True).stdout
    packages, found = set(), set()
    for line in said.splitlines():
        owners, _, file = line.rpartition(": ")
        if owners.startswith("diversion"):
            continue
        packages.update(name.split(":")[0] for name in owners.split(", "))
        found.update((file, "/usr" + file))
    if names - found:
        stop(f"these belong to no package, so their licence is not known: {' '.join(sorted(names - found))}")
    return packages


def headers_of(build):
    """Folders of all that was compiled in from outside the tree."""
    folders = {Path(line.strip()).parent for line in output_of("ninja", "-C", build, "-t", "deps").splitlines()
               if line.startswith("    /")}
    inside = (ROOT, build)
    return [f for f in folders if not any(f.is_relative_to(i) for i in inside)]


def split_headers(build):
    """One file of each folder of a Debian package, and the folders of no package."""
    toolkit = Path(cached(build, "CMAKE_CUDA_COMPILER")).resolve().parent.parent if has_cuda(build) else None
    packaged, others = [], []
    for folder in headers_of(build):
        if folder.is_relative_to("/usr/include") or folder.is_relative_to("/usr/lib"):
            packaged.append(folder.resolve())
        elif not (toolkit and folder.resolve().is_relative_to(toolkit)):
            others.append(folder)
    return packaged, others


def has_cuda(build):
    return (build / "CMakeCache.txt").read_text().find("CMAKE_CUDA_COMPILER:") >= 0


def header_packages(folders):
    """Packages with headers in these folders; a shared folder names all its packages, which is more than enough."""
    own = [f for f in folders if f not in (Path("/usr/include"), Path("/usr/include/x86_64-linux-gnu"))]
    return {p for p in owners(own) if not p.startswith(("libc6", "linux-libc"))}


def put_licences(build, files, target):
    """The copyright file of every package that a file or header comes from, and the licences that these point to."""
    target.mkdir()
    packaged, others = split_headers(build)
    packages = owners(files) | header_packages(packaged)
    missing = [p for p in sorted(packages) if not Path(f"/usr/share/doc/{p}/copyright").is_file()]
    if missing:
        stop(f"no licence text (/usr/share/doc/PACKAGE/copyright) of {' '.join(missing)}")
    common = {"Apache-2.0"}
    for p in sorted(packages):
        text = Path(f"/usr/share/doc/{p}/copyright").read_text(errors="replace")
        (target / p).write_text(text)
        common.update(m.rstrip(".") for m in re.findall(rf"{COMMON}/([\w.+-]+)", text))
    for folder in others:
        if not re.search(APACHE_HEADERS, str(folder)):
            stop(f"headers in {folder} belong to no package: whose licence do they have?")
        (target / "cudnn-frontend").write_text("cuDNN's C++ frontend, headers alone: Copyright (c) NVIDIA CORPORATION & AFFILIATES, "
                                               "Apache-2.0 (common-licenses/Apache-2.0)\n")
    (target / "common-licenses").mkdir()
    for name in sorted(common):
        if (COMMON / name).is_file():
            shutil.copyfile(COMMON / name, target / "common-licenses" / name)
    shutil.copyfile(ROOT / "LICENSE", target / "trireme")
    return packages


# -- the whole


def on_disk(folder):
    return sum(f.lstat().st_blocks * 512 for f in [folder, *folder.rglob("*")])


def pack(folder, archive):
    partial = archive.with_suffix(".partial")
    # A dictionary as large as the whole, and four bits of context for text and tables.
    filters = [{"id": lzma.FILTER_X86},
               {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 128 * MIB, "lc": 4}]
    with lzma.open(partial, "w", filters=filters) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(folder, folder.name)
    partial.replace(archive)


def main():
    if len(sys.argv) != 3:
        stop(__doc__)
    build, output = (Path(a).resolve() for a in sys.argv[1:])
    version = (ROOT / "VERSION").read_text().strip()
    folder = output / f"trireme-{version}-x86_64"
    shutil.rmtree(folder, ignore_errors=True)

    for name in PROGRAMS:
        if not (build / name).is_file():
            stop(f"{build / name} is missing: build it first")
        put_stripped(build / name, folder / name)
    hydra = launcher(build)
    for file in hydra:
        put_stripped(file, folder / "hydra" / file.name)
    objects = {}
    opened = [build / CUDA] if has_cuda(build) else []
    for file in [*(build / name for name in PROGRAMS), *hydra, *opened]:
        objects.update(needed_by(file))
    objects.update({file.name: file for file in opened})
    carried = {name: file for name, file in objects.items() if not left_out(name)}
    require_old_enough([*(build / name for name in PROGRAMS), *hydra, *carried.values()])
    for name, file in sorted(carried.items()):
        put_stripped(file, folder / "lib" / name)
    for name in sorted(filter(left_out, objects)):
        put_stand_in(name, objects[name], [*hydra, *carried.values()], cached(build, "CMAKE_CXX_COMPILER"), folder / "lib" / name)
    for name in TREE:
        put(ROOT / name, folder / name)
    for name in LAUNCHERS:
        put(ROOT / "cmake/bundle" / name, folder / name)
    put(build / "quickstart.tokens", folder / "quickstart.tokens")
    packages = put_licences(build, [*hydra, *(f for f in carried.values() if not f.is_relative_to(build))], folder / "licences")

    archive = output / f"{folder.name}.tar.xz"
    pack(folder, archive)
    unpacked, packed = on_disk(folder), archive.stat().st_size
    print(f"bundle: {archive}: {packed / 1e6:.1f} MB, unpacked {unpacked / MIB:.1f} MiB: {len(PROGRAMS)} programs, "
          f"{len(carried)} shared objects, licences of {len(packages)} packages")
    if unpacked > UNPACKED_LIMIT and packed > PACKED_LIMIT:
        stop(f"larger than {UNPACKED_LIMIT // MIB} MiB unpacked and than {PACKED_LIMIT // 1_000_000} MB packed; the archive is there")


if __name__ == "__main__":
    main()
