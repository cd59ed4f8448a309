#!/usr/bin/env python3
"""tests/cases/run.py on a program whose cases go wrong in every way: tests/cases/self_test.py SAMPLE"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

RUN = Path(__file__).with_name("run.py")
SAMPLE = sys.argv[1]
FAILS = ["Sample.Fails", "Sample.Crashes", "Sample.Hangs", "Sample.EndsTheProgramWell", "Of/Values.AreShown/0"]
PASS = ["Sample.Passes", "Sample.LeavesAChild", "Of/Values.AreShown/1", "Typed/0.Passes", "Typed/1.Passes"]


def run(*options, program=SAMPLE, cases="*", **environment):
    """(code, what it says, {case: verdict}, the counts that it writes)"""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        done = subprocess.run([RUN, "--counts", counts, "--cases", cases, *options, program], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, **environment})
        lines = counts.read_text().splitlines() if counts.exists() else ["none"]
    verdicts = [line.split(maxsplit=2)[1:] for line in lines[1:]]
    assert len({name for _, name in verdicts}) == len(verdicts), "a case ran twice"
    return done.returncode, done.stdout, {name: verdict for verdict, name in verdicts}, lines[0]


def check(holds, what, said):
    if not holds:
        sys.exit(f"{said}\ncases: WRONG: {what}")


# Every way at once: each case has its verdict, and all others ran.
code, said, verdicts, counts = run("--limit", "1")
expected = {**dict.fromkeys(FAILS, "failed"), **dict.fromkeys(PASS, "passed"), "Sample.Skips": "skipped"}
check(verdicts == expected, f"{verdicts} are the verdicts", said)
check(code == 1 and said.splitlines()[-1] == "5 passed, 5 failed, 1 skipped" and counts == "5 5 1", "the counts", said)
for words in ("said by a case that fails", "said before the crash", "Sample.Crashes: the program ended in it with signal SIGSEGV",
              "Sample.Hangs: no end after 1 s", "Sample.EndsTheProgramWell: the program ended in it with code 0",
              "skipped Sample.Skips: .*no such machine"):
    check(re.search(words, said), f"'{words}' is not said", said)
check("without an end" not in said, "a case that passes is shown", said)

# What passes, in parts that together are all.
good = ":".join(PASS)
parts = [run("--part", f"{i}/2", cases=good) for i in (1, 2)]
check(all(code == 0 for code, _, _, _ in parts), "good parts fail", parts)
check(sorted(parts[0][2]) != sorted(parts[1][2]) and sorted([*parts[0][2], *parts[1][2]]) == sorted(PASS), "parts are not all", parts)

# A program that fails behind its last case, one that lists nothing, one that is not there.
code, said, _, counts = run(cases=good, SAMPLE_CODE="23")
check(code == 1 and counts == "5 1 0" and "ended with code 23, though no case failed" in said, "its own code", said)
code, said, _, _ = run(cases="Nothing.*")
check(code == 1 and said.endswith("0 passed, 1 failed, 0 skipped\n"), "no cases", said)
check(run(program="/no/such/program")[0] != 0, "no program", "")

# Behind a launcher, which is where a rank that does not report may fail.
with tempfile.TemporaryDirectory() as folder:
    launcher = Path(folder) / "launcher"
    launcher.write_text('#!/bin/sh\n"$@" | sed "s/^.*OK \\] Typed.1.Passes.*/[  ELSEWHERE ] Typed\\/1.Passes failed on another rank\\n&/"\n')
    launcher.chmod(0o755)
    code, said, verdicts, _ = run("--launch", str(launcher), cases="*.Passes")
check(code == 1 and [name for name, verdict in verdicts.items() if verdict == "failed"] == ["Typed/1.Passes"], "elsewhere", said)
print("cases: all verdicts are right")
