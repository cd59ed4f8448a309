#!/usr/bin/env python3
"""Tests `run.py BUILD TOOL` with a fake trireme, fake tests, and a fake compute-sanitizer that records its arguments."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

TRIREME = """#!/usr/bin/env python3
import pathlib, sys
if sys.argv[1] == "version":
    print("CUDA devices: 1")
else:
    run = pathlib.Path(sys.argv[sys.argv.index("--run-dir") + 1])
    run.mkdir()
    (run / "history.csv").write_text("step,loss\\n1,3\\n2,2\\n3,1\\n")
"""
TESTS = """#!/bin/sh
echo '[  PASSED  ] 3 tests.'
"""
SANITIZER = """#!/usr/bin/env python3
import json, os, subprocess, sys
with open(os.environ["ASKED"], "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
program = next(i for i, a in enumerate(sys.argv) if i > 0 and os.path.isfile(a))
code = subprocess.call(sys.argv[program:])
found = os.environ.get("FOUND", "nothing")
sys.exit(int(sys.argv[sys.argv.index("--error-exitcode") + 1]) if found in " ".join(sys.argv) else code)
"""


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Pretended:
    def __init__(self, folder):
        self.build = folder / "build"
        self.bin = folder / "bin"
        self.asked = folder / "asked"
        executable(self.build / "trireme", TRIREME)
        executable(self.build / "tests/gpu_test", TESTS)
        (self.build / "quickstart.tokens").write_text("")

    def run(self, *arguments, found="nothing"):
        """Runs run.py. Returns its exit code, its output, and the arguments of each compute-sanitizer call."""
        self.asked.write_text("")
        # Runs run.py, but hides a CUDA toolkit that this machine may have.
        start = ("import sys, machine, run, shutil; which = shutil.which; "
                 f"machine.shutil.which = lambda name: which(name, path={str(self.bin)!r}); "
                 "machine.TOOLKITS = []; sys.exit(run.main())")
        env = {**os.environ, "ASKED": str(self.asked), "FOUND": found, "PYTHONPATH": str(HERE)}
        env.pop("CUDA_HOME", None)
        done = subprocess.run([sys.executable, "-c", start, str(self.build), *arguments], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout, [json.loads(line) for line in self.asked.read_text().splitlines()]


OF_TOOL = {"memcheck": [], "racecheck": ["--racecheck-report", "analysis", "--kernel-name", "kns=7trireme"],
           "synccheck": ["--kernel-name", "kns=7trireme"], "initcheck": ["--kernel-name", "kns=7trireme"]}


def main():
    mistakes = []

    def expect(holds, what, out):
        if not holds:
            mistakes.append(f"{what}:\n{out}")

    with tempfile.TemporaryDirectory() as folder:
        there = Pretended(Path(folder))
        code, out, asked = there.run("racecheck")
        expect(code == 1 and "compute-sanitizer's tools, which is not here" in out and not asked, "a tool that is absent", out)
        executable(there.bin / "compute-sanitizer", SANITIZER)
        for tool, options in OF_TOOL.items():
            code, out, asked = there.run(tool)
            expect(code == 0 and "3 passed, 0 failed, 0 skipped" in out, tool, out)
            want = ["--tool", tool, *options, "--error-exitcode", "9"]
            expect(all(a[:len(want)] == want for a in asked), f"{tool}'s options", asked)
            programs = {Path(a[next(i for i, x in enumerate(a) if os.path.isfile(x))]).name for a in asked}
            expect(programs == {"gpu_test", "trireme"}, f"{tool}'s programs", asked)
            guards = "run.guards=" + ("false" if tool == "initcheck" else "true")
            trainings = [a for a in asked if "train" in a]
            expect(len(trainings) == 2 and all(guards in a for a in trainings), f"{tool}'s trainings", asked)
        for found in ("gpu_test", "precision.compute=bf16"):
            code, out, _ = there.run("memcheck", found=found)
            expect(code == 1 and "ended with code 9" in out and "FAILED" in out, f"something is found in {found}", out)
        code, out, _ = there.run("memcheck", "--backend", "host")
        expect(code == 1 and "is for a device" in out, "a tool without a device", out)
        code, out, _ = there.run("valgrind")
        expect(code == 2 and "valgrind" in out, "another tool", out)
        code, out, asked = there.run("--only", "sanitizer")
        expect(code == 0 and asked and asked[0][:2] == ["--tool", "memcheck"], "among all checks", out)
    for m in mistakes:
        print(m)
    print(f"gpu-test under compute-sanitizer: {len(mistakes)} mistakes")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
