#!/usr/bin/env python3
"""jobscripts/ on a real Slurm of four virtual nodes: slurm_test.py TRIREME MPIEXEC [--full] [CASE ...]

Each case is a way in which a job may be interrupted; all have to end with the weights of a run that was not. Without Slurm on
this machine it says so and ends with 77.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
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
    def __init__(self, program, mpiexec):
        self.folder = Path(tempfile.mkdtemp(prefix="trireme-slurm-"))
        self.folder.chmod(0o755)  # munge insists
        self.program, self.mpiexec = program, mpiexec
        started = subprocess.run([CLUSTER, "start", self.folder / "slurm", "4"], capture_output=True, text=True)
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
        shutil.rmtree(self.folder, ignore_errors=True)

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


def submit(c):
    job = c.submit("whole")
    require(c.until_ended(job) == "COMPLETED", c.output("whole"))
    log = (c.work / "whole/log").read_text()
    for text in (f"Slurm job {job}, restart 0, on n[", "2 ranks", "deck.toml", "tokens/s on average", "last checkpoint"):
        require(text in log, f"the log lacks '{text}':\n{log}")


def requeue(c):
    """As before a time limit: --signal reaches the ranks."""
    job = c.submit("limited")
    c.until_steps("limited", 5)
    c.call("scancel", "-s", "TERM", job)
    require(c.until_ended(job) == "COMPLETED", c.output("limited"))
    c.require_like_whole("limited")
    require(c.restarts("limited") >= 1, "it was never requeued")
    require("restart 1" in (c.work / "limited/log").read_text(), "the log does not count restarts")


def preemption(c):
    job = c.submit("preempted", nodes=2)
    c.until_steps("preempted", 5)
    urgent = c.call("sbatch", "--parsable", "--partition=urgent", "--nodes=3", "--exclusive", "--output=/dev/null",
                    "--wrap=sleep 1").strip()
    require(c.until_ended(urgent) == "COMPLETED", "the urgent job did not run")
    require(c.until_ended(job) == "COMPLETED", c.output("preempted"))
    c.require_like_whole("preempted")
    require(c.restarts("preempted") == 1, "it was not preempted")


def cancel(c):
    job = c.submit("cancelled")
    c.until_steps("cancelled", 5)
    c.call("scancel", job)
    require(c.until_ended(job) == "CANCELLED", c.state(job))
    c.until("its checkpoint", lambda: c.outcome("cancelled")["status"] == "stopped")
    again = c.submit("cancelled")
    require(c.until_ended(again) == "COMPLETED", c.output("cancelled"))
    c.require_like_whole("cancelled")


def checkpoint_signal(c):
    """A checkpoint by signal and by file, and it goes on; then a stop by file, which is not requeued."""
    job = c.submit("signalled", steps=1000000)
    c.until_steps("signalled", 5)
    newest = lambda: max((f.name for f in (c.work / "signalled/checkpoints").glob("step-*")), default="")
    c.call("scancel", "-s", "USR1", job)
    c.until("the first checkpoint", newest)
    time.sleep(2)  # ranks that get the signal apart save twice
    first, file = newest(), c.work / "signalled/checkpoint_now"
    file.touch()
    c.until("the second checkpoint", lambda: newest() > first and not file.exists())
    require(c.state(job) == "RUNNING", c.state(job))
    (c.work / "signalled/stop_now").touch()
    require(c.until_ended(job) == "FAILED", c.state(job))
    require("stop_now" in c.outcome("signalled")["exit_reason"], str(c.outcome("signalled")))


def starting(c):
    """Stopped while its program starts, before it can take signals."""
    (c.work / "slow").write_text("#!/bin/bash\n[[ $* == *--print-run-dir* || -n ${SLURM_RESTART_COUNT-} ]] || { touch slow.began; sleep 60; }\n"
                                 f"exec {c.program} \"$@\"\n")
    (c.work / "slow").chmod(0o755)
    job = c.submit("early", TRIREME=str(c.work / "slow"))
    c.until("its ranks", lambda: (c.work / "slow.began").exists())
    c.call("scancel", "-s", "TERM", job)
    require(c.until_ended(job) == "COMPLETED", c.output("early"))
    c.require_like_whole("early")
    require("a signal stopped the program before it trained; requeueing" in c.output("early"), c.output("early"))


def no_requeue(c):
    job = c.submit("once", options=["--no-requeue"])
    c.until_steps("once", 5)
    c.call("scancel", "-s", "TERM", job)
    require(c.until_ended(job) == "FAILED", c.output("once"))
    require("not requeued: Slurm refused" in c.output("once"), c.output("once"))
    require(c.outcome("once")["status"] == "stopped", str(c.outcome("once")))


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


def fail_node(c, job):
    node = c.call("squeue", "-h", "-j", job, "-o", "%B").strip()
    set_down(c, job, node)
    c.until("the requeue", lambda: c.state(job) != "RUNNING")
    # It may be back already.
    subprocess.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"], env=c.environment, capture_output=True)
    require(c.until_ended(job) == "COMPLETED", c.output("failed"))


def node_failure(c):
    job = c.submit("failed")
    c.until_steps("failed", 5)
    c.call("scancel", "-s", "USR1", job)
    c.until("a checkpoint", lambda: list((c.work / "failed").glob("checkpoints/step-*/manifest.json")))
    fail_node(c, job)
    require(c.restarts("failed") == 1, "it began again")
    c.require_like_whole("failed")


def node_failure_early(c):
    """Before its first checkpoint a job goes on from what it was asked to."""
    old = c.submit("old", TRIREME_REQUEUE="no")
    c.until_steps("old", 5)
    c.call("scancel", "-s", "TERM", old)
    require(c.until_ended(old) == "FAILED", c.output("old"))
    job = c.submit("next", "--restart", "old")
    c.until_steps("next", 5)
    fail_node(c, job)
    require(c.restarts("next") == 2, (c.work / "next/log").read_text())
    require(c.weights("next") == c.weights("whole"), "other weights than without interruption")


def array(c):
    job = c.submit("tasks/${SLURM_ARRAY_TASK_ID}", "train.seed=${SLURM_ARRAY_TASK_ID}", "--time-limit", "00:05:00",
                   options=["--array=1-2", "--output=array-%a.out"], steps=20, nodes=1)
    c.until("both tasks", lambda: all(c.outcome(f"tasks/{i}")["status"] == "done" for i in (1, 2)))
    require(c.weights("tasks/1", 20) != c.weights("tasks/2", 20), "both tasks trained with one seed")
    require(f"Slurm job {job}_2" in (c.work / "tasks/2/log").read_text(), "the log does not name the task")


def array_task(c):
    """One task stops and is requeued, the other is not touched; a task that was cancelled stays so. Slurm names the last by the
    array's own number."""
    job = c.submit("pair/${SLURM_ARRAY_TASK_ID}", "train.seed=${SLURM_ARRAY_TASK_ID}", options=["--array=1-2", "--output=pair-%a.out"],
                   steps=1000000, nodes=1)
    for task in (1, 2):
        c.until_steps(f"pair/{task}", 3)
    c.call("scancel", "-s", "TERM", f"{job}_2")
    c.until("the task's requeue", lambda: "restart 1" in (c.work / "pair/2/log").read_text())
    require("stopped after" not in (c.work / "pair/1/log").read_text(), "the other task was stopped")
    c.call("scancel", f"{job}_2")
    c.until("the task's end", lambda: c.outcome("pair/2")["status"] == "stopped")
    time.sleep(3)
    require("stopped after" not in (c.work / "pair/1/log").read_text(), "cancelling one task stopped the other")
    require("the job was cancelled" in (c.work / "pair-2.out").read_text(), (c.work / "pair-2.out").read_text())
    c.call("scancel", job)


def chain(c):
    made = c.call(ROOT / "jobscripts/chain.sh", 3, "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1", "--output=chain-%j.out",
                  SCRIPT, "deck.toml", "zero.stage=3", "--run-dir", "chain")
    jobs = made.split()
    c.until_steps("chain", 5)
    c.call("scancel", "-s", "TERM", jobs[0])
    require(len(jobs) == 3, made)
    ends = [c.until_ended(job) for job in jobs]
    require(ends[-1] == "COMPLETED", f"{ends}\n{c.output('chain')}")
    c.require_like_whole("chain")


def mpiexec(c):
    job = c.submit("hydra", TRIREME_LAUNCH=f"{c.mpiexec} -n 2", steps=STEPS)
    require(c.until_ended(job) == "COMPLETED", c.output("hydra"))
    c.require_like_whole("hydra")


def time_limit(c):
    """Slurm's own limit, a minute: the program stops before it by itself. Slurm may signal a minute earlier than asked."""
    job = c.submit("minute", options=["--time=1", "--signal=USR1@1"], steps=1000000)
    c.until_steps("minute", 5)
    c.until("the requeue", lambda: c.restarts("minute") >= 1)
    require("the time limit is near" in (c.work / "minute/log").read_text(), "it did not stop by itself")
    c.call("scancel", job)


def clock_ahead(c):
    """The node's clock is three hours ahead of Slurm's, and the job has ten minutes."""
    tools = c.work / "tools"
    tools.mkdir()
    (tools / "date").write_text('#!/bin/bash\n[[ $* == *-d* ]] || set -- -d "now + 3 hours" "$@"\nexec /usr/bin/date "$@"\n')
    (tools / "date").chmod(0o755)
    job = c.submit("ahead", PATH=f"{tools}:{os.environ['PATH']}")
    require(c.until_ended(job) == "COMPLETED", c.output("ahead"))
    c.require_like_whole("ahead")
    require(c.restarts("ahead") == 0, "it stopped early")


RANKS = "SLURM_PROCID="  # in the environment of a rank
COPIES = ("train.batch=24", "train.microbatch=4", "run.exactness=invariant", "checkpoint.memory_every=1")


def losses(c, run):
    lines = (c.work / run / "history.csv").read_text().splitlines()
    at = lines[0].split(",").index("loss")
    return [line.split(",")[at] for line in lines[1:]]


def recoveries(c, run):
    file = c.work / run / "recoveries.csv"
    if not file.exists():
        return []
    header, *rows = [line.split(",") for line in file.read_text().splitlines()]
    return [dict(zip(header, row)) for row in rows]


def undisturbed(c):
    """The run with which those that recovered are compared, on three nodes."""
    if c.outcome("calm")["status"] != "done":
        job = c.submit("calm", *COPIES, nodes=3)
        require(c.until_ended(job) == "COMPLETED", c.output("calm"))
    return losses(c, "calm")


def nodes_of(c, job):
    """The nodes of a job that runs."""
    return c.call("scontrol", "show", "hostnames", c.call("squeue", "-h", "-j", job, "-o", "%N").strip()).split()


def until_recovered(c, run, count):
    c.until(f"recovery {count} of {run}", lambda: len(recoveries(c, run)) >= count)
    row = recoveries(c, run)[-1]
    require(row["step"] and int(row["last_step"]) - int(row["step"]) <= 1, f"{run} lost more than a step: {row}\n{c.output(run)}")
    require(int(row["seconds"]) <= 60, f"{run} needed {row['seconds']} s to recover")  # 20 s on an idle machine
    print(f"        recovery {count} of {run}: {row}", flush=True)
    return row


def require_recovered(c, run, job):
    require(c.until_ended(job) == "COMPLETED", c.output(run))
    require(c.outcome(run)["status"] == "done" and c.outcome(run)["restart"] == 0, f"{run}: {c.outcome(run)}\n{c.output(run)}")
    require(losses(c, run) == undisturbed(c), f"{run}: other losses than without failures")
    require(not list(Path("/dev/shm").glob(f"trireme-*/{job}")), f"{run} left copies in memory")


def recovery(c):
    """A process dies, then a node fails, for which the spare is there: the run ends in its allocation with the same bits."""
    job = c.submit("spared", *COPIES, nodes=4, options=["--no-kill"], TRIREME_SPARES="1")
    c.until_steps("spared", 5)
    nodes = nodes_of(c, job)
    signal_processes(job, nodes[1], signal.SIGKILL, RANKS)
    row = until_recovered(c, "spared", 1)
    require(row["nodes_after"] == " ".join(nodes[:3]), f"{row}")
    c.until_steps("spared", int(row["step"]) + 5)
    set_down(c, job, nodes[2])
    row = until_recovered(c, "spared", 2)
    require(row["nodes_after"] == " ".join(nodes[:2] + nodes[3:]), f"{row}")
    require_recovered(c, "spared", job)
    require(c.weights("spared") == c.weights("calm"), "other weights than without failures")
    subprocess.run(["scontrol", "update", f"NodeName={nodes[2]}", "State=RESUME"], env=c.environment, capture_output=True)


def recovery_on_fewer_nodes(c):
    job = c.submit("fewer", *COPIES, nodes=3, options=["--no-kill"])
    c.until_steps("fewer", 5)
    nodes = nodes_of(c, job)
    set_down(c, job, nodes[1])
    row = until_recovered(c, "fewer", 1)
    require((row["nodes_after"], row["ranks"]) == (f"{nodes[0]} {nodes[2]}", "2"), f"{row}")
    require_recovered(c, "fewer", job)
    subprocess.run(["scontrol", "update", f"NodeName={nodes[1]}", "State=RESUME"], env=c.environment, capture_output=True)


def recovery_from_a_stopped_process(c):
    """The other ranks notice that it does not answer, and end."""
    job = c.submit("frozen", *COPIES, "run.hang_timeout=5", nodes=3)
    c.until_steps("frozen", 5)
    nodes = nodes_of(c, job)
    signal_processes(job, nodes[2], signal.SIGSTOP, RANKS)
    until_recovered(c, "frozen", 1)
    require_recovered(c, "frozen", job)


def stop(c, run):
    (c.work / run / "stop_now").touch()
    c.until(f"the end of {run}", lambda: c.outcome(run)["status"] == "stopped")


def many_recoveries(c):
    """Thirty failures in one job, at random instants: processes die, also while the run recovers, and nodes fail."""
    draw = random.Random(int(os.environ.get("TRIREME_FUZZ_SEED", "1")))
    job = c.submit("many", *COPIES, nodes=4, steps=1500, options=["--no-kill"], TRIREME_SPARES="1", TRIREME_RETRIES="10")
    c.until_steps("many", 2)
    nodes = nodes_of(c, job)
    for count in range(1, 31):
        used = recoveries(c, "many")[-1]["nodes_after"].split() if count > 1 else nodes[:3]
        node = draw.choice(used[1:])  # on the first, the script has a variable of this name, too
        down = node if count in (10, 20) else ""
        if down:
            set_down(c, job, down)
        else:
            signal_processes(job, node, draw.choice([signal.SIGKILL, signal.SIGSEGV]), RANKS)
        c.until(f"failure {count} of {job}", lambda: len(recoveries(c, "many")) >= count)
        if down:
            subprocess.run(["scontrol", "update", f"NodeName={down}", "State=RESUME"], env=c.environment, capture_output=True)
        time.sleep(draw.uniform(0, 1))
    steps = len(c.rows("many"))
    stop(c, "many")
    c.submit("patient", *COPIES, nodes=3, steps=1500)
    c.until_steps("patient", steps)
    stop(c, "patient")
    require(c.outcome("many")["restart"] == 0 and losses(c, "many")[:steps] == losses(c, "patient")[:steps], f"{c.outcome('many')}\n{c.output('many')}")
    require(not list(Path("/dev/shm").glob(f"trireme-*/{job}")), "many left copies in memory")


FAST = [submit, requeue, no_requeue]
SLOW = [preemption, starting, cancel, checkpoint_signal, node_failure, node_failure_early, array, array_task, chain, mpiexec, time_limit, clock_ahead,
        recovery, recovery_on_fewer_nodes, recovery_from_a_stopped_process, many_recoveries]


def main():
    arguments = sys.argv[1:]
    full = "--full" in arguments
    program, launcher, *names = [a for a in arguments if a != "--full"]
    chosen = [f for f in FAST + SLOW if f.__name__ in names] if names else FAST + (SLOW if full else [])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cluster is stopped all the same
    cluster = Cluster(os.path.abspath(program), launcher)
    wrong = 0
    try:
        for case in chosen:
            begin = time.monotonic()
            try:
                case(cluster)
                print(f"ok      {case.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
            except (Failure, subprocess.TimeoutExpired, OSError, KeyError) as e:
                wrong += 1
                print(f"FAILED  {case.__name__} ({time.monotonic() - begin:.1f} s): {e}", flush=True)
    finally:
        cluster.stop()
    return 1 if wrong else 0


sys.exit(main())
