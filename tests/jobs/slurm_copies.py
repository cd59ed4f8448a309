"""Cases of slurm_test.py in which memory copies cannot be made or are damaged, and in which other kinds of runs recover."""
import signal

from slurm_cluster import require
from slurm_failures import COPIES, begin, require_recovered, undisturbed
from slurm_parts import Recovery

def memory_full(c):
    """The memory of a node is full during copies: the run goes on and says so. Then a process dies, and the run continues from the
    newest copy, which was made before the memory was full."""
    like = undisturbed(c)
    job = begin(c, "full", nodes=3)
    filler = c.memory("n2") / "filler"
    with open(filler, "wb") as file:
        while True:
            try:
                file.write(bytes(1 << 16))
                file.flush()
            except OSError:
                break
    said = "no memory copy was made"
    log = c.work / "full/log"
    c.until("the warning", lambda: said in log.read_text())
    at = len(c.rows("full"))
    c.until_steps("full", at + 10)
    copied = max(int(step.name.split("-")[1]) for step in c.memory("n1").glob(f"trireme-*/{job}/*/*/*/step-*"))
    require(copied <= at, f"a copy of step {copied} was made although the memory was full in step {at}")
    failure = Recovery(c, "full", job)
    c.signal_ranks("n3", job, signal.SIGKILL)
    row = failure.follow(loses=100)
    require(int(row["step"]) == copied, f"not from the copy of step {copied}: {row}")
    filler.unlink()
    require_recovered(c, "full", job, like)


SLOW = [memory_full]
