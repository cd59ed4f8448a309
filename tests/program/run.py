#!/usr/bin/env python3
"""The program as its users see it: what it makes, what it refuses, and what a run must survive. A row of a table each.

  tests/program/run.py BUILD                  every case
  tests/program/run.py BUILD --fast           a choice
  tests/program/run.py BUILD --only PATTERN   those whose title holds this regular expression; says what the program said
  tests/program/run.py BUILD --list           titles
  tests/program/run.py BUILD --random N --minutes M   faults drawn at random with seed N (random_faults.py), for M minutes
  tests/program/run.py --self-test            plants wrong outcomes and sees them refused

Expected of every case: the exit code, what is said and what is not (no C++ in a message), that nothing hangs or stays
behind; and, of what happens to a run, that it then goes on and ends bit for bit as if nothing had happened. The tables are
cases_*.py; rows.py says what a row may hold, and engine.py carries it out. Runs that were not disturbed are made once and
copied. A case marked `known` is one that the program does not pass yet: the day
it does, the mark must go.
"""
import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cases_averages
import cases_damage
import cases_experts
import cases_formats
import cases_freezing
import cases_imports
import cases_inputs
import cases_kills
import cases_machines
import cases_matrices
import cases_packing
import cases_pairs
import cases_phases
import cases_places
import cases_plans
import cases_ranks
import cases_rescue
import cases_restarts
import cases_runs
import cases_schedules
import cases_scripts
import cases_signals
import cases_skips
import cases_tokens
import cases_tuning
import cases_validation
import cases_writes
import random_faults
import self_test
from engine import Workshop
from judging import verdict
from fixture import CONFIGS
from reading import Failed

TABLES = {"kills": cases_kills, "damage": cases_damage, "writes": cases_writes, "signals": cases_signals,
          "inputs": cases_inputs, "restarts": cases_restarts, "places": cases_places, "runs": cases_runs, "ranks": cases_ranks,
          "experts": cases_experts, "packing": cases_packing, "plans": cases_plans, "scripts": cases_scripts, "tuning": cases_tuning,
          "pairs": cases_pairs, "phases": cases_phases, "imports": cases_imports, "validation": cases_validation, "schedules": cases_schedules,
          "averages": cases_averages, "rescue": cases_rescue, "tokens": cases_tokens, "formats": cases_formats,
          "freezing": cases_freezing, "machines": cases_machines, "matrices": cases_matrices, "skips": cases_skips}


def all_cases():
    cases = []
    for group, table in TABLES.items():
        for case in table.CASES:
            case.group = group
            cases.append(case)
    double = [t for t, n in Counter(c.title for c in cases).items() if n > 1]
    if double:
        raise SystemExit(f"two cases are called {', '.join(double)}")
    for case in cases:
        for config in (case.config, case.finish_config, *(r.config for r in case.runs)):
            if config and config not in CONFIGS:
                raise SystemExit(f"{case.title}: there is no configuration {config}")
    return cases


def disturbs_sanitizers(case):
    """A library before theirs, a limit to the addresses."""
    return case.start == "half" or any(run.faults or "ulimit -v" in run.command for run in case.runs)


def mpiexec_of(build):
    cache = (Path(build) / "CMakeCache.txt").read_text()
    return re.search(r"^MPIEXEC_EXECUTABLE:[^=]*=(.*)$", cache, re.M).group(1)


def try_case(workshop, number, case, work):
    folder = work / "cases" / f"{number}_{re.sub(r'[^A-Za-z0-9.=+-]+', '_', case.title)}"
    begin = time.monotonic()
    try:
        wrong, said = workshop.carry_out(case, folder)
    except Exception as e:  # whatever it is, it is this case's failure
        wrong, said = [f"{type(e).__name__}: {e}"], ""
    good, remark = verdict(case, wrong)
    shutil.rmtree(folder, ignore_errors=True)
    return case, good, remark, said, time.monotonic() - begin


def in_turn(pool, jobs, work, things):
    """What `work` makes of each thing; a thing is drawn only when a worker is free."""
    waiting = deque()
    for thing in things:
        waiting.append(pool.submit(work, thing))
        if len(waiting) >= jobs:
            yield waiting.popleft().result()
    for last in waiting:
        yield last.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", help="the build folder")
    parser.add_argument("--fast", action="store_true", help="a choice")
    parser.add_argument("--sanitized", action="store_true", help="without those that sanitizers do not bear")
    parser.add_argument("--program", help="instead of BUILD's")
    parser.add_argument("--only", metavar="PATTERN", help="cases whose title holds it")
    parser.add_argument("--list", action="store_true", help="titles, and no more")
    parser.add_argument("--random", metavar="SEED", help="cases drawn at random, instead of the tables")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="the first of the drawn cases to try")
    parser.add_argument("--minutes", type=float, default=1, help="how long cases are drawn; 0: one case")
    parser.add_argument("--self-test", action="store_true", help="of the checker")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count()), help="cases at a time")
    parser.add_argument("--patience", type=float, default=1, help="times all limits, for slow machines")
    parser.add_argument("--durations", action="store_true", help="the longest cases at the end")
    options = parser.parse_args()
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)  # nohup and others leave them ignored, and programs inherit that
    if options.self_test:
        return self_test.run()
    end = time.monotonic() + 60 * options.minutes

    def drawn_cases():
        number = options.first
        while number == options.first or time.monotonic() < end:
            yield random_faults.case(options.random, number)
            number += 1

    cases = [] if options.random else [c for c in all_cases() if (c.fast or not options.fast) and not (options.sanitized and disturbs_sanitizers(c))
             and re.search(options.only or "", c.title)]
    if options.list:
        for case in cases:
            print(f"{case.title}{'  [known: ' + case.known + ']' if case.known else ''}")
        print(f"{len(cases)} cases")
        return 0
    if not options.build or not (cases or options.random):
        parser.error("no case has such a title" if options.build else "which build folder?")
    with tempfile.TemporaryDirectory(prefix="trireme-program-") as work:
        work = Path(work)
        (work / "templates").mkdir()
        (work / "cases").mkdir()
        build = Path(options.build)
        workshop = Workshop(options.program or build / "trireme", mpiexec_of(build), work, options.patience, build / "tests/failing_calls.so")
        try:
            workshop.prepare()
        except Failed as e:
            print(f"FAILED: {e}")
            return 1
        results = []
        with ThreadPoolExecutor(options.jobs) as pool:
            tried = (pool.map(lambda c: try_case(workshop, *c, work), enumerate(cases)) if not options.random else
                     in_turn(pool, options.jobs, lambda c: try_case(workshop, *c, work), enumerate(drawn_cases())))
            for result in tried:
                results.append(result)
                case, good, remark, said, seconds = result
                if not good:
                    print(f"FAILED {case.title}: {remark}", flush=True)
                if options.random and not good:
                    print("    faults: " + "; then ".join(run.faults for run in case.runs))
                if said and (not good or options.only):
                    print("    " + said[-6000:].rstrip().replace("\n", "\n    "), flush=True)
    if options.durations:
        for case, *_, seconds in sorted(results, key=lambda r: -r[-1])[:15]:
            print(f"{seconds:6.1f} s  {case.title}")
    known = [r for r in results if r[0].known and r[1]]
    for case, _, remark, *_ in known:
        print(f"{case.title}: {remark}")
    failed = sum(not r[1] for r in results)
    print(f"{len(results) - failed - len(known)} good, {len(known)} known, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
