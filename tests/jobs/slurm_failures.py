"""Cases of slurm_test.py in which nodes fail that have a network, processes and a clock of their own (slurm_nodes.py)."""
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from slurm_cluster import Failure, require
from slurm_parts import Recovery

STEPS = 100
COPIES = ("train.batch=24", "train.microbatch=2", "run.exactness=invariant", "checkpoint.memory_every=1", "run.hang_timeout=5")
SAME_ARRAYS = Path(__file__).resolve().parent / "same_arrays.py"


def python_with_h5py():
    for python in (sys.executable, "/usr/bin/python3"):
        if shutil.which(python) and subprocess.run([python, "-c", "import h5py"], capture_output=True).returncode == 0:
            return python
    raise Failure("no python3 has h5py: make setup")


def undisturbed(c, name="calm", *deck, nodes=3, steps=STEPS, **more):
    """A run with which those that recovered are compared."""
    if c.outcome(name)["status"] != "done":
        job = c.submit(name, *(deck or COPIES), nodes=nodes, steps=steps, **more)
        require(c.until_ended(job) == "COMPLETED", c.output(name))
    return name


def require_recovered(c, run, job, like, steps=STEPS, cut=()):
    """Done in its allocation, with the bits of a run that nothing disturbed, and nothing is left in memory, but on nodes that are cut
    off."""
    require(c.until_ended(job) == "COMPLETED", c.output(run))
    require(c.outcome(run)["status"] == "done" and c.outcome(run)["restart"] == 0, f"{run}: {c.outcome(run)}\n{c.output(run)}")
    require_same(c, run, like, steps)
    left = [f for node in c.names if c.is_up(node) and node not in cut for f in c.memory(node).glob(f"trireme-*/{job}")]
    require(not left, f"{run} left copies in memory: {left}")


def require_same(c, run, like, steps=STEPS):
    require(c.rows(run) == list(range(1, steps + 1)), f"{run}: rows of history.csv are missing or double")
    require(c.losses(run) == c.losses(like), f"{run}: other losses than without failures")
    c.call(c.program, "compare", run, like)
    checkpoints = [c.work / r / f"checkpoints/step-{steps:08}" for r in (run, like)]
    c.call(python_with_h5py(), SAME_ARRAYS, *checkpoints)


def begin(c, run, *deck, nodes, steps=STEPS, at=5, options=(), **more):
    """A job in its step `at`."""
    c.until_idle()
    job = c.submit(run, *(deck or COPIES), nodes=nodes, steps=steps, options=["--no-kill", *options], **more)
    c.until_steps(run, at)
    return job


def network_cut(c):
    """The network of a node is cut during a step, and the node's processes live on."""
    like = undisturbed(c)
    job = begin(c, "cut", nodes=4, TRIREME_SPARES="1", TRIREME_ASK_LIMIT="6")  # a node that is cut off answers nothing
    failure = Recovery(c, "cut", job)
    c.cut("n2")
    row = failure.follow(loses=1, cut=["n2"])
    require(row["nodes_after"] == "n1 n3 n4", f"{row}")
    require_recovered(c, "cut", job, like, cut=["n2"])


def two_nodes_at_once(c):
    """Both nodes with copies of a shard lose their power: the run continues from its checkpoint on disk. Then two others do, and
    each shard has a copy left."""
    like = undisturbed(c)
    job = begin(c, "two", *COPIES, "checkpoint.every_steps=20", nodes=4, at=50)
    failure = Recovery(c, "two", job)
    c.lose_power("n2", "n4")
    row = failure.follow(loses=40)
    require(int(row["step"]) % 20 == 0 and row["nodes_after"] == "n1 n3", f"{row}")
    require_recovered(c, "two", job, like)
    c.restore()
    job = begin(c, "neighbours", nodes=4)
    failure = Recovery(c, "neighbours", job)
    c.lose_power("n2", "n3")
    row = failure.follow(loses=1)
    require(row["nodes_after"] == "n1 n4", f"{row}")
    require_recovered(c, "neighbours", job, like)


def clocks_apart(c):
    """During a recovery, the clock of the first node is set 90 s ahead and that of another one 90 s back; in the next recovery, they are
    set right. The run keeps its lock: meanwhile, a job on another node that wants the run directory is told that it is in use."""
    like = undisturbed(c)
    for node in ("n1", "n2"):
        c.set_clock(node, 0)
    job = begin(c, "clocks", nodes=3)
    for ahead, victim in ((90, "n3"), (0, "n2")):
        failure = Recovery(c, "clocks", job)
        c.signal_ranks(victim, job, signal.SIGKILL)
        c.set_clock("n1", ahead)
        c.set_clock("n2", -ahead)
        row = failure.follow(loses=1)
        for node, seconds in (("n1", ahead), ("n2", -ahead)):
            require(abs(c.clock(node) - seconds) < 5, f"the clock of {node} is {c.clock(node)} s ahead, not {seconds} s")
        if ahead:
            other = c.submit("clocks", *COPIES, nodes=1, TRIREME_REQUEUE="no")
            require(c.until_ended(other) == "FAILED", c.state(other))
            said = (c.work / f"clocks-{other}.out").read_text()
            require("another process is training in" in said, said)
        c.until_steps("clocks", int(row["step"]) + 10)
    require_recovered(c, "clocks", job, like)


SLOW = [network_cut, two_nodes_at_once, clocks_apart]
