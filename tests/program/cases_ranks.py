"""Runs on grids as their users see them: what one rank reads of them, other schedules, unlike ranks and nodes, traces."""
import re
import socket

from fixture import AXES, MIXTURE
from rows import FAIL, REFUSED, Case, Run, story

NODES = "MPIR_CVAR_NUM_CLIQUES=2"  # MPICH pretends that a machine is two nodes,
BLOCKS = NODES + " MPIR_CVAR_CLIQUES_BY_BLOCK=1"  # whose ranks follow each other
RANK = "$TRIREME train deck.toml --run-dir run --overwrite "
HERE = RANK + "data.path=/proc/self/cwd/text.tokens "  # depends on where a rank was started
ERROR = (" error ",)


def refused(name, command, *says, fast=False):
    """With one message, and the run that is there stays."""
    return Case(name, [Run(command=command, codes=REFUSED, says=says, once=ERROR, limit=30)], start="done", untouched="run", finish="", fast=fast)


# (ranks, overrides, what is said)
GRIDS = [
    (4, "parallel.pipe=3 model.layers=4 train.microbatch=1", "pipe 3.*4 ranks.*4 x 1 x 1.*2 x 2 x 1.*2 x 1 x 2"), (4, "parallel.pipe=2 parallel.data=1", "4 ranks.*2 x 2 x 1"),
    (4, "parallel.pipe=4 model.layers=2", "parallel.pipe = 4.*model.layers = 2"),
    (2, "parallel.pipe=2 parallel.schedule=interleaved", "needs parallel.chunks of 2 or more"), (2, "parallel.pipe=2 parallel.chunks=2", "parallel.chunks = 2 does not work with"),
    (2, "parallel.seq=2 model.context=7", "parallel.seq = 2.*model.context = 7"),
    (4, "train.batch=6 train.microbatch=1", "train.batch = 6.*batches that are: 4, 8"), (2, "train.batch=6 train.microbatch=2", "train.microbatch = 2.*1, 3"),
    (4, f"{MIXTURE} parallel.expert=3 train.microbatch=1", "parallel.expert = 3.*parallel.data x parallel.seq = 4 x 1.*1, 2, 4"),
    (4, f"{MIXTURE} parallel.expert=4 parallel.pipe=2 train.microbatch=1", "parallel.expert = 4.*parallel.data x parallel.seq = 2 x 1.*1, 2"),
    (6, f"{MIXTURE} parallel.expert=3 zero.stage=3 zero.shard=2 train.microbatch=1 train.batch=6", "one of parallel.expert = 3 and zero.shard = 2 must divide the other"),
    (6, f"--ranks-per-node 3 {MIXTURE} parallel.expert=2 zero.stage=3 zero.shard=node train.microbatch=1 train.batch=6", "one of parallel.expert = 2 and zero.shard = 3"),
    (2, "zero.stage=3 zero.shard=3", "zero.shard = 3.*1, 2"), (2, "zero.stage=3 zero.prefetch=-1", "zero.prefetch.*0 to"),
    (2, "zero.stage=3 zero.prefetch=1000", "zero.prefetch.*0 to"), (2, "zero.stge=3", "zero.stge(.|\n)*zero.stage"),
]
UNLIKE = f"rm -rf elsewhere; mkdir elsewhere; {{}}; $MPIEXEC -n 1 {HERE}: -n 1 -wdir $PWD/elsewhere {HERE}"
HOST = re.escape(socket.gethostname().split(".")[0])

CASES = [
    *(refused(f"{ranks} ranks, {overrides.replace(MIXTURE, 'experts')}", f"exec $TRIREME plan deck.toml --ranks {ranks} {overrides}", f"(?s){says}", fast="zero.shard=node" in overrides)
      for ranks, overrides, says in GRIDS),
    *(refused(f"on {ranks} ranks, {overrides}", f"exec $MPIEXEC -n {ranks} {RANK}{overrides}", f"(?s){says}", fast=overrides == "zero.stge=3")
      for ranks, overrides, says in GRIDS[:1] + GRIDS[-1:]),
    refused("ranks with other overrides", f"exec $MPIEXEC -n 1 {RANK}: -n 1 {RANK}train.steps=5", "(?s)rank 1.*different arguments"),
    # One that does not get as far as training.
    *(refused(f"an option that is none on rank {rank} alone", f"exec $MPIEXEC -n 1 {RANK}{a}: -n 1 {RANK}{b}", "(?s)rank 1.*different arguments")
      for rank, a, b in ((1, "", "--nonsense"), (0, "--nonsense ", ""))),
    Case("an option that is none", [Run(command="exec $MPIEXEC -n 2 $TRIREME train deck.toml --nonsense", codes=FAIL, once=("--nonsense",))], finish=""),
    refused("a run is there", "exec $MPIEXEC -n 2 $TRIREME train deck.toml --run-dir run", "--restart", "--overwrite"),
    refused("a checkpoint is not there", "exec $MPIEXEC -n 2 $TRIREME train deck.toml --run-dir run --restart run/checkpoints/step-00000003", "step-00000003"),
    # Token files on the disks of two nodes.
    *(refused(f"token files that one rank has {name}", UNLIKE.format(make), *says, fast=name == "not hashed and otherwise")
      for name, make, says in (
          ("not", "true", ("rank 1", "text.tokens")),
          ("otherwise", "tr e o <text.txt >other.txt; $TRIREME tokenize other.txt --output elsewhere/text.tokens",
           (f"rank 1 on {HOST}", "/proc/self/cwd/text.tokens", "hash of its contents", "instead of")),
          ("in part", "head -c 1000 text.txt >other.txt; $TRIREME tokenize other.txt --output elsewhere/text.tokens", ("rank 1 on", "tokens 1001 instead of 2701")),
          ("not hashed and otherwise", "cp text.tokens elsewhere; for i in . elsewhere; do for at in 72 240; do dd if=/dev/zero of=$i/text.tokens bs=1 seek=$at count=16 "
           "conv=notrunc 2>/dev/null; done; done; printf a | dd of=elsewhere/text.tokens bs=1 seek=2700 conv=notrunc 2>/dev/null",
           ("rank 1 on", "hash of blocks of its contents")))),
    # Nodes.
    *(refused(name, f"{nodes} exec $MPIEXEC -n {ranks} {RANK}zero.stage=3 zero.shard=node train.microbatch=1 train.batch={4 * ranks}", *says) for name, nodes, ranks, says in (
        ("shards of nodes whose ranks do not follow each other", NODES, 4, ("are not consecutive", "--distribution=block")),
        ("shards of nodes that are not alike", BLOCKS, 3, ("nodes run between 1 and 2 ranks",)))),
    # Within a job, mpiexec starts its helpers with srun: a task a node.
    Case("mpiexec within a job", [Run(command="SLURM_STEP_NUM_TASKS=1 exec $MPIEXEC -n 2 $TRIREME train deck.toml train.steps=1")], finish=""),
    # In chunks a rank may begin a microbatch that another cannot begin before it has this one's work: what is compared
    # between ranks then must not wait for all of them.
    Case("labels are compared in chunks, too", [Run(command="exec $MPIEXEC -n 4 $TRIREME train deck.toml parallel.pipe=4 parallel.schedule=interleaved parallel.chunks=2 "
                                                            "model.layers=8 train.batch=8 train.microbatch=1 run.debug=true train.steps=2 run.hang_timeout=20")], finish=""),
    Case("a rank that stops at the start of MPI",
         [Run(command="exec $MPIEXEC -n 2 bash -c '[ $PMI_RANK = 0 ] || kill -STOP $$; exec $TRIREME train deck.toml run.hang_timeout=2'", codes=FAIL,
              says=("the start of MPI is not finished after 2 s",), limit=30)], finish=""),
    Case("steps that are not finite are reported once", [Run("optimizer.lr=1000 schedule.shape=constant train.steps=50", codes=REFUSED, once=ERROR,
                                                             says=("5 steps in a row were skipped",))], config="pipe2-data2", finish=""),
    # Its weights are those of the step before, and they are saved first.
    Case("an overflow of counts ends the run with a checkpoint",
         [Run("run.exactness=invariant run.exact_chunk=4 optimizer.lr=30 optimizer.clip=0 schedule.shape=constant schedule.warmup_steps=1 checkpoint.every_steps=0 "
              "train.steps=100", codes=(1,), says=("the model has diverged",),
              then="grep -q '\"failed\"' run/outcome.json; n=$(tail -1 run/history.csv | cut -d, -f1); grep -q step-$(printf %08d $n) run/outcome.json; "
                   "$TRIREME inspect run --verify; $TRIREME train deck.toml --run-dir run --restart latest train.steps=$((n + 1)) optimizer.lr=0 2>&1 | "
                   "grep -E 'step '$((n + 1))', the last: .*(finite|infinite|inf|nan)'")],
         config="pipe2", finish="", fast=True),
]


@story(CASES, fast=True)
def one_rank_alone(at):
    """an error on one rank ends all with a checkpoint"""
    # Sample 2 of a step of 4 goes to data rank 1, which alone meets the broken token: in step 6, or in the first evaluation.
    held_out = 2701 * 8 // 10
    for run, token, step in (("early", (4 * 5 + 2) * 8 + 5, 5), ("late", held_out + 2 * 8 + 5, 6)):
        tokens = bytearray((at / "text.tokens").read_bytes())
        tokens[256 + 2 * token:256 + 2 * token + 2] = b"\377\377"
        (at / "hurt.tokens").write_bytes(tokens)
        at.train("data.order=sequential data.path=hurt.tokens checkpoint.every_steps=0 evaluate.batches=0", "data2-zero3", run, codes=REFUSED, once=ERROR,
                 says=("rank 1: ", "hurt.tokens", "65535"))
        assert (at / f"{run}/checkpoints/step-{step:08}").exists()
    assert at.json("late/outcome.json")["status"] == "failed"
    at.train("--restart latest", "data2-zero3", "late")


@story(CASES, fast=("grid-axes", "grid-experts"), each=("grid-axes", "grid-data4", "grid-pipe2", "grid-chunks", "grid-halves", "grid-experts"))
def read_alone(at, config):
    """one rank reads a checkpoint and gets the loss that the run logged"""
    at.take(config)
    said = at("evaluate run").out
    step, loss, targets = re.match(r"step (\d+): loss ([\d.]+), perplexity [\d.]+, over (\d+)", said).groups()
    logged = at.losses("run", "evaluation.csv")[-1]
    assert (step, targets) == ("12", str(38 * 16))
    # Printed with six digits; products of other shapes round otherwise.
    assert abs(float(loss) - logged) < 3e-6 * logged
    assert at.losses("run")[-1] < at.losses("run")[0]
    assert at("generate run --prompt the --tokens 8").out.startswith("the")
    assert "blocks.3.qkv.weight" in at("inspect run --verify").out


@story(CASES, fast=True)
def schedules(at):
    """schedules of one pipeline have the same bits, also across a restart"""
    at.take("grid-pipe2", run="whole")
    at.take("grid-chunks", start="cut")
    at.train("--restart latest", "grid-halves")
    at.same("run", "whole")


@story(CASES)
def learns(at):
    """a grid learns what one rank learns, but for rounding"""
    for run, config in (("one", "f64"), ("pipe", "f64-pipe2"), ("data", "f64-data2"), ("seq", "f64-seq2")):
        at.take(config, run=run)
        # A loss of about 5 in f64, of weights whose errors double a few times: far below the step from a sample to another.
        assert max(abs(a - b) for a, b in zip(at.losses("one"), at.losses(run))) < 1e-9


@story(CASES)
def narrow_sums(at):
    """gradients may travel as bf16"""
    at.train("train.steps=4", "data2-zero3", "wide")
    at.train("train.steps=4 precision.reduce=bf16", "data2-zero3", "narrow")
    wide, narrow = at.losses("wide"), at.losses("narrow")
    assert wide[0] == narrow[0] and 0 < abs(wide[3] - narrow[3]) < 0.02
    assert int(at.rows("narrow")[-1]["bytes_sent"]) < int(at.rows("wide")[-1]["bytes_sent"])


@story(CASES, fast=True)
def text(at):
    """text comes from ranks that could not train its model"""
    # The 8 tokens of a sample are a chunk, which no two ranks of seq can share.
    at.train("run.exactness=invariant run.exact_chunk=8 train.steps=2")
    generate = "generate run --prompt fox --tokens 8 --seed 1"
    # What the message library says of itself is no part of the text.
    assert at(f"UCX_LOG_LEVEL=info exec $MPIEXEC -n 2 $TRIREME {generate} parallel.seq=2").out == at(generate).out


@story(CASES)
def two_cpus(at):
    """ranks on two kinds of CPU are refused where bits are promised"""
    def train(more, **rest):
        rank = f"$TRIREME train deck.toml --run-dir run train.steps=1 {more}"
        at(f"exec $MPIEXEC -n 1 {rank} : -n 1 env ONEDNN_MAX_CPU_ISA=AVX {rank}", **rest)
    train("run.exactness=invariant run.exact_chunk=4", codes=FAIL, says=("needs CPUs of one kind, but rank 0 has .* and rank 1 has ",))
    assert not (at / "run/outcome.json").exists()
    train("run.exactness=repeatable")
    assert " and " in at.json("run/outcome.json")["machine"]


@story(CASES)
def dead_rank(at):
    """the log says which rank a process was that a launcher names"""
    at("$MPIEXEC -n 4 bash -c 'echo $$ > pid.$PMI_RANK; exec $TRIREME train deck.toml train.steps=1000000 run.log_every=0 train.microbatch=1 --run-dir run " + AXES + "' & p=$!; "
       "until [ -e run/checkpoints/step-00000008/manifest.json ]; do sleep 0.01; done; kill -KILL $(cat pid.3); wait $p", codes=FAIL)
    ranks = re.search(r"process IDs by rank: .*", at.read("run/log"))[0]
    assert re.findall(r"\d+", ranks)[-4:] == [at.read(f"pid.{rank}").strip() for rank in range(4)]
    at("inspect run --verify")


@story(CASES)
def nodes(at):
    """shards of nodes are as large as the node"""
    train = "exec $MPIEXEC -n 4 $TRIREME train deck.toml zero.stage=3 train.microbatch=1 train.steps=3 "
    for run, nodes, shard, size in (("nodes", BLOCKS, "node", 2), ("two", "", "2", 2), ("one", "", "node", 4)):
        at(f"{nodes} {train} --run-dir {run} zero.shard={shard}")
        assert re.search(rf"\nshard = {size} ", at.read(f"{run}/effective.toml"))
    assert at.losses("nodes") == at.losses("two")


# Traces.

OPS = {"linear", "linear grad", "attention", "attention grad", "layer_norm", "layer_norm grad"}


def spans_of(at, run, steps):
    return [e for e in at.json(f"{run}/trace/steps-{steps[0]:08}-{steps[1]:08}.json")["traceEvents"] if e["ph"] == "X"]


@story(CASES, fast=True)
def traced(at):
    """a trace shows all queues of all ranks, and what overlaps"""
    # Of several steps: where cores are fewer than ranks, chance keeps a gather from overlapping in one.
    at.train("train.steps=9 run.trace_steps=[3,8] run.log_every=1", "grid-axes", once=("steps-00000003-00000008.json",))
    ended, spans = {}, spans_of(at, "run", (3, 8))
    for e in spans:
        begin, end = e["ts"], e["ts"] + e["dur"]
        assert 0 <= begin <= end < 60e6, "microseconds since the first span"
        if e["name"] in OPS:
            assert {"unit", "microbatch"} <= e["args"].keys()
        if e["cat"] != "compute":
            assert begin >= ended.get((e["pid"], e["tid"]), 0) - 0.002, f"spans of one track overlap: {e}"
            ended[e["pid"], e["tid"]] = end
    assert {e["pid"] for e in spans} == {0, 1, 2, 3}
    for rank in range(4):
        mine = [e for e in spans if e["pid"] == rank]
        names = {e["name"] for e in mine}
        assert {"step 3", "step 8", "forward", "backward", "gather", "scatter", "exchange", "send", "receive", "optimizer", *OPS} - {"layer_norm", "layer_norm grad"} <= names
        assert ("block 0 grad" in names) == (rank < 2) and ("head" in names) == (rank >= 2) and "step 9" not in names
        gathers, ops = ([(e["ts"], e["ts"] + e["dur"]) for e in mine if e["name"] in kind] for kind in ({"gather"}, OPS))
        assert any(a < d and c < b for a, b in gathers for c, d in ops), f"rank {rank}: no gather is on its way while an op runs"


@story(CASES)
def traced_in_part(at):
    """a trace of some ranks alone, or of none"""
    at.train("train.steps=2 run.trace_steps=[2,2] run.trace_ranks=[1,2]", "pipe2-data2")
    assert {e["pid"] for e in spans_of(at, "run", (2, 2))} == {1, 2}
    at("evaluate run")  # what one rank reads of a grid's run is not traced
    at.train("train.steps=2 run.trace_steps=[5,6]", "pipe2", "none", once=("this run executed none of the steps 5 to 6",))
    assert not (at / "none/trace").exists()
    at.train("run.trace_steps=[1,2] run.trace_ranks=[2]", "pipe2", "bad", codes=REFUSED, once=("names rank 2, but the last rank is 1",))


@story(CASES, fast=True)
def straggler(at):
    """a rank that computes more slowly than the others is named once, and no rank of a uniform run"""
    deck = "deck.toml model.width=256 model.context=32 train.steps=45 run.threads=1 zero.stage=3 evaluate.every_steps=0 checkpoint.every_steps=0"
    rank = "$TRIREME train " + deck + " --run-dir run"
    said = at(f"exec $MPIEXEC -n 1 {rank} : -n 1 env ONEDNN_MAX_CPU_ISA=SSE41 {rank}").text
    named = re.findall(r"warning step (\d+): host (\S+) is slow: .* its rank (\d) .*: (.*)[.] Look for", said)
    assert len(named) == 1 and said.count(" is slow") == 1, named
    step, host, slow, what = named[0]
    assert int(step) >= 20 and re.match(HOST, host) and slow == "1" and re.search("(forward|backward) [0-9.]+ s instead of", what), named
    at(f"train {deck} --run-dir even", ranks=2, silent=(" is slow",))
    at(f"exec $MPIEXEC -n 1 {rank} run.log_every=0 --overwrite : -n 1 env ONEDNN_MAX_CPU_ISA=SSE41 {rank} run.log_every=0 --overwrite", silent=(" is slow",))
