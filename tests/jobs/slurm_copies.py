"""Cases of slurm_test.py in which memory copies cannot be made or are damaged, and in which other kinds of runs recover."""
import signal
import sys

from slurm_cluster import require
from slurm_failures import COPIES, begin, require_recovered, undisturbed
from slurm_parts import Recovery

# Called as `trireme rescue` for the first time, flips a bit in the middle of the files that FLIP names as NODE:FILE.
FLIPPING = """#!/bin/bash
if [ "$1" = rescue ]; then
  for flip in $FLIP; do
    [ "$SLURMD_NODENAME" = "${{flip%:*}}" ] && ! [ -e {work}/flipped."$flip" ] || continue
    for file in /dev/shm/trireme-*/"$SLURM_JOB_ID"/*/*/*/step-*/"${{flip#*:}}"; do
      {python} -c 'import sys
with open(sys.argv[1], "r+b") as f:
    middle = f.seek(0, 2) // 2
    f.seek(middle)
    bits = f.read(1)[0]
    f.seek(middle)
    f.write(bytes([bits ^ 1]))' "$file" && echo "$file" >> {work}/flipped."$flip"
    done
  done
fi
exec {program} "$@"
"""


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


def flipped_bits(c, run, flips, loses, *deck):
    """A process dies, and bits of copies are flipped before they are rescued. Returns the steps of the copies with flipped bits,
    and the row of recoveries.csv."""
    like = undisturbed(c)
    tools = c.work / f"{run}-tools"
    tools.mkdir()
    program = tools / "trireme"
    program.write_text(FLIPPING.format(work=tools, python=sys.executable, program=c.program))
    program.chmod(0o755)
    job = begin(c, run, *COPIES, *deck, nodes=3, at=25, TRIREME=str(program), FLIP=" ".join(flips))
    failure = Recovery(c, run, job)
    c.signal_ranks("n3", job, signal.SIGKILL)
    row = failure.follow(loses=loses)
    flipped = [(tools / f"flipped.{flip}").read_text().split() for flip in flips]
    steps = [{int(path.split("/step-")[1].split("/")[0]) for path in paths} for paths in flipped]
    require_recovered(c, run, job, like)
    return steps, row


def copy_with_a_flipped_bit(c):
    """The copy of a shard has a flipped bit, and its other copy is used."""
    (steps,), row = flipped_bits(c, "bit", ["n1:rank-00000.h5"], 1)
    require(int(row["step"]) in steps, f"not from one of the steps {steps}: {row}")


def copies_with_flipped_bits(c):
    """Both copies of a shard have a flipped bit: the run continues from its checkpoint on disk."""
    (first, second), row = flipped_bits(c, "bits", ["n1:rank-00000.h5", "n2:rank-00000.h5"], 40, "checkpoint.every_steps=20")
    require(int(row["step"]) % 20 == 0 and int(row["step"]) < min(first & second), f"not from the disk but from one of {first & second}: {row}")
    require("no process has an intact copy of rank-00000.h5" in c.output("bits"), c.output("bits"))


def of_kind(c, run, *deck, nodes=2):
    """A run of a kind loses a node's power once, and continues on a spare."""
    like = undisturbed(c, f"calm-{run}", *COPIES, *deck, nodes=nodes)
    job = begin(c, run, *COPIES, *deck, nodes=nodes + 1, TRIREME_SPARES="1")
    failure = Recovery(c, run, job)
    c.lose_power("n2")
    row = failure.follow(loses=1)
    require("n2" not in row["nodes_after"].split() and len(row["nodes_after"].split()) == nodes, f"{row}")
    require_recovered(c, run, job, like)


def experts(c):
    of_kind(c, "experts", "model.activation=swiglu", "model.bias=false", "model.experts=4", "model.experts_per_token=2", "model.expert_width=32",
            "parallel.expert=2")


def pipeline(c):
    of_kind(c, "pipeline", "parallel.pipe=2")


def adapter(c):
    undisturbed(c, "base", *COPIES, "checkpoint.memory_every=0", nodes=1, steps=10)
    of_kind(c, "adapter", "model.init_from=base/checkpoints/step-00000010", "adapter.rank=2")


SLOW = [memory_full, copy_with_a_flipped_bit, copies_with_flipped_bits, experts, pipeline, adapter]
