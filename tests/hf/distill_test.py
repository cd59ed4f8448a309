"""A model that learns from another one in f64, as torch has it by the formula of Hinton et al. 2015: teachers of other kinds, widths, depths and
heads, masked targets in windows, whole documents that share samples, adapters; losses, gradient norms and every weight."""
import math
import struct

import numpy as np
import torch

import flavours
import names
import reference
import training_test
from adapter_test import Setting, begin_of, flat, merged, split
from program import GRID, ONE_RANK, weights_of

TEMPERATURE, WEIGHT, LR, STEPS, BATCH, SEPARATOR = 2.5, 0.6, 0.1, 4, 8, 0
WORDS = ["train.objective=distill", f"train.steps={STEPS}", f"train.batch={BATCH}", f"optimizer.lr={LR}", f"distill.weight={WEIGHT}",
         f"distill.temperature={TEMPERATURE}"]
# What a document has in front of its separator: the first ones fill a sample each, of the others two do.
LENGTHS = [40, 39, 38, 37] + 4 * [20, 19]


def write_tokens(path, ids, learnt):
    """As docs/token_file.md says."""
    tokens = np.asarray(ids).astype("<u2")
    header = b"TRITOKEN" + struct.pack("<IIQQQqQIIQ", 1, 2, tokens.size, flavours.SHAPE["vocab_size"], int(tokens.max()), SEPARATOR, 0, 1, 0, 0)
    path.write_bytes(header.ljust(256, b"\0") + tokens.tobytes() + np.packbits(learnt, bitorder="little").tobytes())


def windows(path, generator):
    """Of each step the samples: inputs, targets and which of these are learnt. One microbatch of the first step has none."""
    n = STEPS * BATCH * flavours.CONTEXT
    ids = torch.randint(1, flavours.SHAPE["vocab_size"], (n + 1,), generator=generator)
    learnt = torch.rand(n + 1, generator=generator) < 0.6
    learnt[1:flavours.CONTEXT + 1] = False
    write_tokens(path, ids, learnt.numpy())
    samples = list(zip(*(x.view(-1, flavours.CONTEXT) for x in (ids[:-1], ids[1:], learnt[1:]))))
    return [samples[BATCH * s:BATCH * (s + 1)] for s in range(STEPS)]


def documents(path, generator):
    """Every step is an epoch, and all documents stand alone."""
    all_ids, all_learnt, samples = [], [], []
    for length in LENGTHS:
        ids = torch.cat([torch.randint(1, flavours.SHAPE["vocab_size"], (length,), generator=generator), torch.tensor([SEPARATOR])])
        learnt = torch.rand(length + 1, generator=generator) < 0.6
        all_ids.append(ids)
        all_learnt.append(learnt)
        samples.append((ids[:-1], ids[1:], learnt[1:]))
    write_tokens(path, torch.cat(all_ids), torch.cat(all_learnt).numpy())
    return STEPS * [samples]


def loss_of(w, shape, samples, theirs):
    """The mean over what is learnt; theirs: the teacher's logits."""
    t, losses = TEMPERATURE, []
    for (ids, targets, learnt), y in zip(samples, theirs, strict=True):
        z = reference.logits(w, shape, ids[None])[0]
        own = -torch.log_softmax(z, -1).gather(-1, targets[:, None])[:, 0]
        log_p, log_q = (torch.log_softmax(x / t, -1) for x in (y, z))
        losses.append(((1 - WEIGHT) * own + WEIGHT * t * t * (log_p.exp() * (log_p - log_q)).sum(-1))[learnt])
    return torch.cat(losses).mean()


def sgd(parameters, weights_by, shape, steps, theirs):
    """weights_by: what a model computes with, of what is trained."""
    losses, norms = [], []
    for samples, logits in zip(steps, theirs, strict=True):
        parameters = {name: x.detach().requires_grad_(True) for name, x in parameters.items()}
        loss = loss_of(weights_by(parameters), shape, samples, logits)
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        norms.append(math.sqrt(sum(float((g * g).sum()) for g in gradients)))
        losses.append(loss.item())
        parameters = {name: (x - LR * g).detach() for (name, x), g in zip(parameters.items(), gradients)}
    return parameters, losses, norms


def learns(program, student, teacher, changes, data=windows, adapters=False):
    for name, folder, seed, other in (("imported", "model", 1, {}), ("teacher", "larger", 7, changes)):
        flavours.make(student if name == "imported" else teacher, program.work / folder, seed=seed, **other)
        program("import", program.work / folder, name)
    shape, w = reference.load(program.work / "model", torch.float64)
    shape_of_teacher, of_teacher = reference.load(program.work / "larger", torch.float64)
    steps = data(program.work / "random.tokens", torch.Generator().manual_seed(3))
    theirs = [[reference.logits(of_teacher, shape_of_teacher, ids[None])[0] for ids, _, _ in samples] for samples in steps]
    text = training_test.DECK.replace("CLIP", "0") + '[distill]\nteacher = "teacher"\n'
    text = text.replace("every_steps = 0", "every_steps = 1\nkeep_last = 0") + (Setting().section() if adapters else "")
    deck = program.write_deck("deck.toml", text)
    words = WORDS + (["data.packing=documents", "data.attention=document"] if data is documents else [])
    grids = {"one": ONE_RANK, "data": (2, ["parallel.data=2", "zero.stage=3", "model.recompute=block"]),
             "halves": (2, ["parallel.pipe=2", "parallel.schedule=zero-bubble", "zero.stage=1", "train.microbatch=2"]),
             "grid": GRID, "seq": (4, ["parallel.seq=4", "train.microbatch=4"])}
    said = []
    for run, (ranks, grid) in grids.items():
        program("train", deck, "--run-dir", run, *words, *grid, ranks=ranks)
        first, *_, last = sorted((program.work / run / "checkpoints").glob("step-*"))
        if adapters:
            want, losses, norms = sgd(begin_of(first, shape, w), lambda p: merged(w, shape, p), shape, steps, theirs)
            want, got = flat(want), flat(split(weights_of(last), shape, w))
        else:
            want, losses, norms = sgd(w, lambda p: p, shape, steps, theirs)
            want, got = names.from_hf(want, shape), weights_of(last)
        history = program.history(run)
        training_test.expect_near(history["loss"], losses, f"{run}: losses")
        training_test.expect_near(history["grad_norm"], norms, f"{run}: gradient norms")
        said.append(f"{run} {training_test.expect_weights(got, want):.1e}")
    return f"weights differ by {', '.join(said)}; losses {losses[0]:.3f} to {losses[-1]:.3f}"


def cases():
    # Fewer heads than ranks of seq, more of them than the model, a soft cap, experts.
    yield "qwen3-of-gemma2", lambda program: learns(program, "qwen3", "gemma2", {
        "hidden_size": 60, "num_hidden_layers": 4, "num_attention_heads": 2, "layer_types": 4 * ["sliding_attention"]})
    yield "gpt2-of-mixture", lambda program: learns(program, "gpt2", "qwen2-moe", {"hidden_size": 96, "num_attention_heads": 8}, documents)
    yield "gemma2-of-gpt2", lambda program: learns(program, "gemma2", "gpt2", {"n_embd": 33, "n_head": 3, "n_positions": 53})
    yield "adapters-of-llama", lambda program: learns(program, "llama2", "llama2", {"num_hidden_layers": 5}, adapters=True)
