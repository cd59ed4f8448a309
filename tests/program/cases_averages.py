"""The moving average of the weights (train.ema): its numbers, what restarts do with it, and the commands that read it."""
import json
import math
import re
from array import array

from fixture import EXACT, MACHINE, MIXTURE
from rows import REFUSED, story

CASES = []
STEPS = 8
KEYS = f"train.steps={STEPS} schedule.shape=constant optimizer.lr=0.02 checkpoint.every_steps=1"
EMA = f"{KEYS} train.ema=0.7"
TYPES = {"f32": "f", "f64": "d"}


def elements(checkpoint, group):
    """The parameters of a group, by name, read from the places that the manifest names."""
    whole = {}
    for file in json.loads((checkpoint / "manifest.json").read_text())["content"]["files"]:
        data = (checkpoint / file["name"]).read_bytes()
        for s in file.get("slices", []):
            if s["group"] != group:
                continue
            to = whole.setdefault(s["name"], array("d", bytes(8 * math.prod(s["shape"]))))
            at = s["begin"]
            for (begin, _), left in zip(s["chunks"], range(s["count"], 0, -s["chunk_elements"])):
                part = array(TYPES[s["dtype"]])
                part.frombytes(data[begin:begin + min(left, s["chunk_elements"]) * part.itemsize])
                to[at:at + len(part)] = array("d", part)
                at += len(part)
    return whole


def checkpoint(at, run, step):
    return at / f"{run}/checkpoints/step-{step:08}"


def averaged(start, decay, weights):
    """The formula, from the averages `start`, with the weights after each update."""
    mean = {name: list(x) for name, x in start.items()}
    for w in weights:
        for name, x in mean.items():
            mean[name] = [decay * a + (1 - decay) * b for a, b in zip(x, w[name])]
    return mean


def expect_near(got, want, decay, what):
    """Three roundings of f32 a step, of which later steps keep the share `decay` each."""
    assert got and sorted(got) == sorted(want), f"{what}: {sorted(got)} for {sorted(want)}"
    for name, x in want.items():
        bound = 3 / (1 - decay) * 2.0 ** -24 * max(0.02, max(map(abs, x)))
        off = max(abs(a - b) for a, b in zip(got[name], x, strict=True))
        assert off <= bound, f"{what}: {name} is off by {off:.1e}, of {bound:.1e}"


def weights_before_training(at, more="", config=""):
    at.train(f"{KEYS} {more} train.steps=1 'train.skip_steps=[\"1\"]'", config=config, run="start")
    return elements(checkpoint(at, "start", 1), "weights")


GRIDS = {"one rank": ("", ""), "ZeRO-3, pipeline, sequence": ("parallel.pipe=2 parallel.seq=2 zero.stage=3 train.microbatch=1", "pipe2-data2"),
         "experts": (f"{MIXTURE} parallel.expert=2 zero.stage=3", "data2")}


@story(CASES, fast=("ZeRO-3, pipeline, sequence",), each=GRIDS)
def formula(at, grid):
    """train.ema averages the weights of every update as its formula says"""
    more, config = GRIDS[grid]
    start = weights_before_training(at, more, config)
    at.train(f"{EMA} {more} 'train.skip_steps=[\"3\",\"6-7\"]'", config=config)
    mean = start
    for step in range(1, STEPS + 1):
        if step not in (3, 6, 7):
            mean = averaged(mean, 0.7, [elements(checkpoint(at, "run", step), "weights")])
        got = elements(checkpoint(at, "run", step), "ema")
        expect_near(got, {name: mean[name] for name in got}, 0.7, f"step {step}")
        # Only what has no gradient has no average.
        assert all(name.endswith("router.balance") or name in got for name in mean), sorted(set(mean) - set(got))
    last = elements(checkpoint(at, "run", STEPS), "weights")
    assert max(abs(a - b) for name in last for a, b in zip(last[name], mean[name])) > 1e-3, "the average is the weights"


@story(CASES)
def layouts(at):
    """averages are bit for bit those of one rank on every layout, and over restarts from one to another"""
    exact = f"{EMA} {EXACT}"
    at.train(exact, run="whole")
    axes = "train.microbatch=1 parallel.pipe=2 parallel.seq=2 zero.stage=3"
    at.train(f"{exact} {axes} train.steps=4", config="pipe2-data2", run="moved")
    at.train(f"{exact} train.microbatch=4 --restart latest train.steps=6", run="moved", silent=("train.ema: ", "train.ema is not set"))
    at.train(f"{exact} zero.stage=1 --restart latest", config="data2", run="moved")
    for step in (2, 4, 5, STEPS):
        for group in ("weights", "ema", "moment1"):
            assert elements(checkpoint(at, "moved", step), group) == elements(checkpoint(at, "whole", step), group), f"{group} of step {step}"
    at("compare whole moved", says=("all .* tensors are equal", "verdict: equal in everything"))
    # A run with averages trains as one without.
    at.train(f"{KEYS} {EXACT}", run="plain")
    assert at.losses("plain") == at.losses("whole")
    assert elements(checkpoint(at, "plain", STEPS), "weights") == elements(checkpoint(at, "whole", STEPS), "weights")


@story(CASES)
def changes(at):
    """a restart begins, drops or continues averages as its deck says, and says so"""
    at.train(f"{KEYS} train.steps=3")
    at.train(f"{EMA} train.steps=5 --restart latest", says=("train.ema: the average begins at the weights of step 3",))
    weights = [elements(checkpoint(at, "run", step), "weights") for step in range(9) if checkpoint(at, "run", step).exists()]
    mean = averaged(weights[2], 0.7, weights[3:5])
    expect_near(elements(checkpoint(at, "run", 5), "ema"), mean, 0.7, "newly set")
    at.train(f"{EMA} train.ema=0.25 train.steps=6 --restart latest", says=("train.ema: the average continues with the decay 0.25 instead of 0.7",))
    mean = averaged(mean, 0.25, [elements(checkpoint(at, "run", 6), "weights")])
    expect_near(elements(checkpoint(at, "run", 6), "ema"), mean, 0.7, "another decay")
    at.train(f"{KEYS} train.steps=7 --restart latest", says=("WARNING|warning", "the averaged weights in the checkpoint are dropped", "set train.ema = 0.25"))
    assert not elements(checkpoint(at, "run", 7), "ema")
    at("inspect run --verify", says=("every hash is right",))
    # Another optimizer is refused as ever.
    at.train(f"{EMA} optimizer.name=lion --restart run/checkpoints/step-00000006", codes=REFUSED, says=("another optimizer",))
    # With SGD, averages are all that there is besides weights.
    at.train(f"{EMA} optimizer.name=sgd train.steps=2", run="sgd")
    at.train(f"{EMA} optimizer.name=sgd --restart latest", run="sgd", silent=("train.ema: ",))
    weights = [elements(checkpoint(at, "sgd", step), "weights") for step in (1, 2, 3, 4, 5, 6, 7, 8)]
    first = elements(checkpoint(at, "sgd", 1), "ema")
    expect_near(elements(checkpoint(at, "sgd", STEPS), "ema"), averaged(first, 0.7, weights[1:]), 0.7, "sgd")


EVALUATED = "evaluate.every_steps=2 evaluate.batches=0 evaluate.sample_prompt=the evaluate.sample_tokens=4 evaluate.sample_temperature=0"
COPIES = {"one rank": ("", ""), "ZeRO-3": ("zero.stage=3", "data2"), "bf16": ("precision.compute=bf16", "")}


@story(CASES, each=COPIES)
def evaluated(at, way):
    """evaluate.ema evaluates averages and writes samples of them, and training goes on undisturbed"""
    more, config = COPIES[way]
    at.train(f"{EMA} {EVALUATED} {more}", config=config, run="plain")
    log = at.train(f"{EMA} {EVALUATED} {more} evaluate.ema=true", config=config).text
    assert at.losses("run") == at.losses("plain")
    for group in ("weights", "ema"):
        assert elements(checkpoint(at, "run", STEPS), group) == elements(checkpoint(at, "plain", STEPS), group)
    for step in (4, STEPS):
        want = next(float(row["loss"]) for row in at.rows("run", "evaluation.csv") if row["step"] == str(step))
        got, other = (loss_in(at(f"evaluate run/checkpoints/step-{step:08} {option}").out) for option in ("--ema", ""))
        # `evaluate` prints six digits; on one rank, it adds in another order than on two.
        assert abs(got - want) < 2e-6 and abs(other - want) > 1e-4, f"step {step}: {got} and {other} for {want}"
    said = at("generate run --ema --prompt the --tokens 4 --temperature 0").out.strip()
    texts = re.findall(r"the model writes: (.*)", log)
    unused = "these evaluations used the averaged weights, so pass --ema, too"
    at("export run best --best --ema", says=("the best checkpoint is .*, by the loss in ",), silent=(unused,))
    at("export run other --best", says=(f"by the loss in .*; {unused}",))
    assert said.replace("\n", "\\n") == texts[-1].strip(), (said, texts)


@story(CASES, fast=True)
def readers(at):
    """--ema of evaluate, generate, export and average reads averages"""
    at.train(f"{EMA} train.steps=4")
    alone, together, weights = (loss_in(at(command, ranks=ranks).out) for command, ranks in (("evaluate run --ema", 0), ("evaluate run --ema", 2), ("evaluate run", 0)))
    assert abs(alone - together) < 2e-6 and abs(alone - weights) > 1e-4, (alone, together, weights)
    at("export run averaged --ema")
    at("average run --last 1 --ema --output mean", says=("the mean of 1 checkpoint, of their averaged weights",))
    assert elements(at / "mean", "weights") == elements(checkpoint(at, "run", 4), "ema")
    at("export mean same")
    at("export run plain")
    averaged, same, plain = ((at / f"{folder}/model.safetensors").read_bytes() for folder in ("averaged", "same", "plain"))
    assert averaged == same != plain
    at.train(f"{KEYS} train.steps=1", run="none")
    for command in ("evaluate none --ema", "export none out --ema", "generate none --prompt the --ema", "average none run --ema --output no"):
        at(command, codes=(1,), says=("none/checkpoints/step-00000001 has no averaged weights",))
    assert not (at / "out").exists() and not (at / "no").exists()
    at("average run --last 1 --output no", codes=(1,), says=("at least two checkpoints",))
    at("check deck.toml evaluate.ema=true", codes=(1,), says=("evaluate.ema = true needs averaged weights: set train.ema",))


def loss_in(text):
    return float(re.search(r"step \d+: loss (\d+\.\d+)", text)[1])


@story(CASES, fast=True)
def planned(at):
    """plans include averages: their memory, their bytes in checkpoints, and the time to move them"""
    at.write("machine.toml", MACHINE)
    for ranks, more in ((1, ""), (2, "zero.stage=3")):
        without, plan = (at.plan(f"deck.toml --ranks {ranks} --machine machine.toml {more} {ema}") for ema in ("", "train.ema=0.9"))
        own = 4 * plan["parameters"] / ranks  # bytes
        # Shards are padded, and blocks of memory are rounded up.
        for kind, part in (("optimizer", 1), ("snapshot", 1), ("weights", 0)):
            more_bytes = memory(plan, kind) - memory(without, kind)
            assert part * own <= more_bytes <= part * (1.2 * own + 4096), f"{kind}: {more_bytes} of {own}"
        seconds = plan["predicted"]["step_seconds"] - without["predicted"]["step_seconds"]
        assert 0.9 < seconds / (3 * own / 1e9) < 1.2, f"{seconds} s for {own} bytes, which are read twice and written once at 1e9 bytes/s"


def memory(plan, kind):
    return plan["ranks"][0]["peak_bytes_by_kind"][kind]


@story(CASES)
def parts(at):
    """averages of adapters are of the adapters alone, and those of frozen parameters are their weights"""
    deck = at.read("deck.toml")
    at.train(f"{KEYS} train.steps=1", run="base")
    adapters = "model.init_from=base/checkpoints/step-00000001 adapter.rank=2"
    at.train(f"{EMA} {adapters} train.steps=4")
    last = checkpoint(at, "run", 4)
    names = sorted(elements(last, "ema"))
    assert names and names == sorted(elements(last, "weights")) and all(".lora_" in name for name in names), names
    averaged_line, line = at("evaluate run --ema").out, at("evaluate run").out
    assert loss_in(averaged_line) != loss_in(line)
    assert averaged_line.endswith(", averaged weights\n") and line.endswith(", weights not averaged\n"), (averaged_line, line)
    assert "averaged" not in at("evaluate base").out
    at("export run averaged --ema")
    at("export run plain")
    assert (at / "averaged/model.safetensors").read_bytes() != (at / "plain/model.safetensors").read_bytes()
    at.write("deck.toml", deck + '[[freeze]]\npattern = "embedding.*"\n[[freeze]]\npattern = "blocks.0.*"\nfrom_step = 2\nto_step = 4\n')
    at.train(EMA, run="frozen")
    start = elements(checkpoint(at, "frozen", 4), "weights")  # where block 0 begins again
    got = elements(checkpoint(at, "frozen", STEPS), "ema")
    weights = [elements(checkpoint(at, "frozen", step), "weights") for step in range(5, STEPS + 1)]
    want = averaged({name: start[name] for name in got if name.startswith("blocks.0.")}, 0.7, weights)
    expect_near({name: got[name] for name in want}, want, 0.7, "block 0")
    assert not any(name.startswith("embedding") for name in got) and any(name.startswith("blocks.1.") for name in got)
    assert not any(name.startswith("blocks.0.") for name in elements(checkpoint(at, "frozen", 3), "ema"))
    at.train(f"{EMA} train.steps=3", run="cut")
    at.train(f"{EMA} --restart latest", run="cut")
    at.same("cut", "frozen", tables=False)
    at("average frozen --last 1 --ema --output mean")
    mean = elements(at / "mean", "weights")
    assert mean == elements(checkpoint(at, "frozen", STEPS), "weights") | got
