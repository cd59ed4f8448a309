"""Cases of slurm_test.py in which processes or nodes fail, and the run continues in its allocation (jobscripts/recover.sh)."""
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from slurm_cluster import require, set_down, signal_processes

RANKS = "SLURM_PROCID="  # in the environment of a rank
COPIES = ("train.batch=24", "train.microbatch=4", "run.exactness=invariant", "checkpoint.memory_every=1")


def undisturbed(c):
    """The run with which those that recovered are compared, on three nodes."""
    if c.outcome("calm")["status"] != "done":
        job = c.submit("calm", *COPIES, nodes=3)
        require(c.until_ended(job) == "COMPLETED", c.output("calm"))
    return c.losses("calm")


def until_recovered(c, run, count):
    c.until(f"recovery {count} of {run}", lambda: len(c.recoveries(run)) >= count)
    row = c.recoveries(run)[-1]
    require(row["step"] and int(row["last_step"]) - int(row["step"]) <= 1, f"{run} lost more than a step: {row}\n{c.output(run)}")
    require(int(row["seconds"]) <= 60, f"{run} needed {row['seconds']} s to recover")  # 20 s on an idle machine
    print(f"        recovery {count} of {run}: {row}", flush=True)
    return row


def require_recovered(c, run, job):
    require(c.until_ended(job) == "COMPLETED", c.output(run))
    require(c.outcome(run)["status"] == "done" and c.outcome(run)["restart"] == 0, f"{run}: {c.outcome(run)}\n{c.output(run)}")
    require(c.losses(run) == undisturbed(c), f"{run}: other losses than without failures")
    require(not list(Path("/dev/shm").glob(f"trireme-*/{job}")), f"{run} left copies in memory")


def recovery(c):
    """A process dies, then a node fails, for which the spare is there: the run ends in its allocation with the same bits."""
    job = c.submit("spared", *COPIES, nodes=4, options=["--no-kill"], TRIREME_SPARES="1")
    c.until_steps("spared", 5)
    nodes = c.nodes_of(job)
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
    nodes = c.nodes_of(job)
    set_down(c, job, nodes[1])
    row = until_recovered(c, "fewer", 1)
    require((row["nodes_after"], row["ranks"]) == (f"{nodes[0]} {nodes[2]}", "2"), f"{row}")
    require_recovered(c, "fewer", job)
    subprocess.run(["scontrol", "update", f"NodeName={nodes[1]}", "State=RESUME"], env=c.environment, capture_output=True)


def recovery_from_a_stopped_process(c):
    """The other ranks notice that it does not answer, and end."""
    job = c.submit("frozen", *COPIES, "run.hang_timeout=5", nodes=3)
    c.until_steps("frozen", 5)
    nodes = c.nodes_of(job)
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
    nodes = c.nodes_of(job)
    for count in range(1, 31):
        used = c.recoveries("many")[-1]["nodes_after"].split() if count > 1 else nodes[:3]
        node = draw.choice(used[1:])  # on the first, the script has a variable of this name, too
        down = node if count in (10, 20) else ""
        if down:
            set_down(c, job, down)
        else:
            signal_processes(job, node, draw.choice([signal.SIGKILL, signal.SIGSEGV]), RANKS)
        c.until(f"failure {count} of {job}", lambda: len(c.recoveries("many")) >= count)
        if down:
            subprocess.run(["scontrol", "update", f"NodeName={down}", "State=RESUME"], env=c.environment, capture_output=True)
        time.sleep(draw.uniform(0, 1))
    steps = len(c.rows("many"))
    stop(c, "many")
    c.submit("patient", *COPIES, nodes=3, steps=1500)
    c.until_steps("patient", steps)
    stop(c, "patient")
    require(c.outcome("many")["restart"] == 0 and c.losses("many")[:steps] == c.losses("patient")[:steps], f"{c.outcome('many')}\n{c.output('many')}")
    require(not list(Path("/dev/shm").glob(f"trireme-*/{job}")), "many left copies in memory")


SLOW = [recovery, recovery_on_fewer_nodes, recovery_from_a_stopped_process, many_recoveries]
