"""Plants outcomes that must not pass, and sees that each is refused."""
import json
import os
import shutil
import struct
import tempfile
from pathlib import Path

from engine import Bench, tree
from judging import CLOSE, MOST_OUTPUT, compare_bits, compare_close, judge, verdict
from rows import ANY, FAIL, Case, Ended, Run

# (what is planted, the row, how it ended, what must be said of it); nothing to say: it must pass.
PLANTED = [
    ("a good end", Run(), Ended(0, "done"), ""),
    ("a good refusal", Run(codes=(1,), says=("no such deck",)), Ended(1, "error no such deck"), ""),
    ("a kill", Run(codes=FAIL), Ended(137, ""), ""),
    ("whatever", Run(codes=ANY), Ended(3, ""), ""),
    ("failure with 0", Run(codes=FAIL), Ended(0, "error"), "ended with 0"),
    ("another code", Run(codes=(75,)), Ended(15, ""), "15 instead of 75"),
    ("a failure where none may be", Run(), Ended(1, ""), "1 instead of 0"),
    ("a hang", Run(codes=ANY), Ended(137, "", hung=True), "hung"),
    ("a text that is missing", Run(says=("advice",)), Ended(0, "no"), "does not say"),
    ("a text that must not be", Run(silent=("starts fresh",)), Ended(0, "it starts fresh"), "says /starts fresh/"),
    ("a text that comes twice", Run(once=("no deck",)), Ended(0, "no deck, no deck"), "2 times"),
    ("a text that should come once", Run(once=("no deck",)), Ended(0, "no"), "0 times"),
    ("an exception", Run(codes=FAIL), Ended(134, "terminate called after throwing"), "terminate"),
    ("a C++ name", Run(codes=FAIL), Ended(1, "error map::at"), "map::at"),
    ("a stack", Run(codes=FAIL), Ended(139, "Caught signal 11"), "signal"),
    ("a flood", Run(codes=ANY), Ended(1, "x" * (MOST_OUTPUT + 1)), "bytes"),
    ("an orphan", Run(), Ended(0, "", left=("123",)), "stay behind"),
    ("a fault that never came", Run(faults="write *x 1 EIO; sync * 2 EIO"), Ended(0, "", met=("0 write /x",)), "'sync * 2 EIO' never"),
]


def planted():
    for name, run, ended, words in PLANTED:
        wrong = "; ".join(judge(run, ended))
        if bool(wrong) != bool(words) or words not in wrong:
            yield f"{name}: {wrong or 'passed'}"
    for known, wrong, expected in (("", [], True), ("", ["x"], False), ("later", ["x"], True), ("later", [], False)):
        if verdict(Case("c", [], known=known), wrong)[0] != expected:
            yield f"known={known!r} with {wrong}"


def stand_in(folder, script):
    """A build whose program is a script."""
    build = folder / "build"
    shutil.rmtree(build, ignore_errors=True)
    (build / "tests").mkdir(parents=True)
    program = build / "trireme"
    program.write_text("#!/bin/bash\n" + script)
    program.chmod(0o755)
    (build / "tests/failing_calls.so").touch()
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "templates/one-done/run").mkdir(parents=True)
    (work / "data").mkdir()
    return Bench(build, "mpiexec", work)


# (what the program does, the case, what must be said)
PROGRAMS = [
    ("hangs", "sleep 100", Case("c", [Run(limit=0.3)], finish=""), "hung"),
    ("leaves a process", "sleep 30 >/dev/null 2>&1 & exit 0", Case("c", [Run()], finish=""), "stay behind"),
    ("is killed", "kill -9 $$", Case("c", [Run()], finish=""), "137"),
    ("writes where it must not", "echo 1 > kept", Case("c", [Run()], finish="", untouched="kept"), "kept is not what it was"),
    ("leaves no checkpoint", "exit 0", Case("c", [], finish="bits"), "no checkpoint"),
    ("leaves something", "touch left", Case("c", [Run()], finish="", after="[ ! -e left ]"), "at the end"),
    ("is in order", "exit 0", Case("c", [Run()], finish=""), ""),
    ("ends otherwise than a story says", "exit 3", Case("c", [], story=lambda at: at("check", codes=(1,))), "code 3 instead of 1"),
    ("says something else", "echo 5", Case("c", [], story=lambda at: at.same_text()), "AttributeError"),
    ("is on a terminal", "[ -t 0 ] && [ -t 2 ]", Case("c", [Run(terminal=True)], finish=""), ""),
    ("is on none", "[ -t 2 ]", Case("c", [Run()], finish=""), "1 instead of 0"),
]


def programs():
    with tempfile.TemporaryDirectory(prefix="trireme-program-") as folder:
        for name, script, case, words in PROGRAMS:
            bench = stand_in(Path(folder), script)
            bench.farewell = 0.3
            (bench.work / "data/kept").write_text("0")
            wrong = "; ".join(bench.carry_out(case, bench.work / "case")[0])
            if bool(wrong) != bool(words) or words not in wrong:
                yield f"a program that {name}: {wrong or 'passed'}"
        where = Path(folder) / "tree"
        where.mkdir()
        os.mkfifo(where / "pipe")
        if tree(where):
            yield "a pipe was read"


def write_run(folder, weight=1.0, moment=0.5, loss="5.5", rows=2, evaluation="2,9", step=2, updates=2):
    """A run with a checkpoint of one weight and its moment."""
    checkpoint = folder / f"checkpoints/step-{step:08}"
    checkpoint.mkdir(parents=True)
    slices = [{"group": group, "name": "w", "shape": [1], "begin": 0, "count": 1, "dtype": "f64", "chunk_elements": 1, "chunks": [[at, ""]]}
              for group, at in (("weights", 0), ("moment1", 8))]
    (checkpoint / "rank-00000.h5").write_bytes(struct.pack("<dd", weight, moment))
    (checkpoint / "manifest.json").write_text(json.dumps({"content": {"checkpoint": {"updates": {"w": updates}}, "files": [{"name": "rank-00000.h5", "slices": slices}]}}))
    lines = ["step,loss,grad_norm,lr", *(f"{n},{loss},1,0.1" for n in range(1, rows + 1))]
    (folder / "history.csv").write_text("\n".join(lines) + "\n")
    (folder / "evaluation.csv").write_text(f"step,loss\n{evaluation}\n")
    return folder


# (what is other than in the uninterrupted run, what is said by bits, and by closeness)
RUNS = [
    ({}, "", ""),
    ({"weight": 1.0 + 2**-52}, "other bits of weights/w", ""),
    ({"weight": 1.0 + 2 * CLOSE}, "other bits of weights/w", "differ by"),
    ({"weight": float("nan")}, "other bits of weights/w", "differ by"),
    ({"moment": 0.25}, "other bits of moment1/w", ""),
    ({"loss": "5.6"}, "loss at step 1: 5.6, not 5.5", "other losses"),
    ({"rows": 1}, "history.csv", "other steps"),
    ({"evaluation": "2,8"}, "evaluation.csv", "other losses"),
    ({"step": 1}, "step-00000001", ""),
    ({"updates": 3}, "counts of updates", ""),
]


def runs():
    with tempfile.TemporaryDirectory(prefix="trireme-program-") as folder:
        whole = write_run(Path(folder) / "whole")
        for i, (other, bits, close) in enumerate(RUNS):
            run = write_run(Path(folder) / str(i), **other)
            for wrong, words in (("; ".join(compare_bits(run, whole, True)), bits), ("; ".join(compare_close(run, whole)), close)):
                if bool(wrong) != bool(words) or words not in wrong:
                    yield f"a run with {other}: {wrong or 'passed'}"


def run():
    wrong = [*planted(), *programs(), *runs()]
    for w in wrong:
        print(f"self-test: {w}")
    print(f"self-test: {len(wrong)} of {len(PLANTED) + len(PROGRAMS) + len(RUNS)} wrong")
    return 1 if wrong else 0
