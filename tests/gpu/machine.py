"""Finds and runs the programs in a build folder of a source tree or in an unpacked bundle.

Both contain trireme, tests/gpu_test and quickstart.tokens. Their parent folder contains inputs/ and tests/.
"""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path


TOOLKITS = ["/usr/local/cuda"]


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def cached(build, name):
    cache = build / "CMakeCache.txt"
    found = re.search(rf"^{name}:[^=]*=(.*)$", cache.read_text(), re.M) if cache.is_file() else None
    return found[1] if found else None


class Machine:
    """Runs the programs that checks need, for at most `seconds` in total. `patience` multiplies each command's time limit."""

    def __init__(self, build, backend, work, seconds, patience, overrides=(), tool=None):
        self.build = build.resolve()
        self.root = Path(__file__).resolve().parent.parent.parent
        self.backend = backend  # the device's backend, or its substitute in tests
        self.work = work
        self.patience = patience
        self.overrides = overrides  # for every training run
        self.tool = tool  # the tool of compute-sanitizer under which all checks run
        self.end = time.monotonic() + seconds
        self.trireme = str(self.build / "trireme")
        own = self.build / "mpiexec"
        self.mpiexec = str(own) if own.is_file() else cached(self.build, "MPIEXEC_EXECUTABLE") or "mpiexec"
        self.tokens = str(self.build / "quickstart.tokens")
        self.deck = str(self.root / "inputs/quickstart.toml")
        for file in (self.trireme, self.tokens, self.deck):
            if not os.path.isfile(file):
                raise Failed(f"{file} is missing: `make build`, or name the build folder")

    # -- processes

    def start(self, command, env=None, errors=subprocess.STDOUT):
        """Starts a command in a new process group. The working directory is the root, because tests read files there."""
        return subprocess.Popen(command, cwd=self.root, env={**os.environ, **(env or {})}, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)

    def finish(self, process, limit):
        """Waits for a process and returns its output. Raises Failed if the exit code is not 0 or the time limit is exceeded."""
        name = " ".join(os.path.relpath(a, self.root) if a.startswith("/") else a for a in process.args)
        allowed = max(1, min(limit * self.patience, self.end - time.monotonic()))
        try:
            out, _ = process.communicate(timeout=allowed)
        except subprocess.TimeoutExpired:
            out = self.stop(process)
            raise Failed(f"{name}\ntook longer than {allowed:.0f} s; its last lines:\n{tail(out)}") from None
        if process.returncode != 0:
            raise Failed(f"{name}\nended with code {process.returncode}:\n{tail(out)}")
        return out

    @staticmethod
    def stop(process):
        for how in (signal.SIGTERM, signal.SIGKILL):  # mpiexec passes the first one on
            try:
                os.killpg(process.pid, how)
            except ProcessLookupError:
                pass
            try:
                return process.communicate(timeout=5)[0]
            except subprocess.TimeoutExpired:
                continue
        return "(it does not end)"

    def run(self, command, limit, env=None):
        return self.finish(self.start(command, env), limit)

    def ranks(self, n, command):
        return [self.mpiexec, "-n", str(n), *command] if n > 1 else command

    # -- test programs

    def program(self):
        file = self.build / "tests/gpu_test"
        if not file.is_file():
            raise Failed(f"{file} is missing: build the target gpu_test")
        return str(file)

    def gtest(self, which, limit, shards=1, before=(), env=None):
        """Runs the test cases that match a filter, divided among processes. Returns the numbers (passed, skipped)."""
        command = [*before, self.program(), f"--gtest_filter={which}", "--gtest_brief=1"]
        alone = {"TRIREME_HANG_LIMIT": str(round(limit * self.patience)), **(env or {})}
        running = []
        for i in range(shards):
            share = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(i)} if shards > 1 else {}
            running.append(self.start(command, {**share, **alone}))
        passed = skipped = 0
        problems = []
        for process in running:
            try:
                out = self.finish(process, limit)
                passed += number(r"\[  PASSED  \] (\d+) test", out)
                skipped += number(r"\[  SKIPPED \] (\d+) test", out)
            except Failed as e:
                problems.append(str(e))
        if problems:
            raise Failed("\n".join(problems))
        if passed + skipped == 0:
            raise Failed(f"there is no case {which}")
        return passed, skipped

    def parallel(self, ranks, which, limit, draw="all"):
        """Runs cases of tests/parallel. All ranks use the first device, except in cases between devices. draw.hpp explains `draw`."""
        env = {"TRIREME_TEST_BACKEND": self.backend, "TRIREME_HANG_LIMIT": str(round(limit * self.patience)), "OMP_NUM_THREADS": "1",
               "TRIREME_DRAW": draw}
        command = self.ranks(ranks, [self.program(), f"--gtest_filter={which}"])
        out = self.run(command, limit, env)
        passed = number(r"\[  PASSED  \] (\d+) test", out)
        if passed == 0:
            raise Failed(f"there is no case {which}")
        return passed

    # -- the program

    def train(self, name, *overrides, ranks=1, backend=None, restart=None, limit=120, before=()):
        """Trains the quick start's deck and returns the run directory."""
        run = self.work / name
        command = [self.trireme, "train", self.deck, f"data.path={self.tokens}", f"run.backend={backend or self.backend}",
                   "run.share_gpu=true", *self.overrides, *overrides, "--run-dir", str(run)]
        if ranks > 1:
            command.append("run.threads=1")
        if restart:
            command += ["--restart", str(restart)]
        self.run([*before, *self.ranks(ranks, command)], limit)
        return run

    def plan(self, ranks, *overrides):
        return self.json_of([self.trireme, "plan", self.deck, f"data.path={self.tokens}", f"run.backend={self.backend}",
                             "run.share_gpu=true", *self.overrides, *overrides, "--ranks", str(ranks), "--json"], 60)

    def json_of(self, command, limit):
        """Returns what a command prints as JSON."""
        with open(self.work / "plan.log", "w+") as log:  # warnings are not part of the JSON
            try:
                return json.loads(self.finish(self.start(command, errors=log), limit))
            except Failed as e:
                log.seek(0)
                raise Failed(f"{e}\n{tail(log.read())}") from None

    def devices(self):
        """Returns the number of usable devices, and the text that trireme prints about devices and libraries."""
        said = self.run([self.trireme, "version"], 60).strip()
        return number(r"CUDA devices: (\d+)", said), said

    def sanitizer(self):
        """Returns the path of compute-sanitizer, or None."""
        homes = [os.environ.get("CUDA_HOME"), *TOOLKITS]
        places = [Path(home) / folder / "compute-sanitizer" for home in homes if home for folder in ("bin", "compute-sanitizer")]
        return shutil.which("compute-sanitizer") or next((str(p) for p in places if p.is_file()), None)


def history(run):
    """Returns the rows of a run's history.csv, with values converted to float. Empty fields become None."""
    with open(run / "history.csv", newline="") as file:
        return [{k: float(v) if v else None for k, v in row.items()} for row in csv.DictReader(file)]


def number(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def tail(text, lines=40):
    return "\n".join("    " + line for line in (text or "").rstrip().splitlines()[-lines:])
