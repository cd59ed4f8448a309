"""Cases of slurm_test.py in which Slurm interrupts a job, and the job is requeued or submitted again."""
import json
import os
import subprocess
import time

from slurm_cluster import ROOT, SCRIPT, STEPS, require, set_down


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


FAST = [submit, requeue, no_requeue]
SLOW = [preemption, starting, cancel, checkpoint_signal, node_failure, node_failure_early, array, array_task, chain, mpiexec, time_limit, clock_ahead]
