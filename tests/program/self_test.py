"""Plants outcomes that must not pass, and sees that each is refused."""
import argparse
import json
import os
import re
import shutil
import struct
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import grid_bits  # noqa: E402
import same_bits  # noqa: E402
from engine import Workshop, tree
from judging import CLOSE, MOST_OUTPUT, compare_bits, compare_close, judge, verdict
from reading import Failed, digest_run
from rows import ANY, FAIL, Case, Ended, Run
from same_bits import differences
from trainings import CASES

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
    """A program that is a script."""
    program = folder / "stand_in"
    program.write_text("#!/bin/bash\n" + script)
    program.chmod(0o755)
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "templates/one-done/run").mkdir(parents=True)
    (work / "data").mkdir()
    return Workshop(program, "mpiexec", work)


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
            workshop = stand_in(Path(folder), script)
            workshop.farewell = 0.3
            (workshop.work / "data/kept").write_text("0")
            wrong = "; ".join(workshop.carry_out(case, workshop.work / "case")[0])
            if bool(wrong) != bool(words) or words not in wrong:
                yield f"a program that {name}: {wrong or 'passed'}"
        where = Path(folder) / "tree"
        where.mkdir()
        os.mkfifo(where / "pipe")
        if tree(where):
            yield "a pipe was read"


def write_run(folder, weight=1.0, moment=0.5, loss="5.5", norm="1", rows=2, evaluation="2,9", step=2, updates=2, kept=2, sent=0, name="w", weights="weights",
              state="moment1", routing="1.5,18", rounds=0):
    """A run with a checkpoint of one parameter in two pieces, on two ranks, and its moment."""
    checkpoint = folder / f"checkpoints/step-{step:08}"
    checkpoint.mkdir(parents=True)

    def piece(group, begin, count, at):
        return {"group": group, "name": name, "shape": [3], "begin": begin, "count": count, "dtype": "f64", "chunk_elements": 1,
                "chunks": [[at + 8 * i, ""] for i in range(count)]}

    files = [{"name": "rank-00000.h5", "slices": [piece(weights, 0, kept, 0), piece(state, 0, 3, 16)]}, {"name": "rank-00001.h5", "slices": [piece(weights, 2, 1, 0)]},
             {"name": "master.h5", "slices": []}]
    (checkpoint / "rank-00000.h5").write_bytes(struct.pack("<5d", 1, 2, 3, 4, moment))
    (checkpoint / "rank-00001.h5").write_bytes(struct.pack("<d", weight))
    (checkpoint / "manifest.json").write_text(json.dumps({"content": {"checkpoint": {"updates": {"w": updates}}, "files": files}}))
    lines = ["step,loss,grad_norm,lr,seconds,bytes_sent", *(f"{n},{loss},{norm},0.1,{time.monotonic()},{sent}" for n in range(1, rows + 1))]
    (folder / "history.csv").write_text("\n".join(lines) + "\n")
    (folder / "evaluation.csv").write_text(f"step,loss\n{evaluation}\n")
    (folder / "routing.csv").write_text(f"step,balance_loss,most,more_rounds\n1,{routing},{rounds}\n")
    return folder


# (what is other than in the uninterrupted run, what is said by bits, by closeness, and what same_bits.py calls it)
RUNS = [
    ({}, "", "", ""),
    ({"weight": 1.0 + 2**-52}, "other bits of weights/w", "", "weights"),
    ({"weight": 1.0 + 2 * CLOSE}, "other bits of weights/w", "differ by", "weights"),
    ({"weight": float("nan")}, "other bits of weights/w", "differ by", "weights"),
    ({"moment": 0.25}, "other bits of moment1/w", "", "state"),
    ({"name": "v"}, "other arrays", "other parameters", "state, weights"),
    ({"state": "momentum"}, "other arrays", "", ""),  # it may be renamed
    ({"loss": "5.500000000000001"}, "loss at step 1: 5.500000000000001, not 5.5", "", "history"),
    ({"loss": "5.6"}, "loss at step 1: 5.6, not 5.5", "other losses", "history"),
    ({"norm": "2"}, "grad_norm at step 1: 2, not 1", "", "history"),
    ({"sent": 1}, "", "", "history"),
    ({"rows": 1}, "1 rows of history.csv, not 2", "other steps", "history"),
    ({"evaluation": "2,8"}, "evaluation.csv", "other losses", "evaluation"),
    ({"step": 1}, "step-00000001", "", ""),
    ({"updates": 3}, "counts of updates", "", ""),
    ({"routing": "1.25,18"}, "routing.csv, balance_loss at step 1: 1.25, not 1.5", "", ""),
    ({"routing": "1.5,19"}, "routing.csv, most at step 1: 19, not 18", "", ""),
    ({"routing": "1.5,18,0\n1,1.5,18"}, "2 rows of routing.csv, not 1", "", ""),
    ({"rounds": 3}, "", "", ""),  # those of another grid
]
BROKEN = {"elements that nobody holds": {"kept": 1}, "no weights": {"weights": "other"}, "a loss that is not there": {"loss": ""}}


def runs():
    with tempfile.TemporaryDirectory(prefix="trireme-program-") as folder:
        folder = Path(folder)
        whole = write_run(folder / "whole")
        lines = {"#cpu": "one", "case": digest_run(whole)}
        for i, (other, bits, close, fields) in enumerate(RUNS):
            run = write_run(folder / str(i), **other)
            found = differences(lines, {**lines, "case": digest_run(run)})
            for wrong, words in (("; ".join(compare_bits(run, whole)), bits), ("; ".join(compare_close(run, whole)), close),
                                 ("".join(found), fields and f"case: {fields}")):
                if bool(wrong) != bool(words) or words not in wrong:
                    yield f"a run with {other}: {wrong or 'passed'}"
        for name, other in BROKEN.items():
            try:
                yield f"{name}: taken as {digest_run(write_run(folder / name, **other))}"
            except Failed:
                pass
        if len(differences(lines, {"#cpu": "one", "other": ""})) != 2:
            yield "cases that only one side has"
        if len(differences(lines, {**lines, "#cpu": "two"})) != 1:
            yield "another CPU"


def tables():
    """A training that fails is no digest; no two are of one name; grids are all those of 1 to 8 ranks."""
    with tempfile.TemporaryDirectory(prefix="trireme-program-") as folder:
        work = Path(folder)
        (work / "work").mkdir()
        for name, script in (("trireme", "[ $1 = tokenize ] || { echo the disk is full >&2; exit 3; }"), ("launch", 'shift 2; exec "$@"')):
            (work / name).write_text(f"#!/bin/sh\n{script}\n")
            (work / name).chmod(0o755)
        options = argparse.Namespace(mpiexec=str(work / "launch"), patience=1, override=[], only=[])
        try:
            yield f"a failing training is taken as {same_bits.lines_of(work / 'trireme', options, lambda line: None)}"
        except Failed as e:
            if not re.match("gpt2: .*exit code 3 instead of 0(.|\n)*the disk is full", str(e)):
                yield f"a failing training is reported as: {e}"
    if len({case.name for case in CASES}) != len(CASES):
        yield "two trainings of one name"
    if [len(d.grids) for d in grid_bits.DECKS] != [32, 7, 10, 13, 10]:
        yield f"grids: {[len(d.grids) for d in grid_bits.DECKS]}"


def run():
    wrong = [*planted(), *programs(), *runs(), *tables()]
    for w in wrong:
        print(f"self-test: {w}")
    print(f"self-test: {len(wrong)} of {len(PLANTED) + len(PROGRAMS) + 3 * len(RUNS) + len(BROKEN) + 5} wrong")
    return 1 if wrong else 0
