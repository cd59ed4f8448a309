"""When the parts of a recovery were over, as the files and processes of the run show them."""
import os
import re
import time
from pathlib import Path

from slurm_cluster import PATIENCE_S, Failure, require

PARTS = {  # the lines with which a part ends in the output of the job
    "known": r"srun: error: |does not answer|no heartbeat|no answer from",
    "asked": r"the run failed after step",
    "rescued": r"rescued step|nothing to rescue",
    "chosen": r"recovery \d+: continuing",
}
LIMIT_S = 20 * float(os.environ.get("TRIREME_TEST_PATIENCE", "1"))  # from the moment at which the failure is known to the first step


def left_of(mark, spaces):
    """Whether a rank or the launcher of a start is left, outside these namespaces of nodes that are cut off."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text().strip()
            if name in ("trireme", "srun") and f"TRIREME_LAUNCHED={mark}\0".encode() in (process / "environ").read_bytes() \
                    and os.readlink(process / "ns/pid") not in spaces:
                return True
        except OSError:
            pass
    return False


class Recovery:
    """Made just before a failure; then follow() until the run trains again."""

    def __init__(self, c, run, job):
        self.c, self.run, self.job = c, run, job
        self.read = len(c.output(run))
        self.number = c.outcome(run).get("recovery", 0)
        self.begin = time.monotonic()
        self.parts = {}

    def ends(self, part):
        self.parts.setdefault(part, time.monotonic() - self.begin)

    def look(self, spaces):
        said = self.c.output(self.run)[self.read:]
        for part, line in PARTS.items():
            if re.search(line, said):
                self.ends(part)
        if "known" in self.parts and "ended" not in self.parts and not left_of(f"{self.job}/0.{self.number}", spaces):
            self.ends("ended")
        if self.c.outcome(self.run).get("recovery", 0) > self.number:
            self.ends("loaded")
            rows, table = self.c.rows(self.run), self.c.recoveries(self.run)
            if rows and table and table[-1]["step"] and rows[-1] > int(table[-1]["step"]):
                self.ends("step")

    def follow(self, loses, cut=()):
        """Until the first step after the recovery: it comes in time, and at most so many steps were lost. `cut` are nodes that go on
        without a network. Returns the row of recoveries.csv."""
        spaces = [os.readlink(f"/proc/{self.c.first(node)}/ns/pid") for node in cut]
        while "step" not in self.parts:
            self.look(spaces)
            if time.monotonic() - self.begin > PATIENCE_S or self.c.state(self.job) != "RUNNING":
                raise Failure(f"{self.run} does not train again, after {self.parts}:\n{self.c.output(self.run)}")
            time.sleep(0.1)
        row = self.c.recoveries(self.run)[-1]
        print(f"        {self.run}: {row['last_step']} -> {row['step']}, {row['nodes_after']}, {row['died']}: "
              + ", ".join(f"{part} {at:.1f}" for part, at in sorted(self.parts.items(), key=lambda p: p[1])), flush=True)
        require(int(row["last_step"]) - int(row["step"]) <= loses, f"{self.run} lost more than {loses} steps: {row}\n{self.c.output(self.run)}")
        took = self.parts["step"] - self.parts["known"]
        require(took <= LIMIT_S, f"{self.run} trained again {took:.1f} s after the failure was known: {self.parts}\n{self.c.output(self.run)}")
        return row
