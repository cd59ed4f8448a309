#!/usr/bin/env python3
"""Applies small wrong edits, one at a time, and sees each found by the suite that it names.

  tests/mutants/run.py BUILD [NAME...]   one line a mutant; exit code 1 when one survives or cannot be tried

The tree is copied and built in BUILD/mutants, so that nothing here is touched. A suite runs with
random delays in all messages and freed memory poisoned; one that hangs counts as having found it.
Those of the cuda backend run on a simulated device, and need the toolkit to build.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import device
import engine
import files
import loop
from suites import SIMULATED

ROOT = Path(__file__).resolve().parents[2]
HANG_S = 10  # without progress in a case; a clean case takes a second or two

MUTANTS = [*engine.MUTANTS, *files.MUTANTS, *loop.MUTANTS, *device.MUTANTS]


def run(*command, cwd=None, timeout=None, env=None):
    """Exit code and output; None when it took too long."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True, env={**os.environ, **(env or {})})
    try:
        out, _ = process.communicate(timeout=timeout)
        return process.returncode, out
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return None, ""


class Tree:
    """A copy of the sources with a build of its own."""

    def __init__(self, build):
        self.root = build / "mutants" / "tree"
        self.build = self.root / "build"  # as deep as one of BUILD's own, so that a compiler cache knows the objects
        self.mpiexec = os.environ.get("MPIEXEC") or shutil.which("mpiexec.mpich") or "mpiexec"
        for folder in ("app", "cmake", "kernels", "lib", "tests"):
            self.sync(folder)
        for file in ("CMakeLists.txt", "VERSION"):
            shutil.copy2(ROOT / file, self.root / file)
        code, out = run("cmake", "-S", str(self.root), "-B", str(self.build), "-G", "Ninja", "-DTRIREME_CUDA=AUTO",
                        "-DCMAKE_CUDA_ARCHITECTURES=90",
                        *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []))
        if code:
            sys.exit(out)
        self.cuda = (self.build / "tests/cuda/simulated").is_dir()

    def sync(self, folder):
        """Copies what differs, so that a second run builds little."""
        here, there = ROOT / folder, self.root / folder
        wanted = {p.relative_to(here) for p in here.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
        if there.exists():
            for p in [p for p in there.rglob("*") if p.is_file() and p.relative_to(there) not in wanted]:
                p.unlink()
        for path in wanted:
            target = there / path
            target.parent.mkdir(parents=True, exist_ok=True)
            text = (here / path).read_bytes()
            if not target.exists() or target.read_bytes() != text:
                target.write_bytes(text)
                shutil.copymode(here / path, target)

    def make(self, program):
        return run("cmake", "--build", str(self.build), "-j", str(os.cpu_count()), "--target", program)

    def test(self, suite):
        """Exit code (None: hung) and output of a suite."""
        program, n, cases = suite
        file = "simulated/tests/gpu_test" if program == SIMULATED else f"tests/{program}"
        command = [str(self.build / file), f"--gtest_filter={cases}"]
        if n:
            command = [self.mpiexec, "-n", str(n), *command]
        env = {"TRIREME_HANG_LIMIT": str(HANG_S * self.slow), "TRIREME_RANDOM_DELAYS": "5"}
        return run(*command, cwd=self.root, timeout=2 * HANG_S * self.slow + 20, env=env)

    slow = 1


def clean_run(tree, suites):
    """Every suite passes on the sources as they are; how slow this machine is decides what a hang is."""
    for program in sorted({s[0] for s in suites}):
        code, out = tree.make(program)
        if code:
            sys.exit(f"the sources do not build:\n{out[-3000:]}")
    tree.slow = 12
    for suite in sorted(set(suites)):
        begin = time.monotonic()
        code, out = tree.test(suite)
        if code != 0:
            sys.exit(f"suite {suite} fails without a mutant:\n{out[-3000:]}")
        yield suite, time.monotonic() - begin


def verdict(tree, mutant):
    name, file, right, wrong, suite = mutant
    path = tree.root / file
    text = path.read_text()
    if text.count(right) != 1:
        return f"NOT TRIED: {file} holds {text.count(right)} times {right!r}"
    path.write_text(text.replace(right, wrong))
    try:
        code, out = tree.make(suite[0])
        if code:
            return f"NOT TRIED: does not compile: {out[-600:]}"
        code, out = tree.test(suite)
    finally:
        path.write_text(text)
    if code is None:
        return "found (hung)"
    if code == 0:
        return "SURVIVED"
    return "found (hung)" if "hang" in out.lower() and "FAILED" not in out else "found"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=Path, metavar="BUILD")
    p.add_argument("names", nargs="*", metavar="NAME")
    a = p.parse_args()
    build = a.build.resolve()
    if not (build / "CMakeCache.txt").is_file():
        sys.exit(f"{build} is no build folder: run `make build`")
    unknown = set(a.names) - {m[0] for m in MUTANTS}
    if unknown:
        sys.exit(f"no mutant is named {sorted(unknown)[0]!r}")
    chosen = [m for m in MUTANTS if not a.names or m[0] in a.names]
    begin = time.monotonic()
    tree = Tree(build)
    if not tree.cuda and any(m[4][0] == SIMULATED for m in chosen):
        print("without the CUDA toolkit: no mutants of device kernels", flush=True)
        chosen = [m for m in chosen if m[4][0] != SIMULATED]
    slowest = max(t for _, t in clean_run(tree, [m[4] for m in chosen]))
    tree.slow = max(1, -(-slowest // HANG_S))
    print(f"{len(chosen)} mutants; the suites pass without them, the slowest in {slowest:.1f} s", flush=True)
    lost = 0
    for i, mutant in enumerate(chosen):
        started = time.monotonic()
        said = verdict(tree, mutant)
        lost += not said.startswith("found")
        print(f"{i + 1:3} {mutant[0]:<48} {mutant[1]:<26} {said} [{time.monotonic() - started:.0f} s]", flush=True)
    print(f"{len(chosen) - lost} of {len(chosen)} found in {(time.monotonic() - begin) / 60:.1f} minutes")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
