#!/usr/bin/env python3
"""Applies small wrong edits, one at a time, and sees each found by the suites that it names.

  tests/mutants/run.py BUILD [NAME...]   a line for each suite of a mutant; exit code 1 when one is not found, or found
                                         where it may not be, or cannot be tried

The tree is copied and built in BUILD/mutants, so that nothing here is touched. A suite runs with
random delays in all messages and freed memory poisoned; one that hangs counts as having found it. A suite of bits has
found it too when it tells of other bits than without the mutant.
Those of the cuda backend run on a simulated device, and need the toolkit to build.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import device as devices
import engine
import files
import loop
import orders
from suites import DEVICE, SIMULATED, Suite

ROOT = Path(__file__).resolve().parents[2]
HANG_S = 10  # without progress in a case; a clean case takes a second or two

MUTANTS = [*engine.MUTANTS, *files.MUTANTS, *loop.MUTANTS, *orders.MUTANTS, *devices.MUTANTS]


PLACES = {SIMULATED: "simulated/tests/gpu_test", DEVICE: "tests/cuda/simulated/simulated_test"}  # others: tests/


def suites_of(mutant):
    return [mutant[4]] if isinstance(mutant[4], Suite) else mutant[4]


def bits_told(out):
    return [line for line in out.splitlines() if line.startswith("bits ")]


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

    def __init__(self, build, device):
        self.root = build / "mutants" / "tree"
        self.build = self.root / "build"  # as deep as one of BUILD's own, so that a compiler cache knows the objects
        self.mpiexec = os.environ.get("MPIEXEC") or shutil.which("mpiexec.mpich") or "mpiexec"
        for folder in ("app", "cmake", "kernels", "lib", "tests"):
            self.sync(folder)
        for file in ("CMakeLists.txt", "VERSION"):
            shutil.copy2(ROOT / file, self.root / file)
        code, out = run("cmake", "-S", str(self.root), "-B", str(self.build), "-G", "Ninja", f"-DTRIREME_CUDA={'AUTO' if device else 'OFF'}",
                        "-DCMAKE_CUDA_ARCHITECTURES=90",
                        *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []))
        if code:
            sys.exit(out)
        self.bits = {}  # told by a suite without a mutant
        self.cuda = device and (self.build / "tests/cuda/simulated").is_dir()

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
        file = PLACES.get(suite.program, f"tests/{suite.program}")
        command = [str(self.build / file), f"--gtest_filter={suite.cases}"]
        if suite.ranks:
            command = [self.mpiexec, "-n", str(suite.ranks), *command]
        env = {"TRIREME_HANG_LIMIT": str(HANG_S * self.slow), "TRIREME_RANDOM_DELAYS": "5", "TRIREME_DRAW": "all"}
        return run(*command, cwd=self.root, timeout=2 * HANG_S * self.slow + 20, env=env)

    slow = 1


def clean_run(tree, suites):
    """Every suite passes on the sources as they are; how slow this machine is decides what a hang is."""
    for program in sorted({s.program for s in suites}):
        code, out = tree.make(program)
        if code:
            sys.exit(f"the sources do not build:\n{out[-3000:]}")
    tree.slow = 12
    slowest = 0
    for suite in sorted({s._replace(survives=False) for s in suites}):
        begin = time.monotonic()
        code, out = tree.test(suite)
        if code != 0:
            sys.exit(f"suite {suite.name()} fails without a mutant:\n{out[-3000:]}")
        tree.bits[suite] = bits_told(out)
        if suite.bits and not tree.bits[suite]:
            sys.exit(f"suite {suite.name()} tells no bits")
        slowest = max(slowest, time.monotonic() - begin)
    tree.slow = max(1, -(-slowest // HANG_S))
    return slowest


def outcome(tree, suite):
    """How a suite takes the mutant that is in the tree."""
    code, out = tree.test(suite)
    if code is None:
        return "found (hung)"
    if code == 0:
        told = bits_told(out)
        return "found (bits)" if suite.bits and told != tree.bits[suite._replace(survives=False)] else "SURVIVED"
    return "found (hung)" if "hang" in out.lower() and "FAILED" not in out else "found"


def as_expected(suite, said):
    return said == "SURVIVED" if suite.survives else said.startswith("found")


def verdicts(tree, mutant):
    """What each of its suites says."""
    _, file, right, wrong, _ = mutant
    suites = suites_of(mutant)
    path = tree.root / file
    text = path.read_text()
    if text.count(right) != 1:
        return [f"NOT TRIED: {file} holds {text.count(right)} times {right!r}"] * len(suites)
    path.write_text(text.replace(right, wrong))
    said = []
    try:
        for suite in suites:
            code, out = tree.make(suite.program)
            said.append(f"NOT TRIED: does not compile: {out[-600:]}" if code else outcome(tree, suite))
    finally:
        path.write_text(text)
    return said


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=Path, metavar="BUILD")
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--bits", action="store_true", help="suites that compare bits alone, and the mutants that have one")
    a = p.parse_intermixed_args()
    build = a.build.resolve()
    if not (build / "CMakeCache.txt").is_file():
        sys.exit(f"{build} is no build folder: run `make build`")
    unknown = set(a.names) - {m[0] for m in MUTANTS}
    if unknown:
        sys.exit(f"no mutant is named {sorted(unknown)[0]!r}")
    chosen = [m for m in MUTANTS if not a.names or m[0] in a.names]
    if a.bits:
        chosen = [(*m[:4], [s for s in suites_of(m) if s.bits]) for m in chosen if any(s.bits for s in suites_of(m))]
    begin = time.monotonic()
    device = any(s.program in PLACES for m in chosen for s in suites_of(m))
    tree = Tree(build, device)
    if device and not tree.cuda:
        print("without the CUDA toolkit: no mutants of device kernels", flush=True)
        chosen = [m for m in chosen if all(s.program not in PLACES for s in suites_of(m))]
    slowest = clean_run(tree, [s for m in chosen for s in suites_of(m)])
    print(f"{len(chosen)} mutants; the suites pass without them, the slowest in {slowest:.1f} s", flush=True)
    lost = 0
    for i, mutant in enumerate(chosen):
        started = time.monotonic()
        wrong = False
        for suite, said in zip(suites_of(mutant), verdicts(tree, mutant)):
            good = as_expected(suite, said)
            wrong = wrong or not good
            told = "survives, as it must" if good and suite.survives else said if good or not suite.survives else f"FALSELY {said}"
            print(f"{i + 1:3} {mutant[0]:<48} {mutant[1]:<26} {told:<14} {suite.name()}", flush=True)
        print(f"    [{time.monotonic() - started:.0f} s]", flush=True)
        lost += wrong
    print(f"{len(chosen) - lost} of {len(chosen)} as expected in {(time.monotonic() - begin) / 60:.1f} minutes")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
