#!/usr/bin/env python3
"""Holds predicted steps to measured ones: run.py BUILD [--rounds N] [--only TEXT] [--keep | --again] [--write FILE]

Calibrates this machine as 1 rank of all cores, as ranks of one thread each, and as two nodes with a slow network between
them, predicts every case of cases.py, and only then measures them all, in rounds: the medians of the rounds' medians count.
Prints the table, and fails where the median error is above 7%, one above 20%, or fewer than 90% of the pairs of one model
and batch that differ by over 5% are in the predicted order. --write puts the table into FILE. --keep takes the machine
files of the last run, --again its measurements too: for work on the predictor.
"""
import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cases import MODELS, cases, slow_cases  # noqa: E402
from network import RATE, SlowNetwork, why_not  # noqa: E402

MOST_MEDIAN, MOST, LEAST_ORDER, DIFFERENT = 7.0, 20.0, 0.90, 0.05
MEDIAN = r"least_ms ([\d.]+) median_ms ([\d.]+)"
ROOT = Path(__file__).resolve().parents[2]


class Case:
    def __init__(self, place, model, ranks, dtype, keys):
        self.place, self.model, self.ranks, self.dtype = place, model, ranks, dtype
        deck, fixed = MODELS[model]
        self.deck = ROOT / deck
        self.keys = {**fixed, **keys, "precision.compute": dtype}
        self.own = keys
        self.predicted = None
        self.rounds = []  # medians of the steps of each
        self.least = []   # their fastest steps

    @property
    def measured(self):
        return statistics.median(self.rounds)

    @property
    def error(self):
        return 100 * (self.predicted / self.measured - 1)

    @property
    def error_of_least(self):
        return 100 * (self.predicted / min(self.least) - 1)

    @property
    def spread(self):
        """How far apart rounds of the same steps lie."""
        return 100 * (max(self.rounds) / min(self.rounds) - 1)

    @property
    def name(self):
        return " ".join(f"{k.split('.')[1]}={v}" for k, v in self.own.items())

    @property
    def full_name(self):
        return f"{self.model} {self.place.name} {self.dtype} {self.name}"

    def overrides(self):
        return [f"{k}={v}" for k, v in self.keys.items()]


def output_of(line, env, timeout, enough=None):
    """Output, errors and exit code. Where `enough` is printed, an end that does not come in 5 s is not waited for:
    over TCP, UCX may never end (openucx/ucx#8738)."""
    with tempfile.TemporaryFile("w+") as file, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(line, stdout=file, stderr=errors, env=env, start_new_session=True)
        until = time.monotonic() + timeout
        seen = False
        while True:
            try:
                code = process.wait(0.5)
                break
            except subprocess.TimeoutExpired:
                file.seek(0)
                if enough and not seen and re.search(enough, file.read()):
                    seen, until = True, time.monotonic() + 5
                if time.monotonic() > until:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    code = 0 if seen else -signal.SIGKILL
                    break
        file.seek(0)
        errors.seek(0)
        return file.read(), errors.read(), code


class Place:
    """Where ranks run: all of one thread, or one of all cores; with a file of what was measured there."""

    def __init__(self, build, ranks, network=None):
        self.build, self.ranks, self.network = Path(build).resolve(), ranks, network
        cache = (self.build / "CMakeCache.txt").read_text()
        self.mpiexec = re.search(r"^MPIEXEC_EXECUTABLE:[^=]*=(.*)$", cache, re.M)[1]
        self.name = f"{ranks}, {RATE} between" if network else str(ranks)
        folder = self.build / "predict"
        folder.mkdir(exist_ok=True)
        self.file = folder / (f"ranks-{ranks}-slow.toml" if network else f"ranks-{ranks}.toml")

    def run(self, *command, result, alone=False, timeout=300):
        """What a command prints, of which `result` is a pattern."""
        threads = max(1, len(os.sched_getaffinity(0)) // self.ranks)
        env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        launch = []
        if not alone and self.network:
            launch, more = self.network.launch(self.mpiexec)
            env.update(more)
        elif not alone and self.ranks > 1:
            launch = [self.mpiexec, "-n", str(self.ranks)]
        line = [*launch, *map(str, command)]
        late = not alone and self.network is not None
        out, errors, code = output_of(line, env, timeout, result if late else None)
        if code != 0 or not re.search(result, out):
            sys.exit(f"{' '.join(line)} failed:\n{out}{errors}")
        return out

    def calibrate(self, operations=None):
        known = ["--operations-from", operations] if operations else []
        print(self.run(self.build / "trireme", "calibrate", self.file, "--overwrite", *known, result=r"measured in \d+ s").strip(), flush=True)

    def computes(self, dtype):
        return re.search(rf"^{dtype} = ", self.file.read_text(), re.M) is not None

    def predict(self, case):
        out = self.run(self.build / "trireme", "plan", case.deck, *case.overrides(), "--ranks", case.ranks,
                       "--machine", self.file, "--json", result="step_seconds", alone=True)
        return 1e3 * json.loads(out)["predicted"]["step_seconds"]

    def measure(self, case):
        out = self.run(self.build / "tests" / "bench_deck_step", 1, case.deck, *case.overrides(), result=MEDIAN)
        found = re.search(MEDIAN, out)
        case.least.append(float(found[1]))
        case.rounds.append(float(found[2]))


def in_order(all_cases):
    """Of the pairs whose measured medians differ: how many are in the predicted order."""
    right = total = 0
    for i, a in enumerate(all_cases):
        for b in all_cases[:i]:
            if (a.model, a.dtype, a.place.network) != (b.model, b.dtype, b.place.network):
                continue
            if abs(a.measured - b.measured) <= DIFFERENT * min(a.measured, b.measured):
                continue
            total += 1
            right += (a.measured < b.measured) == (a.predicted < b.predicted)
    return right, total


def table(all_cases):
    rows = ["| model | ranks | what | predicted, ms | measured, ms | error |", "|---|---|---|---|---|---|"]
    rows += [f"| {c.model} {c.dtype} | {c.place.name} | {c.name} | {c.predicted:.1f} | {c.measured:.1f} | {c.error:+.1f}% |"
             for c in all_cases]
    return "\n".join(rows)


def verdict(all_cases):
    errors = [abs(c.error) for c in all_cases]
    right, total = in_order(all_cases)
    text = (f"{len(all_cases)} cases: median absolute error {statistics.median(errors):.1f}% (at most {MOST_MEDIAN:.0f}%), "
            f"largest {max(errors):.1f}% (at most {MOST:.0f}%), {right} of {total} pairs that differ by over "
            f"{100 * DIFFERENT:.0f}% in the predicted order (at least {100 * LEAST_ORDER:.0f}%)")
    text += (f". The same steps differed by {statistics.median(c.spread for c in all_cases):.1f}% between rounds (median; at most "
             f"{max(c.spread for c in all_cases):.1f}%); of the fastest step of all rounds the median error is "
             f"{statistics.median(abs(c.error_of_least) for c in all_cases):.1f}%, the largest "
             f"{max(abs(c.error_of_least) for c in all_cases):.1f}%")
    good = statistics.median(errors) <= MOST_MEDIAN and max(errors) <= MOST and right >= LEAST_ORDER * total
    return text, good


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("build")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--only", default="", help="cases whose model and keys have this in them")
    arguments.add_argument("--write", help="a page between whose markers the table goes")
    arguments.add_argument("--keep", action="store_true", help="take the machine files of the last run")
    arguments.add_argument("--again", action="store_true", help="and what it measured")
    a = arguments.parse_args()
    with contextlib.ExitStack() as stack:
        return hold(a, stack)


def measure(all_cases, rounds, record):
    print(f"{len(all_cases)} cases are predicted; now they are measured", flush=True)
    for n in range(rounds):
        for case in all_cases:
            case.place.measure(case)
        print(f"round {n + 1} of {rounds}: {verdict(all_cases)[0]}", flush=True)
        record.write_text(json.dumps({c.full_name: (c.rounds, c.least) for c in all_cases}))
        record.with_name("table.md").write_text(table(all_cases) + "\n")


def hold(a, stack):
    places = [(Place(a.build, 1), cases()), (Place(a.build, 2), cases())]
    if reason := why_not():
        print(f"a slow network: skipped, {reason}")
    else:
        places.append((Place(a.build, 2, stack.enter_context(SlowNetwork())), slow_cases()))
    all_cases = []
    for place, rows in places:
        if not ((a.keep or a.again) and place.file.exists()):
            place.calibrate(places[1][0].file if place.network else None)  # the same processors
        for dtype in ("f32", "bf16"):
            if not place.computes(dtype):
                print(f"{place.name}: {dtype} skipped, this processor has no products of it")
                continue
            all_cases += [Case(place, model, ranks, dtype, keys) for model, ranks, keys in rows if ranks == place.ranks]
    all_cases = [c for c in all_cases if a.only in c.full_name]
    for case in all_cases:
        case.predicted = case.place.predict(case)
    record = places[0][0].file.parent / "measured.json"
    if a.again:
        known = json.loads(record.read_text())
        all_cases = [c for c in all_cases if c.full_name in known]
        for case in all_cases:
            case.rounds, case.least = known[case.full_name]
    else:
        measure(all_cases, a.rounds, record)
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
