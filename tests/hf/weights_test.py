"""Weights of documents in f64, as torch has them with a weight for each token: from token files and from the deck, in windows across the
borders of documents and in whole documents, with masks, adapters, experts and a teacher; losses, gradient norms and every weight."""
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

LR, STEPS, BATCH, SEPARATOR, TEMPERATURE, SHARE = 0.1, 3, 8, 0, 2.5, 0.6
CONTEXT = flavours.CONTEXT
FACTORS = [0.5, 3.0]  # of the files in the deck
# What a document has in front of its separator: the first ones fill a sample each, of the others two do.
LENGTHS = [40, 39, 38, 37] + 4 * [20, 19]


def drawn(generator, tokens, lengths):
    """Ids, which are learnt, and the weight of each token's document."""
    ids = torch.randint(1, flavours.SHAPE["vocab_size"], (tokens,), generator=generator)
    learnt = torch.rand(tokens, generator=generator) < 0.7
    weights = torch.empty(tokens)
    begin = 0
    for length in lengths:
        end = min(begin + length + 1, tokens)
        ids[end - 1] = SEPARATOR
        weights[begin:end] = 10 ** (4 * torch.rand(1, generator=generator) - 2)
        begin = end
    assert begin == tokens
    return ids, learnt, weights


def write_tokens(path, ids, learnt, weights):
    """As docs/token_file.md says."""
    tokens, n = np.asarray(ids).astype("<u2"), len(ids)
    ends = [i + 1 for i in range(n) if i + 1 == n or weights[i + 1] != weights[i]]
    ranges = np.array([(end, weights[end - 1]) for end in ends], dtype=[("end", "<u8"), ("weight", "<f4")])
    header = b"TRITOKEN" + struct.pack("<IIQQQqQIIQ", 5, 2, n, flavours.SHAPE["vocab_size"], int(tokens.max()), SEPARATOR, 0, 1, 0, 0)
    header = header.ljust(100, b"\0") + struct.pack("<fQf", weights.min(), len(ranges), weights.max())
    path.write_bytes(header.ljust(256, b"\0") + tokens.tobytes() + np.packbits(learnt, bitorder="little").tobytes() + ranges.tobytes())


def windows(work, generator):
    """Two files, of which the first has weights and both have factors; the last step is of the second. One microbatch has no target."""
    steps = []
    for number, name in enumerate(("a.tokens", "b.tokens")):
        n = (STEPS - 1 if number == 0 else 1) * BATCH * CONTEXT
        lengths, left = [], n + 1
        while left > 0:
            lengths.append(min(left - 1, int(torch.randint(0, 60, (1,), generator=generator))))
            left -= lengths[-1] + 1
        ids, learnt, weights = drawn(generator, n + 1, lengths)
        if number == 0:
            learnt[1:CONTEXT + 1] = False
            write_tokens(work / name, ids, learnt.numpy(), weights)
        else:
            weights[:] = 1
            header = b"TRITOKEN" + struct.pack("<IIQQQqQIIQ", 1, 2, n + 1, flavours.SHAPE["vocab_size"], int(ids.max()), SEPARATOR, 0, 1, 0, 0)
            (work / name).write_bytes(header.ljust(256, b"\0") + ids.numpy().astype("<u2").tobytes() + np.packbits(learnt.numpy(), bitorder="little").tobytes())
        counts = learnt[1:] & (ids[:-1] != SEPARATOR)  # data.separator_masks
        rows = list(zip(*(x.view(-1, CONTEXT) for x in (ids[:-1], ids[1:], counts, weights[1:] * FACTORS[number]))))
        steps += [rows[i:i + BATCH] for i in range(0, len(rows), BATCH)]
    return steps, ['data.path=["a.tokens","b.tokens"]', f"data.loss_weights={FACTORS}", "data.separator_masks=true"]


def documents(work, generator):
    """Every step is an epoch, and all documents stand alone."""
    ids, learnt, weights = drawn(generator, sum(LENGTHS) + len(LENGTHS), LENGTHS)
    write_tokens(work / "a.tokens", ids, learnt.numpy(), weights)
    samples, begin = [], 0
    for length in LENGTHS:
        end = begin + length + 1
        samples.append((ids[begin:end - 1], ids[begin + 1:end], learnt[begin + 1:end], weights[begin + 1:end]))
        begin = end
    return STEPS * [samples], ["data.path=a.tokens", "data.packing=documents", "data.attention=document"]


def loss_of(w, shape, samples, theirs):
    """The weighted mean over what is learnt; theirs: the teacher's logits, or nothing."""
    losses, weights = [], []
    for number, (ids, targets, learnt, weight) in enumerate(samples):
        z = reference.logits(w, shape, ids[None])[0]
        loss = -torch.log_softmax(z, -1).gather(-1, targets[:, None])[:, 0]
        if theirs:
            log_p, log_q = (torch.log_softmax(x / TEMPERATURE, -1) for x in (theirs[number], z))
            loss = (1 - SHARE) * loss + SHARE * TEMPERATURE ** 2 * (log_p.exp() * (log_p - log_q)).sum(-1)
        weight = weight.float().double()
        losses.append((weight * loss)[learnt])
        weights.append(weight[learnt])
    return torch.cat(losses).sum() / torch.cat(weights).sum()


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


def trains(program, flavour, data, adapters=False, teacher=None):
    flavours.make(flavour, program.work / "model", seed=1)
    program("import", program.work / "model", "imported")
    shape, w = reference.load(program.work / "model", torch.float64)
    steps, words = data(program.work, torch.Generator().manual_seed(3))
    text = training_test.DECK.replace("CLIP", "0").replace("every_steps = 0", "every_steps = 1\nkeep_last = 0")
    text = text.replace('path = "random.tokens"\n', "") + (Setting().section() if adapters else "")
    theirs = [None] * STEPS
    if teacher:
        flavours.make(teacher, program.work / "larger", seed=7)
        program("import", program.work / "larger", "teacher")
        shape_of_teacher, of_teacher = reference.load(program.work / "larger", torch.float64)
        theirs = [[reference.logits(of_teacher, shape_of_teacher, ids[None])[0] for ids, *_ in samples] for samples in steps]
        text += '[distill]\nteacher = "teacher"\n'
        words += ["train.objective=distill", f"distill.weight={SHARE}", f"distill.temperature={TEMPERATURE}"]
    deck = program.write_deck("deck.toml", text)
    words += [f"train.steps={STEPS}", f"train.batch={BATCH}", f"optimizer.lr={LR}"]
    grids = {"one": ONE_RANK, "data": (2, ["parallel.data=2", "zero.stage=3", "model.recompute=block"]),
             "halves": (2, ["parallel.pipe=2", "parallel.schedule=zero-bubble", "zero.stage=1", "train.microbatch=2"]),
             "grid": GRID, "seq": (4, ["parallel.seq=4", "train.microbatch=4"])}
    if shape.experts_per_token:
        grids["experts"] = (GRID[0], [*GRID[1], "parallel.expert=2"])
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
    yield "windows", lambda program: trains(program, "gpt2", windows)
    yield "documents", lambda program: trains(program, "qwen2-moe", documents)
    yield "adapters", lambda program: trains(program, "llama2", windows, adapters=True)
    yield "taught", lambda program: trains(program, "gemma2", documents, teacher="llama2")
