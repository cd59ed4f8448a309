#!/usr/bin/env python3
"""Holds predicted steps to measured ones: run.py BUILD [--rounds N] [--only TEXT] [--write FILE]

Calibrates this machine as 1 rank of all cores and as ranks of one thread each, predicts every case of
cases.py, and only then measures them all, in rounds: the medians of the rounds' medians count. Prints
the table, and fails where the median error is above 7%, one above 20%, or fewer than 90% of the pairs of
one model and batch that differ by over 5% are in the predicted order. --write puts the table into FILE.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cases import MODELS, cases  # noqa: E402

MOST_MEDIAN, MOST, LEAST_ORDER, DIFFERENT = 7.0, 20.0, 0.90, 0.05
ROOT = Path(__file__).resolve().parents[2]


class Case:
    def __init__(self, model, ranks, dtype, keys):
        self.model, self.ranks, self.dtype = model, ranks, dtype
        deck, fixed = MODELS[model]
        self.deck = ROOT / deck
        self.keys = {**fixed, **keys, "precision.compute": dtype}
        self.own = keys
        self.predicted = None
        self.rounds = []

    @property
    def measured(self):
        return statistics.median(self.rounds)

    @property
    def error(self):
        return 100 * (self.predicted / self.measured - 1)

    @property
    def name(self):
        return " ".join(f"{k.split('.')[1]}={v}" for k, v in self.own.items())

    def overrides(self):
        return [f"{k}={v}" for k, v in self.keys.items()]


class Machine:
    def __init__(self, build):
        self.build = Path(build).resolve()
        cache = (self.build / "CMakeCache.txt").read_text()
        self.mpiexec = re.search(r"^MPIEXEC_EXECUTABLE:[^=]*=(.*)$", cache, re.M)[1]
        self.cores = len(os.sched_getaffinity(0))
        self.folder = self.build / "predict"
        self.folder.mkdir(exist_ok=True)

    def threads(self, ranks):
        return max(1, self.cores // ranks)

    def file(self, ranks):
        return self.folder / f"ranks-{ranks}.toml"

    def run(self, ranks, *command, timeout=300):
        env = {**os.environ, "OMP_NUM_THREADS": str(self.threads(ranks))}
        launch = [self.mpiexec, "-n", str(ranks)] if ranks > 1 else []
        done = subprocess.run([*launch, *map(str, command)], capture_output=True, text=True, env=env, timeout=timeout)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def calibrate(self, ranks):
        print(self.run(ranks, self.build / "trireme", "calibrate", self.file(ranks)).strip(), flush=True)

    def computes(self, ranks, dtype):
        return re.search(rf"^{dtype} = ", self.file(ranks).read_text(), re.M) is not None

    def predict(self, case):
        out = self.run(1, self.build / "trireme", "plan", case.deck, *case.overrides(), "--ranks", case.ranks,
                       "--machine", self.file(case.ranks), "--json")
        return 1e3 * json.loads(out)["predicted"]["step_seconds"]

    def measure(self, case):
        out = self.run(case.ranks, self.build / "tests" / "bench_deck_step", 1, case.deck, *case.overrides())
        return float(re.search(r"median_ms ([\d.]+)", out)[1])


def in_order(all_cases):
    """Of the pairs whose measured medians differ: how many are in the predicted order."""
    right = total = 0
    for i, a in enumerate(all_cases):
        for b in all_cases[:i]:
            if (a.model, a.dtype) != (b.model, b.dtype):
                continue
            if abs(a.measured - b.measured) <= DIFFERENT * min(a.measured, b.measured):
                continue
            total += 1
            right += (a.measured < b.measured) == (a.predicted < b.predicted)
    return right, total


def table(all_cases):
    rows = ["| model | ranks | what | predicted, ms | measured, ms | error |", "|---|---|---|---|---|---|"]
    rows += [f"| {c.model} {c.dtype} | {c.ranks} | {c.name} | {c.predicted:.1f} | {c.measured:.1f} | {c.error:+.1f}% |"
             for c in all_cases]
    return "\n".join(rows)


def verdict(all_cases):
    errors = [abs(c.error) for c in all_cases]
    right, total = in_order(all_cases)
    text = (f"{len(all_cases)} cases: median absolute error {statistics.median(errors):.1f}% (at most {MOST_MEDIAN:.0f}%), "
            f"largest {max(errors):.1f}% (at most {MOST:.0f}%), {right} of {total} pairs that differ by over "
            f"{100 * DIFFERENT:.0f}% in the predicted order (at least {100 * LEAST_ORDER:.0f}%)")
    good = statistics.median(errors) <= MOST_MEDIAN and max(errors) <= MOST and right >= LEAST_ORDER * total
    return text, good


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("build")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--only", default="", help="cases whose model and keys have this in them")
    arguments.add_argument("--write", help="a page between whose markers the table goes")
    arguments.add_argument("--keep", action="store_true", help="take the machine files of the last run")
    a = arguments.parse_args()
    machine = Machine(a.build)
    for ranks in (1, 2):
        if not (a.keep and machine.file(ranks).exists()):
            machine.calibrate(ranks)
    all_cases = []
    for dtype in ("f32", "bf16"):
        if not machine.computes(1, dtype):
            print(f"{dtype}: skipped, this processor has no products of it")
            continue
        all_cases += [Case(model, ranks, dtype, keys) for model, ranks, keys in cases()]
    all_cases = [c for c in all_cases if a.only in f"{c.model} {c.ranks} {c.dtype} {c.name}"]
    for case in all_cases:
        case.predicted = machine.predict(case)
    print(f"{len(all_cases)} cases are predicted; now they are measured", flush=True)
    for n in range(a.rounds):
        for case in all_cases:
            case.rounds.append(machine.measure(case))
        print(f"round {n + 1} of {a.rounds}: {verdict(all_cases)[0]}", flush=True)
    text, good = verdict(all_cases)
    print(f"{table(all_cases)}\n\n{text}")
    if a.write:
        page = Path(a.write)
        begin, end = "<!-- predict: begin -->", "<!-- predict: end -->"
        before, rest = page.read_text().split(begin)
        page.write_text(f"{before}{begin}\n{table(all_cases)}\n\n{text}.\n{end}{rest.split(end)[1]}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
