"""Batches that grow, learning rates over tokens, and decays before the end of a run."""
import json
import shutil

from fixture import MACHINE
from judging import checkpoints_of, compare_arrays
from rows import REFUSED, story

CASES = []
CONTEXT = 8
BATCHES = 3 * [4] + 3 * [8] + 6 * [12]
STEPS_RAMP = """train.batch=12 'train.batch_ramp=["4 until 3 steps", "8 until 6 steps"]' """
# Each batch ends with the first step that reaches the number of tokens.
TOKENS_RAMP = f"""train.batch=12 'train.batch_ramp=["4 until {2 * 4 * CONTEXT + 1} tokens", "8 until {(3 * 4 + 3 * 8) * CONTEXT} tokens"]' """
RAMP = STEPS_RAMP + "evaluate.batches=0 checkpoint.every_steps=1 "


def points(batches):
    """Samples before each step, and after the last one."""
    all = [0]
    for batch in batches:
        all.append(all[-1] + batch)
    return all


def continues(at, run, whole, first):
    """The rows and checkpoints of a run from step `first` on are those of the whole run."""
    mine, theirs = checkpoints_of(at / run), checkpoints_of(at / whole)
    assert max(mine) == max(theirs)
    for name in mine.keys() & theirs.keys():
        assert not compare_arrays(mine[name], theirs[name]), name
    columns = ("step", "tokens", "loss", "grad_norm", "lr")
    rows, want = ([[row[c] for c in columns] for row in at.rows(r) if int(row["step"]) >= first] for r in (run, whole))
    assert rows == want, (rows, want)


@story(CASES, fast=True)
def ramp(at):
    """the batch grows as a counter says, in steps and in tokens, over restarts at each step"""
    said = at.train(RAMP, says=("step 4: the batch grows from 4 to 8 samples", "step 7: the batch grows from 8 to 12 samples")).text
    assert said.count("the batch grows") == 2
    before = points(BATCHES)
    assert [int(row["tokens"]) for row in at.rows("run")] == [CONTEXT * n for n in before[1:]]
    for step in range(1, 13):
        assert (at.meta("run", step)["samples"], at.meta("run", step)["tokens"]) == (before[step], CONTEXT * before[step])
    at.train(RAMP.replace(STEPS_RAMP, TOKENS_RAMP), run="tokens")
    at.same("tokens", "run")
    for step in (2, 3, 5):
        at.train(f"{RAMP} --restart run/checkpoints/step-{step:08}", run=f"from{step}")
        continues(at, f"from{step}", "run", step + 1)
    at.train(f"{RAMP.replace(STEPS_RAMP, TOKENS_RAMP)} --restart tokens/checkpoints/step-00000004", run="tokens4")
    continues(at, "tokens4", "run", 5)
    # The samples of each step, of steps to come, and of a run without the checkpoints between.
    shutil.copytree(at / "run", at / "few")
    for step in (*range(1, 8), 9, 10, 11):
        shutil.rmtree(at / f"few/checkpoints/step-{step:08}")
    at.train(f"{TOKENS_RAMP} train.steps=2 evaluate.batches=0", run="short")
    for run, steps in (("run", (3, 4)), ("few", (2, 6, 7, 12)), ("tokens", (4, 6))):
        for step in steps:
            listed = [json.loads(line)["sample"] for line in at(f"samples {run} --step {step}").out.splitlines()]
            assert listed == list(range(before[step - 1], before[step])), (run, step, listed)
    for step in (1, 3, 4, 7):
        listed = [json.loads(line)["sample"] for line in at(f"samples short --step {step}").out.splitlines()]
        assert listed == list(range(before[step - 1], before[step])), (step, listed)
    line = json.loads(at("samples run --step 8").out.splitlines()[5])
    text = at(f"samples run --document {line['file']}:{line['documents'][0]}").out
    assert {(x["step"], x["sample"]) for x in map(json.loads, text.splitlines())} >= {(8, line["sample"])}
    assert all(before[x["step"] - 1] <= x["sample"] < before[x["step"]] for x in map(json.loads, text.splitlines()))
    # Skipped steps name their samples.
    at.train(f"{RAMP} 'train.skip_steps=[\"3-5\"]'", run="skips")
    assert [(row["first_sample"], row["samples"]) for row in at.rows("skips", "skipped.csv")] == [("8", "4"), ("12", "8"), ("20", "8")]


@story(CASES, fast=True)
def stitched(at):
    """a ramp has the bits of runs with other batches, one after the other"""
    keys = "schedule.shape=constant evaluate.batches=0 checkpoint.every_steps=1 evaluate.every_steps=3"
    at.train(f"{STEPS_RAMP} {keys}")
    at.train(f"{keys} train.batch=4 train.steps=3", run="hand")
    at.train(f"{keys} train.batch=8 train.steps=6 --restart latest", run="hand")
    at.train(f"{keys} train.batch=12 --restart latest", run="hand")
    at.same("hand", "run")
    # Another ramp at a restart changes the steps that follow.
    at.train(f"{STEPS_RAMP} {keys} --restart hand/checkpoints/step-00000004", run="back")
    continues(at, "back", "run", 5)
    at.train(f"""{keys} train.batch=12 'train.batch_ramp=["4 until 5 steps"]' --restart run/checkpoints/step-00000003""", run="other")
    tokens = [int(row["tokens"]) for row in at.rows("other")]
    assert tokens == [CONTEXT * (12 + n) for n in points([4, 4] + 7 * [12])[1:]]


@story(CASES)
def lengths(at):
    """a ramp counts in train.tokens and train.epochs, and so do all that know a run's length"""
    before = points(BATCHES)
    for tokens, steps in ((CONTEXT * before[5], 5), (CONTEXT * before[5] + 1, 6), (CONTEXT * before[11], 11)):
        at.write("t.toml", at.read("deck.toml").replace("steps = 12", f"tokens = {tokens}", 1))
        at(f"train t.toml {STEPS_RAMP} --run-dir t{steps}")
        assert len(at.rows(f"t{steps}")) == steps
        at(f"train t.toml {STEPS_RAMP} --run-dir t{steps} --restart latest", says=("the run is finished",))
    at(f"train t.toml {STEPS_RAMP} --run-dir t5 --restart latest")
    assert len(at.rows("t5")) == 11
    at.write("machine.toml", MACHINE.replace("[disk]\nwrite = 1e6\n", ""))
    seconds = {}
    for name, more in (("small", "train.batch=4 train.steps=3"), ("middle", "train.batch=8 train.steps=3"), ("large", "train.batch=12 train.steps=6"),
                       ("all", STEPS_RAMP)):
        seconds[name] = at.plan(f"deck.toml {more} --machine machine.toml")["predicted"]["run_seconds"]
    parts = seconds["small"] + seconds["middle"] + seconds["large"]
    assert abs(seconds["all"] / parts - 1) < 0.01, seconds
    at(f"plan deck.toml {STEPS_RAMP}", says=("batch ramp: 4 until 3 steps, 8 until 6 steps, then 12. The plan describes steps of 12 samples, which need the most memory",))
    # Memory is that of the largest batch.
    at.train(f"{STEPS_RAMP} train.steps=8", config="pipe2", run="grown")
    at.train("train.batch=12 train.steps=2", config="pipe2", run="constant")
    most = {run: max(int(row["bytes_peak"]) for row in at.rows(run)) for run in ("grown", "constant")}
    assert most["grown"] == most["constant"], most


@story(CASES, fast=True)
def refusals(at):
    """each batch of a ramp must fit the grid, and is checked at the start"""
    check = "check deck.toml train.batch=12 train.microbatch=2 "
    for ramp, says in (("[\"6 until 3 steps\"]", "the batch 6 of train.batch_ramp.*2 samples.*"), ("[\"8 until 3 steps\", \"4 until 9 steps\"]", "must have a larger batch"),
                       ("[\"8 until 3\"]", "is not a batch with the end of its steps"), ("[\"12 until 3 steps\"]", "train.batch_ramp reaches a batch of 12"),
                       ("[\"5 until 3 steps\"]", "microbatches that do: 1, 5")):
        codes = (0,) if ramp == "[\"6 until 3 steps\"]" else REFUSED
        at(f"{check} 'train.batch_ramp={ramp}'", codes=codes, says=() if codes == (0,) else (says,))
    at(f"{check} --ranks 2 'train.batch_ramp=[\"6 until 3 steps\"]'", codes=REFUSED, says=("train.microbatch = 2 does not divide the 3 samples of a data rank .the batch 6 of train.batch_ramp.*microbatches that do: 1, 3",))
    at("check deck.toml train.batch=12 train.microbatch=auto --ranks 4 'train.batch_ramp=[\"6 until 3 steps\"]'", codes=REFUSED,
       says=("the batch 6 of train.batch_ramp is not divisible by parallel.data = 4; batches that are: 4, 8",))
    interleaved = "check deck.toml --ranks 2 parallel.pipe=2 model.layers=4 parallel.schedule=interleaved parallel.chunks=2 train.microbatch=1 train.batch=12"
    at(f"{interleaved} 'train.batch_ramp=[\"5 until 3 steps\"]'", codes=REFUSED, says=("needs a multiple of parallel.pipe = 2 microbatches per step, but each data rank has 5",))
    at(f"{interleaved} 'train.batch_ramp=[\"6 until 3 steps\"]'")


@story(CASES, each=("exact-data2", "exact-axes", "exact-seq2"), fast=("exact-data2",))
def on_grids(at, config):
    """a ramp with decays in tokens has the same bits on grids"""
    keys = f"{STEPS_RAMP} schedule.shape=wsd schedule.warmup_steps=0 schedule.warmup_tokens=100 schedule.decay_tokens=200 schedule.decay_end_tokens=[300,700]"
    at.train(keys, config="exact", run="one")
    at.train(keys, config=config, run="grid")
    at.same("grid", "one")
    at.train(f"{keys} --restart one/checkpoints/step-00000004", config=config, run="moved")
    continues(at, "moved", "one", 5)


def wsd_rates(ends, steps, warmup, decay, peak, least):
    """The learning rate of each step, from the end of each decay backwards."""
    rates = [peak * min(1, (i + 1) / warmup) for i in range(steps)]
    for end in (*ends, steps):
        for k in range(1, decay + 1):  # k steps before the step that would have the least rate
            rates[end - k] = least + (peak - least) * k / (decay + 1)
    return rates


@story(CASES, fast=True)
def decays(at):
    """at the ends of decays, a run has the models of shorter runs, keeps them, and goes on"""
    keys = "schedule.shape=wsd schedule.decay_steps=2 schedule.min_lr=1e-4 evaluate.batches=0 checkpoint.every_steps=0 checkpoint.keep_last=1 "
    ends = "schedule.decay_end_steps=[5,9] "
    at.train(keys + ends)
    want = wsd_rates((5, 9), 12, 2, 2, 3e-3, 1e-4)
    assert all(abs(float(row["lr"]) / rate - 1) < 1e-12 for row, rate in zip(at.rows("run"), want)), want
    assert [row["step"] for row in at.rows("run", "evaluation.csv")] == ["5", "6", "9", "12"]
    assert sorted(checkpoints_of(at / "run")) == ["step-00000005", "step-00000009", "step-00000012"]
    assert [at.meta("run", step)["extra"].get("ends_decay") for step in (5, 9, 12)] == 3 * ["1"]
    at.train(f"{keys} train.steps=5", run="short")
    assert not compare_arrays(at / "run/checkpoints/step-00000005", at / "short/checkpoints/step-00000005")
    columns = ("step", "tokens", "loss", "grad_norm", "lr")
    assert [[row[c] for c in columns] for row in at.rows("short")] == [[row[c] for c in columns] for row in at.rows("run")[:5]]
    # From the weights before a decay: another run begins there.
    at.train(f"{keys} schedule.shape=constant train.steps=3", run="trunk")
    at.train(f"{keys} train.steps=5 --restart trunk/checkpoints/step-00000003", run="branch")
    continues(at, "branch", "short", 4)
    # Restarts in a decay, at its end, and behind it.
    at.train(f"{keys} {ends} checkpoint.every_steps=1 checkpoint.keep_last=0", run="every")
    for step in (4, 5, 6):
        at.train(f"{keys} {ends} --restart every/checkpoints/step-{step:08}", run=f"from{step}")
        continues(at, f"from{step}", "run", step + 1)
    # A longer run goes on from the last decay, and keeps it and those before, whatever its deck says.
    at.train(f"{keys} train.steps=15 schedule.decay_end_steps=[] --restart latest")
    assert sorted(checkpoints_of(at / "run")) == ["step-00000005", "step-00000009", "step-00000012", "step-00000015"]
    # The same points in tokens.
    tokens = keys.replace("schedule.decay_steps=2", f"schedule.warmup_steps=0 schedule.warmup_tokens={2 * 4 * CONTEXT} schedule.decay_tokens={2 * 4 * CONTEXT}")
    at.train(f"{tokens} schedule.decay_end_tokens=[{5 * 4 * CONTEXT},{9 * 4 * CONTEXT}]", run="tokens")
    continues(at, "tokens", "from6", 7)
    assert at.read("tokens/evaluation.csv").splitlines()[1:] == at.read("run/evaluation.csv").splitlines()[1:5]
    # An evaluation at the end of a decay that is missing is made up for.
    shutil.copytree(at / "every", at / "again")
    at.write("again/evaluation.csv", at.read("every/evaluation.csv").splitlines()[0] + "\n")
    at.train(f"{keys} {ends} --restart again/checkpoints/step-00000005", run="again")
    assert at.read("again/evaluation.csv") == at.read("every/evaluation.csv")
    check = f"check deck.toml {keys} "
    for more, says in (("schedule.decay_end_steps=[5,9] schedule.shape=cosine", "needs schedule.shape = \"wsd\""), ("schedule.decay_end_steps=[9,5]", "not in increasing order"),
                       ("schedule.decay_end_steps=[2]", "the warmup lasts 2 steps"), ("schedule.decay_end_tokens=[500]", "lengths in steps and in tokens"),
                       ("schedule.decay_end_steps=[5] evaluate.patience=2", "cannot be combined with evaluate.patience"), ("schedule.warmup_tokens=8", "in steps and in tokens")):
        at(check + more, codes=REFUSED, says=(says,))
    at(f"{check} schedule.decay_end_steps=[5,12,20]", says=("contains 12, but the run has 12 steps", "contains 20"))
    at("check deck.toml schedule.warmup_steps=0 schedule.warmup_tokens=400", says=("schedule.warmup_tokens = 400 is longer than the run of 384 tokens",))
