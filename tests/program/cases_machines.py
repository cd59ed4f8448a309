"""The machine of a run: its processors, its ranks, its kind of CPU, and its machine file."""
from reading import has_bf16
from rows import story

OLDER = "ONEDNN_MAX_CPU_ISA=AVX2"  # for oneDNN, as on a CPU without AVX-512

CASES = []


@story(CASES, fast=True)
def many_threads(at):
    """more threads than processors are warned of"""
    one = "exec taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[,-].*//') $TRIREME"
    for command in ("check deck.toml", "train deck.toml train.steps=1 --run-dir run"):
        said = at(f"{one} {command} run.threads=2").text
        assert said.count("a rank computes with 2 threads but may use only 1 processor of this node") == 1
    at(f"{one} check deck.toml", silent=("warning",))
    at(f"{one} check deck.toml --ranks 2 run.threads=2", silent=("threads",))  # which run elsewhere


@story(CASES, fast=True)
def ranks_checked(at):
    """a check is for the ranks that run it, unless it names others"""
    assert at("check deck.toml parallel.pipe=2", ranks=2).text.count("is valid on pipe 2 x data 1 x seq 1") == 1
    at("check deck.toml zero.stage=3 zero.shard=node", ranks=2, says=("is valid on pipe 1 x data 2",))
    at("check deck.toml parallel.pipe=2", codes=(1,), says=("does not fill 1 rank",))
    at("check deck.toml parallel.pipe=2 --ranks 4", ranks=2, says=("is valid on pipe 2 x data 2",))
    at("check deck.toml parallel.pipe=3", ranks=2, codes=(1,), once=("more than model.layers = 2",))


@story(CASES, fast=True)
def peak(at):
    """a machine file gives the history its peak"""
    at.train("run.machine=machine.toml train.steps=2")
    assert float(at.rows("run")[-1]["mfu"]) > 0


@story(CASES)
def without_bf16(at):
    """without bf16 it computes in f32 and says so once"""
    says = ("cannot multiply bf16: computing in f32",)
    at(f"{OLDER} exec $TRIREME train deck.toml --run-dir wide", silent=says)
    at(f"{OLDER} exec $TRIREME train deck.toml precision.compute=bf16 --run-dir narrow", once=says)
    at.same("narrow", "wide")
    for command in ("check deck.toml precision.compute=bf16", "evaluate narrow", "generate narrow --prompt the --tokens 3"):
        at(f"{OLDER} exec $TRIREME {command}", once=says)
    if has_bf16():
        at("train deck.toml precision.compute=bf16 --run-dir narrow --overwrite", silent=says)
        assert at.losses("narrow") != at.losses("wide")


@story(CASES)
def another_cpu(at):
    """a restart on another kind of CPU says so, where bits are promised"""
    exact, said = "run.exactness=invariant run.exact_chunk=4", ("the checkpoint was written on another kind of machine",)
    at.train(f"{exact} train.steps=1")
    kind = at.json("run/outcome.json")["machine"]
    assert ", oneDNN " in kind and ", kernels for " in kind and kind in at("inspect run").out
    at.train(f"{exact} train.steps=2 --restart latest", silent=said)
    older = "ONEDNN_MAX_CPU_ISA=AVX exec $TRIREME train deck.toml --run-dir run --restart latest "
    at(f"{older} {exact} train.steps=3", once=said)
    assert at.json("run/outcome.json")["machine"] != kind
    at.train("run.exactness=repeatable train.steps=4 --restart latest", once=said)
    at(f"{older} train.steps=5", silent=said)  # fast
