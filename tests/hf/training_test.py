"""Five steps of SGD in f64 from an imported model: losses, gradient norms and every weight are the reference's."""
import json

import torch

import flavours
import names
import reference
from program import GRID, ONE_RANK, weights_of

STEPS, BATCH, LR = 5, 4, 0.1
RAMP = [1, 2, 2, 4, 4]  # samples of the steps of a ramp
# That of the parity suites (tests/parallel/parity.hpp): sums of some 1,000 terms of f64, over five steps of a gradient
# descent that does not amplify. Of a weight's largest element, at least 0.02; of a loss and a norm.
BOUND = 1e-11

DECK = f"""
[model]
preset = "from:imported"
init_from = "imported"

[data]
path = "random.tokens"
order = "sequential"

[train]
batch = {BATCH}
microbatch = 1
steps = {STEPS}

[optimizer]
name = "sgd"
lr = {LR}
weight_decay = 0
clip = CLIP

[schedule]
shape = "constant"

[precision]
compute = "f64"

[checkpoint]
every_steps = 0
async = false

[run]
backend = "ref"
threads = 1
"""


def steps_of(ids, context, batches=(BATCH,) * STEPS):
    """Sample w of a file begins at token w * context; its targets are one later."""
    n = sum(batches) * context
    inputs, targets = (ids[k:n + k].view(sum(batches), context).split(batches) for k in (0, 1))
    return list(zip(inputs, targets))


def expect_near(got, want, what, bound=BOUND):
    off = max(abs(a - b) / abs(b) for a, b in zip(got, want, strict=True))
    assert off <= bound, f"{what} differ by {off:.1e}: {got} for {want}"
    return off


def expect_weights(got, want, bound=BOUND):
    assert sorted(got) == sorted(want), f"weights are {sorted(got)}, expected {sorted(want)}"
    worst = 0.0
    for name, w in want.items():
        assert got[name].dtype == torch.float64 and got[name].shape == w.shape, f"{name}: {got[name].dtype} {got[name].shape}"
        off = float((got[name] - w).abs().max()) / max(float(w.abs().max()), 0.02)
        assert off <= bound, f"{name} differs by {off:.1e} of its largest element"
        worst = max(worst, off)
    return worst


def trains(name, program, clip=0.0, batches=(BATCH,) * STEPS, ramp=()):
    folder = program.work / "model"
    flavours.make(name, folder)
    shape, before = reference.load(folder, torch.float64)
    ids = flavours.random_ids(1, STEPS * BATCH * flavours.CONTEXT + 1, seed=3)[0]
    program.write_tokens("random.tokens", ids, flavours.SHAPE["vocab_size"])
    after, losses, norms = reference.sgd(before, shape, steps_of(ids, flavours.CONTEXT, list(batches)), LR, clip)
    want = names.from_hf(after, shape)
    started = names.from_hf(before, shape)
    assert all(not torch.equal(w, started[name]) for name, w in want.items()), "a weight has not moved"
    assert not clip or min(norms) > clip, "nothing is clipped"

    program("import", folder, "imported")
    deck = program.write_deck("deck.toml", DECK.replace("CLIP", str(clip)).replace("[train]", f"[train]\nbatch_ramp = {json.dumps(ramp)}"))
    said = []
    grids = {"one rank": ONE_RANK, "grid": GRID}
    if shape.experts_per_token:
        grids["experts over ranks"] = (GRID[0], [*GRID[1], "parallel.expert=2"])
    for run, (ranks, grid) in grids.items():
        program("train", deck, "--run-dir", run.replace(" ", "-"), *grid, ranks=ranks)
        history = program.history(run.replace(" ", "-"))
        expect_near(history["loss"], losses, f"{run}: losses")
        expect_near(history["grad_norm"], norms, f"{run}: gradient norms")
        said.append(f"{run} {expect_weights(weights_of(program.newest(run.replace(' ', '-'))), want):.1e}")
    return f"weights differ by {', '.join(said)}; losses {losses[0]:.3f} to {losses[-1]:.3f}"


def cases():
    for name in flavours.CONFIGS:
        yield name, lambda program, name=name: trains(name, program)
    yield "qwen3-clipped", lambda program: trains("qwen3", program, clip=0.5)
    ramp = ["1 until 1 steps", "2 until 3 steps"]
    yield "qwen3-ramp", lambda program: trains("qwen3", program, batches=RAMP, ramp=ramp)
