#!/usr/bin/env python3
"""Checks the cuda backend on a machine with a GPU: tests/gpu/run.py [BUILD [TOOL]]

BUILD is a build folder or an unpacked bundle. If the machine has no GPU, the script says so and exits with 0. If a GPU exists but
does not respond, the script fails. TOOL is a tool of compute-sanitizer: memcheck, racecheck, synccheck or initcheck. Operations
and small training runs are then executed under this tool. The script needs only Python.
"""
import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import checks
import presence
from machine import Failed, Machine, Skipped

def named(functions):
    return {check.__name__.replace("_", "-"): check for check in functions}


NAMES = named(checks.CHECKS)
SANITIZED = named(checks.SANITIZED)


def say(text):
    print(text, flush=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = Path(__file__).resolve().parent.parent.parent
    p.add_argument("build", nargs="?", type=Path, default=root if (root / "trireme").is_file() else root / "build")
    p.add_argument("tool", nargs="?", choices=checks.SANITIZERS, help="of compute-sanitizer")
    p.add_argument("--only", action="append", metavar="NAME", help="this check; may be given again")
    p.add_argument("--skip", action="append", default=[], metavar="NAME", help="not this check; may be given again")
    p.add_argument("--list", action="store_true", help="the names of all checks")
    p.add_argument("--backend", default="cuda", choices=["cuda", "host", "fenced"],
                   help="another one stands in for the device: tests this script where there is none")
    p.add_argument("--limit", type=float, metavar="SECONDS",
                   help="for all checks together (540; under a tool 7200)")
    p.add_argument("--patience", type=float, default=1, metavar="FACTOR", help="for a machine that is busy: longer limits")
    p.add_argument("--override", action="append", default=[], metavar="KEY=VALUE",
                   help="of every training's deck; may be given again")
    p.add_argument("--self-test", action="store_true", help="compares doctored numbers")
    return p.parse_args()


def self_test():
    """Checks that comparisons detect wrong numbers. Returns the exit code."""
    want = [2.0, 1.5, 1.25]
    wrong = {
        "a loss off": [2.0, 1.5, 1.25 * (1 + 3e-6)],
        "a loss that is not a number": [2.0, float("nan"), 1.25],
        "a row missing": [2.0, 1.5],
        "no rows": [],
    }
    mistakes = 0
    for what, got in wrong.items():
        try:
            checks.furthest(got, want if got else [], checks.relative(want), what)
            say(f"not found: {what}")
            mistakes += 1
        except Failed:
            pass
    if checks.furthest([2.0, 1.5, 1.25 * (1 + 1e-6)], want, checks.relative(want), "") > 1:
        say("found without reason")
        mistakes += 1
    mistakes += presence.self_test()
    say(f"gpu-test: {len(wrong)} wrong courses, {mistakes} mistakes")
    return 1 if mistakes else 0


def perform(name, check, machine):
    """Runs one check, prints its result and returns how it ended: "ok", "skipped" or "FAILED"."""
    begin = time.monotonic()
    say(f"....    {name}: {check.__doc__}")
    try:
        if begin > machine.end:
            raise Failed("the time for all checks is over: --limit allows more, --only this one alone")
        ending, text = "ok", check(machine)
    except Skipped as e:
        ending, text = "skipped", str(e)
    except Failed as e:
        ending, text = "FAILED", str(e)
    except Exception as e:  # for example a missing file, or text that cannot be parsed
        ending, text = "FAILED", f"{type(e).__name__}: {e}"
    say(f"{ending:7} {name} ({time.monotonic() - begin:.1f} s): {text}")
    return ending


def main():
    a = arguments()
    if a.self_test:
        return self_test()
    names = SANITIZED if a.tool else NAMES
    if a.list:
        for name, check in names.items():
            say(f"{name:18} {check.__doc__}")
        return 0
    unknown = [n for n in [*(a.only or []), *a.skip] if n not in names]
    if unknown:
        say(f"gpu-test: no check is named {unknown[0]}; they are {', '.join(names)}")
        return 2
    begin = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="trireme-gpu-"))
    try:
        machine = Machine(a.build, a.backend, work, a.limit or (7200 if a.tool else 540), a.patience, a.override, a.tool)
        if a.tool and a.backend != "cuda":
            raise Failed(f"{a.tool} is for a device: --backend {a.backend} has none")
        if a.tool and not machine.sanitizer():
            raise Failed(f"{a.tool} is one of compute-sanitizer's tools, which is not here: it comes with CUDA's toolkit; "
                         "put it on PATH, or its toolkit in CUDA_HOME")
        devices, version = machine.devices()
    except Failed as e:
        say(f"gpu-test: {e}")
        shutil.rmtree(work)
        return 1
    if a.backend == "cuda" and devices == 0:
        shutil.rmtree(work)
        said = version.splitlines()[-1]
        if signs := presence.signs_of_a_gpu():
            say(f"gpu-test: FAILED, {presence.why_it_does_not_answer(said, signs)}")
            return 1
        say(f"gpu-test: skipped, no device answers here: {said}")
        return 0
    say(f"{version}\n{os.cpu_count()} cores, backend {a.backend}, build {machine.build}")
    endings = [perform(name, names[name], machine) for name in (a.only or names) if name not in a.skip]
    failed = endings.count("FAILED")
    if failed:
        say(f"gpu-test: runs and logs are in {work}")
    else:
        shutil.rmtree(work)
    stand_in = "" if a.backend == "cuda" else f", {a.backend} standing in for the device"
    say(f"gpu-test: {endings.count('ok')} passed, {failed} failed, {endings.count('skipped')} skipped "
        f"in {time.monotonic() - begin:.0f} s{stand_in}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
