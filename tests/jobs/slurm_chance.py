"""A case of slurm_test.py: failures of all kinds at random instants."""
import os
import random
import re
import signal
import time
from pathlib import Path

from slurm_cluster import PATIENCE_S, require
from slurm_failures import COPIES, SAME_ARRAYS, begin, python_with_h5py

FAILURES = int(os.environ.get("TRIREME_FUZZ_FAILURES", "40"))
EVERY = 10  # steps of checkpoints on disk
BACK_S = 20  # nodes are back before Slurm takes them from the job (SlurmdTimeout of cluster.sh)
DECK = (*COPIES, f"checkpoint.every_steps={EVERY}")


class Chance:
    """A job, and one failure of it after another."""

    def __init__(self, c, seed):
        self.c, self.draw, self.lost = c, random.Random(seed), set()
        self.job = begin(c, "chance", *DECK, nodes=4, steps=100000, options=["--time=120"], TRIREME_SPARES="1", TRIREME_RETRIES="20",
                         TRIREME_RESCUE_LIMIT="40", TRIREME_START_LIMIT="40")  # processes may hang there, too

    def used(self):
        table = self.c.recoveries("chance")
        return table[-1]["nodes_after"].split() if table else ["n1", "n2", "n3"]

    def soon(self, holds):
        """Looks often, so that what is short is caught. It may never come, because a failure came first."""
        end = time.monotonic() + 10
        while time.monotonic() < end and not holds():
            time.sleep(0.002)

    # Instants.
    def in_a_step(self):
        time.sleep(self.draw.uniform(0, 0.5))

    def in_a_copy(self):
        node = self.draw.choice([n for n in self.used() if n not in self.lost])
        self.soon(lambda: list(self.c.memory(node).glob(f"trireme-*/{self.job}/*/*/*/.*")))

    def in_a_save(self):
        self.soon(lambda: list((self.c.work / "chance/checkpoints").glob(".*")))

    def fail_once(self):
        self.strike(self.draw.choice([self.kill, self.crash, self.lose_power]))
        return len(self.c.output("chance"))

    @staticmethod
    def rescues(process):
        try:
            return b"\0rescue\0" in Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:  # it has ended
            return False

    def in_a_rescue(self):
        self.fail_once()
        self.soon(lambda: any(self.rescues(p) for n in self.used() if n not in self.lost for p in self.c.ranks(n, self.job)))
        time.sleep(self.draw.uniform(0, 0.2))

    def at_a_start(self):
        read = self.fail_once()
        self.soon(lambda: re.search(r"recovery \d+: continuing", self.c.output("chance")[read:]))
        time.sleep(self.draw.uniform(0, 1.5))

    def in_a_recovery(self):
        self.fail_once()
        time.sleep(self.draw.uniform(0, 4))

    # Ways to fail.
    def kill(self, node):
        self.c.signal_ranks(node, self.job, signal.SIGKILL)

    def crash(self, node):
        self.c.signal_ranks(node, self.job, signal.SIGSEGV)

    def hang(self, node):
        self.c.signal_ranks(node, self.job, signal.SIGSTOP)

    def lose_power(self, node):
        self.lost.add(node)
        self.c.lose_power(node)

    def cut(self, node):
        self.lost.add(node)
        self.c.cut(node)

    def strike(self, way):
        """On the first node, which has the script, only processes fail."""
        powered = (self.lose_power, self.cut)
        nodes = [n for n in self.used() if n not in self.lost]
        others = [n for n in nodes if n != "n1"]
        if way in powered and not others:
            way = self.kill
        node = self.draw.choice(others if way in powered else nodes)
        self.said.append(f"{way.__name__} {node}")
        way(node)

    def restore(self):
        for node in sorted(self.lost):
            if not self.c.is_up(node):
                self.c.boot(node)
            self.c.join(node)
        self.lost.clear()

    def fail(self, number):
        self.said = []
        instant = self.draw.choice([self.in_a_step, self.in_a_copy, self.in_a_save, self.in_a_rescue, self.at_a_start, self.in_a_recovery])
        instant()
        self.strike(self.draw.choice([self.kill, self.kill, self.crash, self.hang, self.lose_power, self.cut]))
        at, began = self.c.rows("chance")[-1], time.monotonic()
        # A start that has lost a rank completes at most the step in progress.
        while self.c.rows("chance")[-1:] <= [at + 2]:
            require(self.c.state(self.job) == "RUNNING" and time.monotonic() - began < PATIENCE_S,
                    f"no training after failure {number}, {self.said}:\n{self.c.output('chance')}")
            if time.monotonic() - began > BACK_S:
                self.restore()
            time.sleep(0.1)
        row = self.c.recoveries("chance")[-1]
        print(f"        {number}: {instant.__name__}, {', '.join(self.said)}: step {at}, recovery {row['recovery']} from {row['step']} on {row['nodes_after']}, "
              f"{time.monotonic() - began:.1f} s", flush=True)
        require(int(row["last_step"]) - int(row["step"]) <= 2 * EVERY, f"failure {number} lost more than two checkpoints: {row}")
        self.restore()


def failures_at_random(c):
    """Failures at random instants: in a step, a copy or a save, at a start, in a rescue and elsewhere in a recovery."""
    seed = int(os.environ.get("TRIREME_FUZZ_SEED", "1"))
    print(f"        TRIREME_FUZZ_SEED={seed}", flush=True)
    chance = Chance(c, seed)
    for number in range(1, FAILURES + 1):
        chance.fail(number)
    saved = lambda run: [int(f.parent.name.split("-")[1]) for f in (c.work / run).glob("checkpoints/step-*/manifest.json")]
    last = max(step for step in saved("chance") if step % EVERY == 0)
    for run in ("chance", "chance-calm"):
        if run != "chance":
            c.until_idle()
            c.submit(run, *DECK, nodes=3, steps=100000, options=["--time=120"])
            c.until("the undisturbed run", lambda: last in saved(run))
        (c.work / run / "stop_now").touch()
        c.until(f"the end of {run}", lambda: c.outcome(run)["status"] == "stopped")
    require(c.outcome("chance")["restart"] == 0, f"{c.outcome('chance')}")
    require(c.losses("chance")[:last] == c.losses("chance-calm")[:last], "other losses than without failures")
    c.call(python_with_h5py(), SAME_ARRAYS, *(c.work / run / f"checkpoints/step-{last:08}" for run in ("chance", "chance-calm")))
    c.until_idle()
    left = [f for node in c.names for f in c.memory(node).glob(f"trireme-*/{chance.job}")]
    require(not left, f"copies are left in memory: {left}")


SLOW = [failures_at_random]
