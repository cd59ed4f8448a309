"""A real Slurm of virtual nodes on this machine, and what the cases of slurm_test.py ask of it and of the runs in its jobs."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CLUSTER = ROOT / "tests/jobs/cluster.sh"
SCRIPT = ROOT / "jobscripts/train.sbatch"
STEPS = 300
PATIENCE_S = 300  # for what takes seconds on an idle machine

DECK = f"""
[model]
layers = 2
width = 64
heads = 2
context = 64
[data]
path = "text.tokens"
validation = 0.2
[train]
batch = 32
microbatch = 8
steps = {STEPS}
[evaluate]
every_steps = 100
batches = 1
[checkpoint]
every_steps = 0
keep_last = 0
[run]
backend = "host"
log_every = 50
"""


class Failure(Exception):
    pass


def require(holds, text):
    if not holds:
        raise Failure(text)


class Cluster:
    def __init__(self, program, mpiexec, folder, subnet=""):
        self.folder = folder
        self.program, self.mpiexec = program, mpiexec
        started = subprocess.run([CLUSTER, "start", self.folder / "slurm", "4", "2", subnet], capture_output=True, text=True)
        if started.returncode:
            self.stop()
            print(started.stderr.strip())
            sys.exit(77 if started.returncode == 77 else 1)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm/slurm.conf"), "TRIREME": program}
        (self.work / "deck.toml").write_text(DECK)
        (self.work / "text.txt").write_text("the quick brown fox jumps over the lazy dog, " * 400)
        self.call(program, "tokenize", "text.txt", "--output", "text.tokens")

    def stop(self):
        subprocess.run([CLUSTER, "stop", self.folder / "slurm"], capture_output=True)

    def restore(self):
        """Called before each case. What a failed case leaves must not disturb the next one. These cases clean up themselves."""

    def call(self, *command, **more):
        done = subprocess.run([str(c) for c in command], cwd=self.work, text=True, capture_output=True, timeout=PATIENCE_S,
                              env={**self.environment, **more})
        require(done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, run, *arguments, options=(), steps=STEPS, nodes=2, **more):
        """A job on two nodes with a rank each; arguments go to the program."""
        out = self.call("sbatch", "--parsable", f"--nodes={nodes}", "--ntasks-per-node=1", "--cpus-per-task=1", "--time=10",
                        f"--output={run}-%j.out", *options, SCRIPT, "deck.toml", f"train.steps={steps}", "zero.stage=3",
                        "--run-dir", run, *arguments, **more)
        return out.strip()

    def state(self, job):
        shown = self.call("scontrol", "show", "job", job, "-o")
        return dict(pair.split("=", 1) for pair in shown.split() if "=" in pair)["JobState"]

    def outcome(self, run):
        try:
            return json.loads((self.work / run / "outcome.json").read_text())
        except FileNotFoundError:
            return {"status": "none", "step": 0, "exit_reason": ""}

    def rows(self, run):
        file = self.work / run / "history.csv"
        return [int(line.split(",")[0]) for line in file.read_text().splitlines()[1:]] if file.exists() else []

    def losses(self, run):
        lines = (self.work / run / "history.csv").read_text().splitlines()
        at = lines[0].split(",").index("loss")
        return [line.split(",")[at] for line in lines[1:]]

    def recoveries(self, run):
        file = self.work / run / "recoveries.csv"
        if not file.exists():
            return []
        header, *rows = [line.split(",") for line in file.read_text().splitlines()]
        return [dict(zip(header, row)) for row in rows]

    def nodes_of(self, job):
        """The nodes of a job that runs."""
        return self.call("scontrol", "show", "hostnames", self.call("squeue", "-h", "-j", job, "-o", "%N").strip()).split()

    def until(self, what, holds):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if holds():
                return
            time.sleep(0.2)
        raise Failure(f"{what}: not within {PATIENCE_S} s")

    def until_ended(self, job):
        over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
        self.until(f"the end of job {job}", lambda: self.state(job) in over)
        return self.state(job)

    def until_steps(self, run, steps):
        self.until(f"{steps} steps of {run}", lambda: len(self.rows(run)) >= steps)

    def output(self, run):
        return "".join(f.read_text() for f in sorted(self.work.glob(f"{run}-*.out")))

    def weights(self, run, steps=STEPS):
        manifest = json.loads((self.work / run / f"checkpoints/step-{steps:08}/manifest.json").read_text())
        return [s["chunks"] for f in manifest["content"]["files"] for s in f.get("slices", [])]

    def require_like_whole(self, run, steps=STEPS):
        """Done, every row once, the weights of the run `whole`."""
        require(self.outcome(run)["status"] == "done", f"{run}: {self.outcome(run)}\n{self.output(run)}")
        require(self.rows(run) == list(range(1, steps + 1)), f"{run}: rows of history.csv are missing or double")
        require(self.weights(run, steps) == self.weights("whole", steps), f"{run}: other weights than without interruption")

    def restarts(self, run):
        return (self.work / run / "log").read_text().count("restarting from")


def signal_processes(job, node, number, only=""):
    """Sends a signal to the job's processes on a node, or to those with a text in their environment."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if all(text.encode() in environment for text in (f"SLURM_JOB_ID={job}\0", f"SLURMD_NODENAME={node}\0", only)):
            try:
                os.kill(int(process.name), number)
            except ProcessLookupError:
                pass


def set_down(c, job, node):
    c.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    signal_processes(job, node, signal.SIGKILL)  # what a node's failure ends
