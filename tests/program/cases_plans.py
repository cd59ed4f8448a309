"""What `plan` says of memory, schedules and times, and that a run takes what was planned."""
import math
import re
from pathlib import Path

from fixture import DECK, GRID, MACHINE, freeze_rule
from rows import REFUSED, story

ROOT = Path(__file__).resolve().parents[2]
CASES = []
THAWING = DECK + '[[freeze]]\npattern = "*"\nto_step = 6\n[[freeze]]\npattern = "final_norm.*"\nfrom_step = 9\n'  # next to nothing trains at first
MACHINES = {"machine.toml": MACHINE, "poor.toml": MACHINE[:MACHINE.index("[[product]]")], "wrong.toml": MACHINE + "[memery]\n",
            "gpu.toml": MACHINE.replace('"host"', '"cuda"')}


def reserved(at, run="run"):
    """By rank, as the run's log says."""
    return [int(n) for n in re.search(r"bytes by rank: ([\d ]+)", at.read(f"{run}/log"))[1].split()]


@story(CASES, fast=True)
def nothing_touched(at):
    """a plan touches nothing and needs no token files"""
    assert at.plan("deck.toml")["reserved_bytes"] > 100000
    assert not (at / "runs").exists()
    at("plan deck.toml --device-memory 1M", codes=REFUSED)
    at("plan deck.toml data.path=none.tokens model.vocab=300")


@story(CASES, fast=True)
def launched(at):
    """a plan is for the ranks that run it, and is said once"""
    assert at.plan("deck.toml parallel.pipe=2", ranks=2) == at.plan("deck.toml parallel.pipe=2 --ranks 2")
    at("plan deck.toml parallel.pipe=3", ranks=2, codes=(1,), once=("more than model.layers = 2",))


@story(CASES, fast=True)
def thawing(at):
    """memory is of all that is thawed on the way"""
    at.write("thawing.toml", THAWING)
    at.write("frozen.toml", DECK + '[[freeze]]\npattern = "*"\n')
    plan, frozen, early = at.plan("thawing.toml"), at.plan("frozen.toml"), at.plan("thawing.toml train.steps=6")
    at("train thawing.toml --run-dir run")
    assert [plan["reserved_bytes"]] == reserved(at)
    assert plan["freeze_borders"] == [6, 9] and plan["busiest_step"] == 6
    assert plan["ranks"][0]["step_flops"] == at.plan("deck.toml")["ranks"][0]["step_flops"]
    # What thaws behind the run's end is left out.
    assert early["freeze_borders"] == [] and early["reserved_bytes"] == frozen["reserved_bytes"] < plan["reserved_bytes"]
    # A device must hold it all.
    most = plan["reserved_bytes"]
    at(f"plan thawing.toml --device-memory {most}")
    at(f"plan thawing.toml --device-memory {most - 1}", codes=(1,), says=(
        "more than --device-memory", "M parameters, 0.00M of them trained at first, ", "the trained parameters change at steps 6, 9 .counted from 0.: "))


@story(CASES, fast=True, each=("run.replay_every=2 run.digest_every=1", "data.attention=document"))
def memory(at, keys):
    """a run takes the memory that was planned, train.microbatch=1 and"""
    at.write("thawing.toml", THAWING)
    at(f"train thawing.toml --run-dir run train.microbatch=1 {keys}")
    assert [at.plan(f"thawing.toml train.microbatch=1 {keys}")["reserved_bytes"]] == reserved(at)


@story(CASES)
def evaluations(at):
    """a plan holds what an evaluation takes"""
    # It gives a pipeline more microbatches at once than a step of one does, whose own needs are small where nothing trains.
    at.write("frozen.toml", DECK + '[[freeze]]\npattern = "*"\n')
    deck = f"frozen.toml {GRID} parallel.pipe=2 train.batch=1 train.microbatch=1 train.steps=2 model.width=8 model.heads=2 model.context=4 model.dropout=0"
    plan = at.plan(f"{deck} --ranks 2")
    at(f"train {deck} --run-dir run", ranks=2)
    assert [rank["reserved_bytes"] for rank in plan["ranks"]] == reserved(at)


@story(CASES, fast=True)
def snapshot(at):
    """the copy of a save behind training is planned, and named where it can be spared"""
    deck = f"deck.toml {GRID} zero.stage=1 --ranks 2"
    behind, at_once = at.plan(deck), at.plan(f"{deck} checkpoint.async=false")
    rank = behind["ranks"][0]
    copy = rank["peak_bytes_by_kind"]["snapshot"]
    assert abs(copy - rank["checkpoint_bytes"]) <= 256
    assert rank["reserved_bytes"] - copy == at_once["ranks"][0]["reserved_bytes"]
    at(f"plan {deck} --device-memory {at_once['reserved_bytes']}", codes=(1,), says=("checkpoint.async = false",))


@story(CASES, fast=True, each=("plain", "replayed"))
def thawed(at, case):
    """memory is planned for steps after a thaw, whose checkpoints are larger, case"""
    at.write("deck.toml", DECK + freeze_rule("blocks.*", 0, 3, "fresh") + freeze_rule("embedding.*", 5, 0, "fresh"))
    keys = "checkpoint.every_steps=1" + (" run.replay_every=1" if case == "replayed" else "")
    (rank,) = at.plan(f"deck.toml {keys}")["ranks"]
    at.train(keys)
    assert rank["reserved_bytes"] == reserved(at)[0]
    assert rank["peak_bytes"] == int(at.rows("run")[-1]["bytes_peak"])


@story(CASES, fast=True)
def check_of_a_run_elsewhere(at):
    """check only warns if this machine has too little memory for the run"""
    at("check deck.toml model.width=65536 model.heads=512 model.layers=32 train.microbatch=1", says=("is valid", "of memory, but at least one rank of this run reserves more"))


@story(CASES, fast=True)
def memory_copies(at):
    """memory copies are planned: two of each shard in two places, and the snapshot also where checkpoints need none"""
    deck = f"deck.toml {GRID} zero.stage=1 checkpoint.async=false"
    plain, copied, near = (at.plan(f"{deck} {more}")["ranks"][0] for more in (
        "--ranks 2", "checkpoint.memory_every=5 --ranks 2", "checkpoint.memory_every=5 --ranks 2 --ranks-per-node 2"))
    assert plain["memory_copy_bytes"] == 0
    assert copied["memory_copy_bytes"] == 4 * copied["checkpoint_bytes"]
    assert near["memory_copy_bytes"] == 2 * near["checkpoint_bytes"]
    assert copied["reserved_bytes"] - copied["peak_bytes_by_kind"]["snapshot"] == plain["reserved_bytes"]
    assert "memory copies" in at(f"plan {deck} checkpoint.memory_every=5 --ranks 2").out


@story(CASES, fast=True)
def every_rank(at):
    """no rank of a run reserves more than is planned, also where padding leaves them unequal shares of the weights"""
    for zero, same in ((3, 3), (0, 1)):  # of stage 0 one rank writes all, and copies it
        deck = f"deck.toml model.width=20 model.heads=2 train.batch=6 zero.stage={zero}"
        at(f"train {deck} --run-dir run --overwrite", ranks=3)
        plan = at.plan(f"{deck} --ranks 3")["reserved_bytes"]
        assert reserved(at)[:same] == same * [plan] and max(reserved(at)) == plan


@story(CASES, fast=True)
def schedule(at):
    """a schedule and its bubble"""
    deck = f"deck.toml {GRID} --ranks 4 parallel.pipe=2 parallel.seq=2"
    shown = at(f"plan {deck}").out
    assert "\nstage 0 0>1>" in shown and "bubble " in shown
    planned = at.plan(deck)["schedule"]
    assert 0.1 < planned["bubble"] < 0.4
    assert len(planned["stages"]) == 2 and len(planned["stages"][1]) == 8  # 4 microbatches there and back


@story(CASES)
def grids_that_fit(at):
    """grids that fit the memory are named, with their costs"""
    deck = f"deck.toml {GRID} --ranks 4 "
    grids = [f"parallel.pipe={p} parallel.data={d} parallel.seq={s}" for p, d, s in ((4, 1, 1), (1, 4, 1), (1, 1, 4))]
    needs = {at.plan(f"{deck} zero.stage=3 {grid}")["reserved_bytes"]: grid for grid in grids}
    # Between what the hungriest of these grids needs and what the others do.
    worst, best = needs[max(needs)], needs[min(needs)]
    limit = f"--device-memory {max(needs) - 1}"
    at(f"plan {deck} zero.stage=3 {worst} {limit}", codes=(1,), says=("is too little for this grid: trying other grids of 4 ranks", "These settings fit on 4 ranks", best), silent=(worst,))
    at(f"plan {deck} --device-memory {at.plan(f'{deck} zero.stage=3')['reserved_bytes'] + (64 << 10)}B", codes=(1,),
       says=("These settings fit on 4 ranks:", "needed", "bubble", "sent per step", "zero.stage=", "%"))
    at(f"plan {deck} zero.stage=3 {best} {limit}")
    # Each grid with what it must undo of the deck.
    said = at(f"plan {deck} parallel.pipe=2 'parallel.stage_layers=[3,1]' --device-memory {max(needs) - 1}", codes=(1,), says=("These settings fit on 4 ranks:",)).text
    lines = re.findall(r"^  (parallel.pipe=.*?)  ", said, re.M)
    assert lines and all("parallel.stage_layers=auto" in line for line in lines)
    at(f"plan {deck} parallel.pipe=2 'parallel.stage_layers=[3,1]' {lines[-1]} {limit}")
    # One block, which no pipeline divides, of weights that outweigh all else: sharding alone helps. Of the stages that fit,
    # the one that sends least.
    block = f"{deck} {grids[1]} model.layers=1 model.width=256 "
    least = at.plan(f"{block} zero.stage=3")["reserved_bytes"]
    at(f"plan {block} zero.stage=0 --device-memory {least}", codes=(1,), says=(f"{grids[1]} zero.stage=1 ",))
    at(f"plan {deck} zero.stage=3 parallel.pipe=2 --device-memory 1M", codes=(1,), says=("No other grid of 4 ranks fits", "train.microbatch"))
    at(f"plan {deck} --device-memory 80", codes=(1,), says=("80 has no unit: write 80B for bytes, 80M or 80G",))


@story(CASES, fast=True)
def nodes(at):
    """shards of nodes are planned for so many ranks a node"""
    deck = f"deck.toml {GRID} zero.stage=3 --ranks 4 "
    at(f"plan {deck} zero.shard=node", codes=(1,), says=("--ranks-per-node",))
    nodes, every, one, two, unknown = (at.plan(deck + more)["ranks"][0] for more in (
        "zero.shard=node --ranks-per-node 2", "--ranks-per-node 2", "--ranks-per-node 4", "zero.shard=2", ""))
    far = "sent_bytes_a_step_to_other_nodes"
    assert nodes["reserved_bytes"] == two["reserved_bytes"]
    assert one[far]["shard"] == 0 and far not in unknown
    # Two of the three others are on the other node.
    assert 3 * every[far]["shard"] == 2 * every["sent_bytes_a_step"]["shard"]
    # Sums of the copies alone: a slice of each shard to and fro.
    assert 0 < nodes[far]["shard"] < every[far]["shard"]


@story(CASES, fast=True)
def gpus(at):
    """a plan for GPUs is the same in every build"""
    # The numbers of a build with the toolkit, cuDNN's frontend and NCCL, whichever this one is. That a run takes what its plan
    # says is seen on the simulated device (gpu_test_simulated).
    model = "model.width=32 model.context=16"
    fused = "precision.compute=bf16 model.context=512 zero.stage=3"
    at("for i in 1 2 3 4; do cat text.txt; done > long.txt; exec $TRIREME tokenize long.txt --output long.tokens")
    for more, reserves, needs in (("zero.stage=3", 67_551_488, 3_437_252_864), ("run.share_gpu=true", 67_590_656, 1_141_332_480),
                                  (f"{fused} run.exactness=repeatable", 70_877_184, 3_440_578_560), (f"{fused} model.kv_heads=1", 69_098_496, 3_438_799_872)):
        plan = at.plan(f"deck.toml data.path=long.tokens {model} --ranks 4 run.backend=cuda parallel.pipe=2 {more}")
        assert (plan["reserved_bytes"], plan["needed_bytes"]) == (reserves, needs), more


@story(CASES, fast=True)
def idle_tensor_cores(at):
    """a GPU whose tensor cores idle is warned of"""
    # By NVIDIA's data sheet of the H100 SXM: 67, 494.5 and 989 TFLOP/s.
    at("plan deck.toml run.backend=cuda", once=("warning",), says=("14.8 times", "7.4 times", "precision.compute", "precision.tf32"))
    for fast in ("run.backend=cuda precision.compute=bf16", "run.backend=cuda precision.tf32=true", "run.backend=host"):
        at(f"plan deck.toml {fast}")
        assert at.read(".said") == ""


# Times.

def with_machines(at):
    for name, text in MACHINES.items():
        at.write(name, text)


@story(CASES, fast=True)
def times(at):
    """what a step takes"""
    with_machines(at)
    took = at.plan("deck.toml --ranks 2 --machine machine.toml")["predicted"]
    assert took["step_seconds"] > 0 and took["exposed_seconds"]["shard"] > 0 and took["checkpoint_seconds"] > 0
    assert took["bubble"] == 0
    # Forward and backward take 6 FLOPs of each weight of a product, 2 blocks of 12 width^2 and the head, and attention's causal half
    # 6 x context x width of each block; two ranks make 1e9 of them a second each.
    flops = 6 * (2 * 12 * 16**2 + 256 * 16) + 2 * 6 * 8 * 16
    assert abs(took["flop_utilisation"] / (flops * took["tokens_per_second"] / 2e9) - 1) < 1e-9
    short, long = (at.plan(f"deck.toml --machine machine.toml checkpoint.every_steps=0 train.steps={n}")["predicted"] for n in (100, 1100))
    assert abs((long["run_seconds"] - short["run_seconds"]) / (1000 * short["step_seconds"]) - 1) < 1e-9
    # Short documents have fewer pairs of queries and keys than long ones. The texts have no padding, and every token is a target.
    at.write("short.jsonl", '{"text": "ab"}\n' * 400)
    at("tokenize short.jsonl --output short.tokens")
    causal, long, short = (at.plan(f"deck.toml --machine machine.toml data.validation=[] {more}")["predicted"]
                           for more in ("", "data.attention=document", "data.attention=document data.path=short.tokens"))
    assert short["step_seconds"] < long["step_seconds"]
    assert causal["targets_per_second"] == causal["tokens_per_second"]
    unknown = "deck.toml --machine machine.toml data.path=none.tokens data.validation=[] model.vocab=300"
    assert at.plan(unknown)["predicted"]["targets_per_second"] is None
    at(f"plan {unknown}", says=("times are predicted for samples of one document",))
    # Of two ranks of a stage that hold the same, one speaks for its gradients: the other's host goes on to the agreement while
    # its device computes, and no device loses more than the step.
    took = at.plan("deck.toml model.width=48 model.heads=3 run.backend=auto parallel.pipe=2 parallel.seq=2 zero.stage=0 --ranks 4 --machine gpu.toml")["predicted"]
    assert took["bubble"] < 0.5 and took["exposed_seconds"]["all"] < 0.5 * took["step_seconds"]
    # A tied table goes between stages, though it travels as gradients of shards do.
    exposed = at.plan("deck.toml run.backend=auto parallel.pipe=2 --ranks 2 --machine gpu.toml")["predicted"]["exposed_seconds"]
    assert exposed["shard"] == 0 < exposed["pipe"]


@story(CASES, fast=True)
def predicted_trace(at):
    """a step is written as a run traces it"""
    with_machines(at)
    at("plan deck.toml --ranks 2 parallel.pipe=2 --machine machine.toml --trace deck.toml", codes=(1,), says=("deck.toml exists and is not a step trace",))
    at("plan deck.toml --ranks 2 parallel.pipe=2 --machine machine.toml --trace t.json")
    (at / "t.json").write_text('{"traceEvents":[]}')  # a run's, as it was measured
    at("plan deck.toml --ranks 2 parallel.pipe=2 --machine machine.toml --trace t.json", codes=(1,), says=("t.json already exists.*--overwrite",))
    assert at.json("t.json") == {"traceEvents": []}
    at("plan deck.toml --ranks 2 parallel.pipe=2 --machine machine.toml --trace t.json --overwrite")
    events = at.json("t.json")["traceEvents"]
    assert len({e["pid"] for e in events}) == 2  # a stage each
    assert {"forward", "backward", "send", "receive", "step"} <= {e["name"] for e in events}


@story(CASES, fast=True)
def refusals(at):
    """what a machine file lacks is named, and a search that finds nothing fails"""
    with_machines(at)
    at("plan deck.toml --machine poor.toml", codes=(1,), says=(r"has no \[\[product\]\]",))
    at("plan deck.toml --machine wrong.toml", codes=(1,), says=(r"there is no section \[memery\]",))
    at("plan deck.toml --search", codes=REFUSED)  # needs a machine
    search = "plan deck.toml --machine machine.toml --search --ranks "
    for ranks in (0, 1000000000000):
        at(f"{search} {ranks}", codes=REFUSED, says=("--ranks",))
    for more, says in (("7", "no grid of 7 ranks"), ("2 --device-memory 1MiB", "none of these settings fits")):
        at(search + more, codes=(1,), says=(says,))
    at(search + "2 --trace t.json", codes=REFUSED)  # nothing would be written
    assert not (at / "t.json").exists()


@story(CASES)
def searched(at):
    """a line of a search, behind the deck whatever that sets, is planned as the search said"""
    with_machines(at)
    deck = ("deck.toml model.layers=4 parallel.pipe=2 parallel.schedule=interleaved parallel.chunks=2 'parallel.stage_layers=[1,1,1,1]' "
            "zero.stage=3 zero.gather=step zero.shard=1 --ranks 2 --machine machine.toml")
    text = at(f"plan {deck} --search").out
    lines = re.findall(r"^ *(\S+) s +\S+ \S+  (parallel.pipe=.*)$", text, re.M)
    assert len(lines) == 10
    for seconds, line in (lines[0], lines[-1]):
        assert abs(at.plan(f"{deck} {line}")["predicted"]["step_seconds"] / float(seconds) - 1) < 1e-3
    change, saves = re.search(r"\n  (\S+=\S+(?: \S+=\S+)*) (?:saves|costs) ([\d.]+)% of the step", text).groups()
    other, best = (at.plan(f"{deck} {lines[0][1]} {more}")["predicted"]["step_seconds"] for more in (change, ""))
    assert abs(100 * abs(other / best - 1) - float(saves)) < 0.051


@story(CASES, fast=True)
def checkpoints(at):
    """checkpoints are counted as runs make them"""
    with_machines(at)
    for more in ("", "checkpoint.every_minutes=1000"):  # which begin anew with a checkpoint
        plan = at.plan(f"deck.toml train.steps=101 checkpoint.every_steps=10 {more} --machine machine.toml")
        assert plan["predicted"]["checkpoints"] == 11  # after 10, 20, .. 100 steps, and the last
    # The decays end after 50 steps, where a checkpoint is due anyway, and after 55.
    plan = at.plan("deck.toml train.steps=101 checkpoint.every_steps=10 schedule.shape=wsd schedule.decay_steps=5 schedule.decay_end_steps=[50,55] --machine machine.toml")
    assert plan["predicted"]["checkpoints"] == 12
    often = at.plan("deck.toml train.steps=101 checkpoint.every_steps=0 checkpoint.every_minutes=0.001 --machine machine.toml")["predicted"]
    steps = math.ceil(60 * 0.001 / often["step_seconds"])
    assert 1 < steps < 101 and often["checkpoints"] == 1 + 100 // steps


@story(CASES, each=("gpt2_124m_gpu", "llama_1b", "llama_7b", "llama_70b", "mixtral_8x7b", "qwen3_30b_a3b"))
def large(at, name):
    """a deck fits the machine that its comment names"""
    deck = ROOT / f"inputs/{name}.toml"
    more = re.search(rf"build/trireme plan inputs/{name}.toml (.*--device-memory.*)", deck.read_text())[1]
    at("cp text.tokens corpus.tokens; exec $TRIREME plan " + f"{deck} {more}" + ("" if "gpu" in name else " model.vocab=32000 run.backend=host"))
