"""Means of checkpoints, against sums of the arrays that h5py reads: of models and of adapters, from every grid, in f32 and f64."""
import h5py
import torch

import flavours
import training_test
from adapter_test import Setting
from program import GRID, ONE_RANK, weights_of

# A rounding of each term and each sum, of numbers up to the largest: in f32 one more, at the end.
ROUNDINGS = 8


def steps_of(program, run, last):
    return sorted((program.work / run / "checkpoints").glob("step-*"))[-last:]


def expect_mean(program, checkpoint, parts, shares):
    got, parts = weights_of(program.work / checkpoint), [weights_of(part) for part in parts]
    assert sorted(got) == sorted(parts[0]), f"parameters are {sorted(got)}"
    worst = 0
    for name, x in got.items():
        terms = torch.stack([share / sum(shares) * part[name].double() for share, part in zip(shares, parts, strict=True)])
        assert x.dtype == parts[0][name].dtype
        unit = torch.finfo(x.dtype).eps / 2 * terms.sum(0).abs() + ROUNDINGS * 2.0 ** -53 * terms.abs().sum(0)
        off = (x.double() - terms.sum(0)).abs()
        assert bool((off <= unit).all()), f"{name} differs by {float(off.max()):.1e}"
        worst = max(worst, float(off.max()))
    moved = max(float((got[name] - parts[-1][name]).abs().max()) for name in got)
    assert moved > 1e-4, f"the mean is within {moved} of its last part"
    with h5py.File(program.work / checkpoint / "master.h5") as f:
        assert "state" not in f or not f["state"], f"it has {sorted(f)}"
    return worst


def averages(program):
    flavours.make("llama2", program.work / "model")
    program("import", "model", "imported")
    program("import", "model", "imported64", "--dtype", "f64")
    n = training_test.STEPS * training_test.BATCH * flavours.CONTEXT + 1
    ids = flavours.random_ids(1, n, seed=3)[0]
    program.write_tokens("random.tokens", ids, flavours.SHAPE["vocab_size"])
    f64 = training_test.DECK.replace("CLIP", "0").replace("every_steps = 0", "every_steps = 1\nkeep_last = 0").replace("imported", "imported64")
    f32 = f64.replace("imported64", "imported").replace('"f64"', '"f32"').replace('backend = "ref"', 'backend = "host"')
    said = []
    for name, text in (("f64", f64), ("f32", f32), ("adapters", f32 + Setting(patterns=("*", "head")).section())):
        deck = program.write_deck(f"{name}.toml", text)
        program("train", deck, "--run-dir", name, *ONE_RANK[1])
        program("train", deck, "--run-dir", f"{name}-grid", *GRID[1], ranks=GRID[0])
        program("average", name, "--last", "3", "--output", f"{name}.mean")
        off = expect_mean(program, f"{name}.mean", steps_of(program, name, 3), (1, 1, 1))
        # Of other grids, with weights, of which one is below zero.
        some = [steps_of(program, name, 3)[0], *steps_of(program, f"{name}-grid", 2)]
        program("average", *some, "--shares", "1.5,-0.5,3", "--output", f"{name}.some")
        off = max(off, expect_mean(program, f"{name}.some", some, (1.5, -0.5, 3)))
        backend = ["run.backend=ref"] if name == "f64" else []
        assert "loss" in program("evaluate", f"{name}.mean", *backend, "--data", "random.tokens")
        program("export", f"{name}.mean", f"{name}.folder")
        said.append(f"{name} {off:.1e}")
    program("train", program.write_deck("on.toml", f32.replace('init_from = "imported"', 'init_from = "f32.mean"')), "--run-dir", "on", "train.steps=1")
    program.refuses("average", "f32", "adapters", "--output", "no", naming=["has another model than"])
    program.refuses("average", "f32", "--last", "9", "--output", "no", naming=["has 5 intact checkpoints, but --last is 9"])
    program.refuses("average", "f32", "--output", "f32.mean", naming=["f32.mean"])
    program.refuses("average", "f32", "--shares", "1,-1,1,-1,0", "--output", "no", naming=["the shares in --shares add up to 0"])
    # Adapters of another base model; a damaged file.
    program("train", program.work / "adapters.toml", "--run-dir", "beside", "model.init_from=f32.mean", "model.preset=from:f32.mean")
    program.refuses("average", "adapters", "beside", "--output", "no", naming=["have another base model"])
    shard = next(steps_of(program, "f32", 1)[0].glob("rank-*.h5"))
    bytes_ = bytearray(shard.read_bytes())
    bytes_[len(bytes_) // 3] ^= 1
    shard.write_bytes(bytes_)
    program.refuses("average", "f32", "--output", "no", naming=[shard.name])
    assert not (program.work / "no").exists()
    return ", ".join(said)


def cases():
    yield "means", averages
