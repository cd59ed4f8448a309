"""Moving averages of the weights, against the formula in torch, of the weights that h5py reads: of models, experts and adapters, from
every grid, with skipped steps and a restart on another layout."""
import h5py
import torch

import flavours
import training_test
from adapter_test import Setting
from average_test import steps_of
from program import GRID, ONE_RANK, weights_of

DECAY, SKIPPED = 0.8, 3


def averages_of(checkpoint):
    with h5py.File(checkpoint / "master.h5") as f:
        return {name: torch.from_numpy(w[()]) for name, w in f["ema"].items()}


def expect_averages(program, run, start):
    """Over all checkpoints of a run, one after each step; the largest error in units of what is allowed."""
    steps = steps_of(program, run, training_test.STEPS)
    assert len(steps) == training_test.STEPS
    mean, worst = {name: w.double() for name, w in start.items()}, 0.0
    for number, checkpoint in enumerate(steps, 1):
        weights, got = weights_of(checkpoint), averages_of(checkpoint)
        assert sorted(got) == sorted(weights), f"averages of {sorted(got)}"
        for name, w in weights.items():
            if number != SKIPPED:
                mean[name] = mean[name].lerp(w.double(), 1 - DECAY)
            assert got[name].dtype == w.dtype and got[name].shape == w.shape
            # Three roundings a step, of which later steps keep a share.
            bound = 3 / (1 - DECAY) * torch.finfo(w.dtype).eps / 2 * max(float(mean[name].abs().max()), 0.02)
            off = float((got[name].double() - mean[name]).abs().max())
            assert off <= bound, f"{run}, step {number}: {name} differs by {off:.1e}"
            worst = max(worst, off / bound)
    moved = max(float((mean[name] - weights[name].double()).abs().max()) for name in mean)
    assert moved > 1e-4, f"the average is within {moved} of the weights"
    return worst


def moving(program):
    said = []
    n = training_test.STEPS * training_test.BATCH * flavours.CONTEXT + 1
    ids = flavours.random_ids(1, n, seed=3)[0]
    program.write_tokens("random.tokens", ids, flavours.SHAPE["vocab_size"])
    for flavour in ("llama2", "mixtral"):
        flavours.make(flavour, program.work / flavour)
        program("import", flavour, f"{flavour}32")
        program("import", flavour, f"{flavour}64", "--dtype", "f64")
    f64 = training_test.DECK.replace("CLIP", "0").replace("every_steps = 0", "every_steps = 1\nkeep_last = 0")
    f64 = f64.replace("[train]", f'[train]\nema = {DECAY}\nskip_steps = ["{SKIPPED}"]')
    f32 = f64.replace('"f64"', '"f32"').replace('backend = "ref"', 'backend = "host"')
    for name, text, base in (("f64", f64, "llama264"), ("f32", f32, "llama232"), ("experts", f32, "mixtral32"),
                             ("adapters", f32 + Setting(patterns=("*", "head")).section(), "llama232")):
        deck = program.write_deck(f"{name}.toml", text.replace("imported", base))
        grid = [*GRID[1], "parallel.expert=2"] if name == "experts" else GRID[1]
        # Where training begins: adapters are drawn at random.
        program("train", deck, "--run-dir", f"{name}-start", "train.steps=1", 'train.skip_steps=["1"]')
        start = weights_of(program.newest(f"{name}-start"))
        program("train", deck, "--run-dir", name, *ONE_RANK[1])
        program("train", deck, "--run-dir", f"{name}-grid", *grid, ranks=GRID[0])
        # From one layout to another, between the skipped step and the next.
        program("train", deck, "--run-dir", f"{name}-moved", *grid, f"train.steps={SKIPPED}", ranks=GRID[0])
        program("train", deck, "--run-dir", f"{name}-moved", "--restart", "latest", "parallel.data=2", "zero.stage=1", ranks=2)
        said.append(f"{name} {max(expect_averages(program, run, start) for run in (name, f'{name}-grid', f'{name}-moved')):.2f}")
    return f"errors, of what is allowed: {', '.join(said)}"


def cases():
    yield "moving averages", moving
