#!/usr/bin/env python3
"""Applies small wrong edits, one at a time, and sees each found by the suites that it names.

  tests/mutants/run.py BUILD [NAME...]   a line for each suite of a mutant; exit code 1 when one is not found, or found
                                         where it may not be, or cannot be tried; NAME is a mutant's, or a file or folder
  tests/mutants/run.py --texts           that the text which each edit replaces is in its file, once

BUILD's programs are brought up to date, and linked anew beside it with what a mutant changes; sources have to stay as they
are meanwhile. As many mutants as there are processors are tried at a time. A suite runs with random delays in all messages
and freed memory poisoned; one that hangs counts as having found it. A suite of bits has found it too when it prints other
bits than without the mutant. Those of the cuda backend run on a simulated device, and need the toolkit to build.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import decks
import device
import engine
import experts
import files
import loop
import machines
import matrices
import models
import orders
import preferences
import reports
import sequences
from build import Build
from suites import DEVICE, ROWS, SIMULATED, Suite

ROOT = Path(__file__).resolve().parents[2]
HANG_S = 10  # without progress in a case, at least
ON_A_DEVICE = (SIMULATED, DEVICE)
PLACES = {SIMULATED: "simulated/tests/gpu_test", DEVICE: "simulated/tests/simulated_test", ROWS: "tests/failing_calls.so"}  # others: tests/

MUTANTS = [m for part in (engine, matrices, experts, sequences, files, loop, orders, decks, models, preferences, machines, reports, device) for m in part.MUTANTS]


def suites_of(mutant):
    return [mutant[4]] if isinstance(mutant[4], Suite) else mutant[4]


def place_of(program):
    return PLACES.get(program, f"tests/{program}")


def bits_in(out):
    return [line for line in out.splitlines() if line.startswith("bits ")]


def run(command, cwd, timeout=None, env=None):
    """Exit code, None when it took too long, and output."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True, env={**os.environ, **(env or {})})
    try:
        out, _ = process.communicate(timeout=timeout)
        return process.returncode, out
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return None, ""


class Clock:
    """Seconds by what was done in them."""

    def __init__(self):
        self.seconds = {"compiled": 0.0, "linked": 0.0, "tested": 0.0}

    def spend(self, what, *command, **more):
        begin = time.monotonic()
        result = run(*command, **more)
        self.seconds[what] += time.monotonic() - begin
        return result

    def __str__(self):
        return ", ".join(f"{what} {s:.1f} s" for what, s in self.seconds.items())


class DoesNotCompile(Exception):
    pass


class Trials:
    def __init__(self, build):
        self.build = build
        self.mpiexec = os.environ.get("MPIEXEC") or shutil.which("mpiexec.mpich") or "mpiexec"
        self.clean = {}  # seconds and bits of a suite without a mutant
        self.runs_program = set()  # programs of tests that run the program itself
        self.work = build.folder / "mutants"
        shutil.rmtree(self.work, ignore_errors=True)  # of a run that was killed
        self.work.mkdir()

    def prepare(self, programs):
        """Builds the programs, the cuda ones where there is a toolkit."""
        targets = [place_of(p) for p in sorted(programs)]
        code, out = run(["cmake", "--build", str(self.build.folder), "-j", str(os.cpu_count()), "--target", "trireme", *targets], ROOT)
        if code:
            sys.exit(f"the sources do not build:\n{out[-3000:]}")
        self.build = Build(self.build.folder, ROOT)
        runs = set(self.build.readers[ROOT / "tests/support/process.hpp"])
        self.runs_program = {p for p in programs if p == ROWS or runs & set(self.build.link(place_of(p)))}

    def test(self, suite, program, tested, clock):
        """Exit code (None: hung) and output of a suite, in `program`, where it runs the program itself with `tested`."""
        seconds = self.clean[suite][0] if suite in self.clean else 6 * HANG_S
        command = [str(program), f"--gtest_filter={suite.cases}"]
        if suite.program == ROWS:
            command = [sys.executable, str(ROOT / "tests/program/run.py"), str(self.build.folder), "--program", str(tested), "--only", suite.cases, "--jobs", "1",
                       "--patience", "3"]
        elif suite.ranks:
            command = [self.mpiexec, "-n", str(suite.ranks), *command]
        else:
            command.append("--gtest_fail_fast")
        env = {"TRIREME_HANG_LIMIT": str(int(HANG_S + 3 * seconds)), "TRIREME_RANDOM_DELAYS": "5", "TRIREME_DRAW": "all", "TRIREME_TESTED": str(tested),
               "OMP_WAIT_POLICY": "passive"}
        return clock.spend("tested", command, cwd=ROOT, timeout=30 + 10 * seconds, env=env)

    def run_clean(self, suite):
        """A suite passes on the sources as they are."""
        clock = Clock()
        code, out = self.test(suite, self.build.folder / place_of(suite.program), self.build.folder / "trireme", clock)
        if code != 0:
            return f"suite {suite.name()} fails without a mutant:\n{out[-3000:]}"
        if suite.bits and not bits_in(out):
            return f"suite {suite.name()} prints no bits"
        if suite.program != ROWS and ("[  PASSED  ] 0 tests" in out or not re.search(r"\[  PASSED  \]", out)):
            return f"suite {suite.name()} has no case"
        self.clean[suite] = clock.seconds["tested"], bits_in(out)
        return None

    def outcome(self, suite, program, tested, clock):
        """How a suite takes the mutant that `program` or the program that it runs has."""
        suite = suite._replace(survives=False)
        code, out = self.test(suite, program, tested, clock)
        if code is None:
            return "found (hung)"
        if code == 0:
            return "found (bits)" if suite.bits and bits_in(out) != self.clean[suite][1] else "SURVIVED"
        case = re.search(r"^\[  FAILED  \] (\S+?),? |^FAILED (\S+: .*?):", out, re.MULTILINE)
        return f"found by {case[1] or case[2]}" if case else "found (hung)" if "hang" in out.lower() else "found"

    def made(self, target, file, work, clock):
        """A program or library with the mutant, in `work`; None: it has none of it."""
        to, others = work / Path(target).name, {}
        if to.exists():
            return to
        for library in self.build.own(target, ".so"):
            if new := self.made(library, file, work, clock):
                others[library] = new
        for old in self.build.changed(target, file):
            new = others[old] = work / old.replace("/", "+")
            if not new.exists():
                self.spend(clock, "compiled", self.build.compile(old, file, work / "changed", new))
        if not others:
            return None
        self.spend(clock, "linked", self.build.relink(target, others, to))
        return to

    def spend(self, clock, what, command):
        code, out = clock.spend(what, command, cwd=self.build.folder)
        if code != 0:
            raise DoesNotCompile(out)

    def verdicts(self, mutant, clock):
        """What each of its suites says."""
        _, file, right, wrong, _ = mutant
        suites = suites_of(mutant)
        text = (ROOT / file).read_text()
        if text.count(right) != 1:
            return [f"NOT TRIED: {file} holds {text.count(right)} times {right!r}"] * len(suites)
        said = []
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            work = Path(folder)
            path = work / "changed" / file
            path.parent.mkdir(parents=True)
            path.write_text(text.replace(right, wrong))
            for suite in suites:
                parts = [place_of(suite.program)] + ["trireme"] * (suite.program in self.runs_program)
                try:
                    programs = [self.made(p, file, work, clock) for p in parts]
                except DoesNotCompile as e:
                    said.append(f"NOT TRIED: does not compile: {str(e)[-600:]}")
                    continue
                if any(programs):
                    programs = [new or self.build.folder / old for new, old in zip(programs, parts)]
                    said.append(self.outcome(suite, programs[0], programs[-1], clock))
                else:
                    said.append(f"NOT TRIED: {' and '.join(parts)} have nothing of {file}")
        return said


def as_expected(suite, said):
    return said == "SURVIVED" if suite.survives else said.startswith("found")


def chosen_by(name, mutant):
    return name == mutant[0] or mutant[1].startswith(f"{name.rstrip('/')}/") or mutant[1] == name


def wrong_texts():
    lines = []
    for name, file, right, wrong, _ in MUTANTS:
        found = (ROOT / file).read_text().count(right) if (ROOT / file).exists() else 0
        if found != 1 or right == wrong:
            lines.append(f"{name}: {file} holds {found} times {right!r}")
    names = [m[0] for m in MUTANTS]
    return lines + [f"two mutants are named {n!r}" for n in sorted(set(names)) if names.count(n) > 1]


def clean_run(trials, pool, suites):
    failures = [f for f in pool.map(trials.run_clean, sorted({s._replace(survives=False) for s in suites})) if f]
    if failures:
        sys.exit("\n".join(failures))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=Path, nargs="?", metavar="BUILD")
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--texts", action="store_true", help="looks at the texts alone")
    p.add_argument("--bits", action="store_true", help="suites that compare bits alone, and the mutants that have one")
    p.add_argument("-j", type=int, default=os.cpu_count(), metavar="N", help="mutants at a time, as many as processors")
    a = p.parse_intermixed_args()
    wrong = wrong_texts()
    if a.texts or wrong:
        print("\n".join(wrong) or f"{len(MUTANTS)} mutants have their texts")
        sys.exit(1 if wrong else 0)
    if not a.build or not (a.build / "build.ninja").is_file():
        sys.exit(f"{a.build} is no build folder of ninja's: run `make build`")
    for name in a.names:
        if not any(chosen_by(name, m) for m in MUTANTS):
            sys.exit(f"no mutant is named {name!r} or lies there")
    chosen = [m for m in MUTANTS if not a.names or any(chosen_by(n, m) for n in a.names)]
    if a.bits:
        chosen = [(*m[:4], [s for s in suites_of(m) if s.bits]) for m in chosen if any(s.bits for s in suites_of(m))]
    build = Build(a.build.resolve(), ROOT)
    if not any("cuda/simulated/" in o for o in build.commands) and any(s.program in ON_A_DEVICE for m in chosen for s in suites_of(m)):
        print("without the CUDA toolkit: no mutants of device kernels", flush=True)
        chosen = [m for m in chosen if all(s.program not in ON_A_DEVICE for s in suites_of(m))]
    begin = time.monotonic()
    trials = Trials(build)
    trials.prepare({s.program for m in chosen for s in suites_of(m)})
    print(f"built in {(time.monotonic() - begin) / 60:.1f} minutes", flush=True)
    lost, done, printing = 0, 0, threading.Lock()
    with ThreadPoolExecutor(a.j) as pool:
        clean_run(trials, pool, [s for m in chosen for s in suites_of(m)])
        print(f"{len(chosen)} mutants; the suites pass without them after {(time.monotonic() - begin) / 60:.1f} minutes", flush=True)

        def attempt(mutant):
            nonlocal lost, done
            clock = Clock()
            verdicts = trials.verdicts(mutant, clock)
            with printing:
                done += 1
                for suite, said in zip(suites_of(mutant), verdicts):
                    good = as_expected(suite, said)
                    verdict = "survives, as it must" if good and suite.survives else said if good or not suite.survives else f"FALSELY {said}"
                    print(f"{done:3} {mutant[0]:<52} {mutant[1]:<34} {verdict:<40} {suite.name()}", flush=True)
                print(f"    [{clock}]", flush=True)
                lost += not all(map(as_expected, suites_of(mutant), verdicts))

        # Those of headers take longest: what they change is compiled anew.
        for trial in as_completed([pool.submit(attempt, m) for m in sorted(chosen, key=lambda m: m[1].endswith(".cpp"))]):
            trial.result()
    print(f"{len(chosen) - lost} of {len(chosen)} as expected in {(time.monotonic() - begin) / 60:.1f} minutes")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
