"""Preference optimization in f64, as torch has it by the papers' formulas: of each document its completion's log-probabilities,
alone in a sample. DPO and KTO: their sum, by the model with adapters merged and by the one without. SimPO and ORPO: their mean."""
import math
import re
import struct

import h5py
import numpy as np
import torch

import flavours
import names
import reference
import training_test
from adapter_test import Setting, begin_of, flat, merged, split
from program import GRID, ONE_RANK, weights_of

BETA, LR, WHOLE_LR, STEPS, SEPARATOR = 0.3, 0.5, 0.05, 5, 0
SIMPO_BETA, GAMMA, LAMBDA = 1.5, 0.4, 0.7
DESIRABLE, UNDESIRABLE = 1.3, 0.8
PAIRS = ["data.packing=documents", "data.attention=document"]
WORDS = {"dpo": [*PAIRS, "train.objective=dpo", f"train.dpo_beta={BETA}"],
         "kto": [*PAIRS, "train.objective=kto", f"train.kto_beta={BETA}", f"train.kto_desirable_weight={DESIRABLE}",
                 f"train.kto_undesirable_weight={UNDESIRABLE}"]}
# Inputs of a pair's two documents: of the first four one fills a sample, of the others two do.
LENGTHS = [(15, 18), (19, 20), (8, 25), (30, 2), (7, 9), (9, 7), (5, 12), (8, 8), (10, 6), (7, 7), (3, 14), (8, 9)]
BATCH = 8
# With kto, a pair is an answer and its mismatched answer.
LABELS = [n % 3 != 1 for n in range(len(LENGTHS))]
# Loss of a model that is its own reference: of dpo, and of kto.
FIRST = {"dpo": math.log(2), "kto": sum(DESIRABLE / 2 if label else UNDESIRABLE / 2 for label in LABELS) / len(LABELS)}


def pairs():
    """Of each the chosen and the rejected document, and how many tokens of both are the prompt."""
    generator = torch.Generator().manual_seed(11)
    made = []
    for chosen, rejected in LENGTHS:
        both = [torch.randint(3, flavours.SHAPE["vocab_size"], (n,), generator=generator) for n in (chosen, rejected)]
        prompt = min(chosen, rejected) // 2
        both[1][:prompt] = both[0][:prompt]
        made.append((*both, prompt))
    return made


def write_pairs(path, made, objective="dpo"):
    """As docs/token_file.md says."""
    ids, learnt = [], []
    for chosen, rejected, prompt in made:
        for document in (chosen, rejected):
            ids += [*document.tolist(), SEPARATOR]
            learnt += [0] * prompt + [1] * (len(document) - prompt + 1)
    tokens = np.asarray(ids).astype("<u2")
    header = b"TRITOKEN" + struct.pack("<IIQQQqQIIQQQQI", 4 if objective == "kto" else 3, 2, tokens.size, flavours.SHAPE["vocab_size"], int(tokens.max()), SEPARATOR,
                                       2 * len(made), 1, 0, 0, 0, 0, 0, 2 if objective == "kto" else 1)
    labels = np.packbits(LABELS, bitorder="little").tobytes() if objective == "kto" else b""
    path.write_bytes(header.ljust(256, b"\0") + tokens.tobytes() + np.packbits(learnt, bitorder="little").tobytes() + labels)


def log_probability(w, shape, document, prompt):
    targets = torch.cat([document[1:], torch.tensor([SEPARATOR])])
    z = reference.logits(w, shape, document[None])[0]
    picked = z.gather(-1, targets[:, None])[:, 0] - torch.logsumexp(z, -1)
    return picked[prompt - 1:].sum()


def dpo(policy, shape, made, before):
    """Loss and what history.csv says of it; `before`: the fixed model's log-probabilities."""
    rewards = []
    for (chosen, rejected, prompt), fixed in zip(made, before, strict=True):
        now = [log_probability(policy, shape, document, prompt) for document in (chosen, rejected)]
        rewards.append([BETA * (a - b) for a, b in zip(now, fixed)])
    loss = torch.stack([-torch.nn.functional.logsigmoid(c - r) for c, r in rewards]).mean()
    c, r = torch.tensor([[reward.item() for reward in pair] for pair in rewards], dtype=torch.float64).T
    return loss, {"loss": loss.item(), "margin": (c - r).mean().item(), "accuracy": (c > r).double().mean().item(),
                  "reward_chosen": c.mean().item(), "reward_rejected": r.mean().item()}


def kto(policy, shape, made, before):
    """As dpo() says them, as TRL's trainer does: the KL term is detached and at least 0."""
    ratios = [[log_probability(policy, shape, document, prompt) - fixed for document, fixed in zip(both, fixed_both)]
              for (*both, prompt), fixed_both in zip(made, before, strict=True)]
    kl = torch.stack([mismatched for _, mismatched in ratios]).mean().detach().clamp(min=0)
    losses = [DESIRABLE * (1 - torch.sigmoid(BETA * (own - kl))) if label else UNDESIRABLE * (1 - torch.sigmoid(BETA * (kl - own)))
              for (own, _), label in zip(ratios, LABELS, strict=True)]
    rewards = [BETA * own.item() for own, _ in ratios]
    good, bad = (np.mean([r for r, label in zip(rewards, LABELS) if label is which]) for which in (True, False))
    fit = np.mean([r > BETA * kl.item() if label else r < BETA * kl.item() for r, label in zip(rewards, LABELS)])
    loss = torch.stack(losses).mean()
    return loss, {"loss": loss.item(), "margin": good - bad, "accuracy": fit, "reward_chosen": good, "reward_rejected": bad,
                  "z0": BETA * kl.item()}


MEASURES = {"dpo": dpo, "kto": kto}


def sgd(w, shape, parts, made, measure):
    rows, norms = [], []
    before = [[log_probability(w, shape, document, prompt).item() for document in both] for *both, prompt in made]
    for _ in range(STEPS):
        parts = {key: x.detach().requires_grad_(True) for key, x in parts.items()}
        loss, row = measure(merged(w, shape, parts), shape, made, before)
        gradients = torch.autograd.grad(loss, list(parts.values()))
        norms.append(math.sqrt(sum(float((g * g).sum()) for g in gradients)))
        rows.append(row)
        parts = {key: (x - LR * g).detach() for (key, x), g in zip(parts.items(), gradients)}
    last = measure(merged(w, shape, parts), shape, made, before)[1]["loss"]
    return parts, rows, norms, last


def prefers(name, program, objective="dpo"):
    folder = program.work / "model"
    flavours.make(name, folder)
    shape, w = reference.load(folder, torch.float64)
    made = pairs()
    write_pairs(program.work / "random.tokens", made, objective)
    program("import", folder, "imported")
    text = training_test.DECK.replace("CLIP", "0").replace("every_steps = 0", "every_steps = 1\nkeep_last = 0")
    deck = program.write_deck("deck.toml", text + Setting().section())
    words = [*WORDS[objective], f"train.batch={BATCH}", f"optimizer.lr={LR}"]
    said = []
    grids = {"one": ONE_RANK, "grid": GRID, "data": (4, ["parallel.data=4", "zero.stage=3"]),
             "two": (2, ["parallel.seq=2", "train.microbatch=2"]),
             "halves": (2, ["parallel.pipe=2", "parallel.schedule=zero-bubble", "model.recompute=block"])}
    if shape.experts_per_token:
        grids["experts"] = (GRID[0], [*GRID[1], "parallel.expert=2"])
    for run, (ranks, grid) in grids.items():
        program("train", deck, "--run-dir", run, *words, *grid, ranks=ranks)
        first, *_, last = sorted((program.work / run / "checkpoints").glob("step-*"))
        want, rows, norms, after = sgd(w, shape, begin_of(first, shape, w), made, MEASURES[objective])
        assert objective != "kto" or max(row["z0"] for row in rows) > 0
        history = program.history(run)
        assert len(history["loss"]) == STEPS
        assert abs(rows[0]["loss"] - FIRST[objective]) < 1e-12 and history["margin"][0] == 0 and history["accuracy"][0] == 0
        assert 0 < rows[-1]["accuracy"] and rows[-1]["loss"] < 0.99 * rows[0]["loss"], f"nothing is learnt: {rows}"
        training_test.expect_near(history["grad_norm"], norms, f"{run}: gradient norms")
        for column, values in history.items():
            if column in rows[0]:
                off = max(abs(got - row[column]) for got, row in zip(values, rows, strict=True))
                assert off <= 1e-11, f"{run}: {column} differs by {off:.1e}"
        got = split(weights_of(last), shape, w)
        said.append(f"{run} {training_test.expect_weights(flat(got), flat(want)):.1e}")
        machine = [word for word in grid if word.startswith(("parallel.", "zero."))]
        evaluated = float(re.search(r"loss ([0-9.]+), .* over 12 ", program("evaluate", run, *machine, "--data", "random.tokens", ranks=ranks))[1])
        assert abs(evaluated - after) <= 1e-6, f"{run}: {evaluated} for {after}"
    return f"adapters differ by {', '.join(said)}; loss {rows[0]['loss']:.4f} to {after:.4f}, accuracy {rows[-1]['accuracy']:.2f}"


def simpo_pair(chosen, rejected):
    """Of the means of log-probabilities: loss, rewards."""
    rewards = SIMPO_BETA * chosen, SIMPO_BETA * rejected
    return -torch.nn.functional.logsigmoid(rewards[0] - rewards[1] - GAMMA), *rewards


def orpo_pair(chosen, rejected):
    log_odds = [x - torch.log1p(-torch.exp(x)) for x in (chosen, rejected)]
    return -chosen - LAMBDA * torch.nn.functional.logsigmoid(log_odds[0] - log_odds[1]), *log_odds


def without_reference(policy, shape, made, pair):
    """As dpo() says them."""
    all = [pair(*(log_probability(policy, shape, document, prompt) / (len(document) + 1 - prompt) for document in both)) for *both, prompt in made]
    loss = torch.stack([loss for loss, *_ in all]).mean()
    c, r = torch.tensor([[reward.item() for reward in rewards] for _, *rewards in all], dtype=torch.float64).T
    return loss, {"loss": loss.item(), "margin": (c - r).mean().item(), "accuracy": (c > r).double().mean().item(),
                  "reward_chosen": c.mean().item(), "reward_rejected": r.mean().item()}


def whole_sgd(w, shape, measure):
    """All weights learn; `measure`: of weights the loss and its row."""
    rows, norms = [], []
    for _ in range(STEPS):
        w = {name: x.detach().requires_grad_(True) for name, x in w.items()}
        loss, row = measure(w)
        gradients = torch.autograd.grad(loss, list(w.values()))
        norms.append(math.sqrt(sum(float((g * g).sum()) for g in gradients)))
        rows.append(row)
        w = {name: (x - WHOLE_LR * g).detach() for (name, x), g in zip(w.items(), gradients)}
    return w, rows, norms


def prefers_whole(name, program, objective="dpo"):
    """A whole model against scores of the one that it begins as, and, from its end, against those of that first one."""
    folder = program.work / "model"
    flavours.make(name, folder)
    shape, w = reference.load(folder, torch.float64)
    made = pairs()
    write_pairs(program.work / "random.tokens", made, objective)
    program("import", folder, "imported")
    deck = program.write_deck("deck.toml", training_test.DECK.replace("CLIP", "0"))
    words = [*WORDS[objective], f"train.batch={BATCH}", f"optimizer.lr={WHOLE_LR}"]
    before = [[log_probability(w, shape, document, prompt).item() for document in both] for *both, prompt in made]
    first, *rest = whole_sgd(w, shape, lambda w: MEASURES[objective](w, shape, made, before))
    second = whole_sgd(first, shape, lambda w: MEASURES[objective](w, shape, made, before))
    wanted = {"one": (first, *rest), "again": second}
    assert objective != "kto" or max(row["z0"] for row in second[1]) > 0
    assert abs(rest[0][0]["loss"] - FIRST[objective]) < 1e-12 and second[1][0]["margin"] > 0 and second[1][-1]["loss"] < 0.99 * FIRST[objective]
    grids = {"alone": ONE_RANK, "grid": GRID, "data": (4, ["parallel.data=4", "zero.stage=3"]),
             "halves": (2, ["parallel.pipe=2", "parallel.schedule=zero-bubble", "model.recompute=block", "train.microbatch=2"])}
    if shape.experts_per_token:
        grids["experts"] = (GRID[0], [*GRID[1], "parallel.expert=2"])
    said = []
    for grid, (ranks, axes) in grids.items():
        scores = f"{grid}.scores"
        program("score", deck, f"train.dpo_scores={scores}", *words, *axes, ranks=ranks)
        with h5py.File(program.work / scores) as f:
            (file,) = f["files"].values()
            got = file["loss"][()]
            assert [*file["inputs"]] == [len(d) for *both, _ in made for d in both]
            off = max(abs(a + b) / abs(b) for a, b in zip(got, (x for both in before for x in both), strict=True))
            assert off <= training_test.BOUND, f"{grid}: scores differ by {off:.1e}"
        for run, start in (("one", "imported"), ("again", f"one-{grid}")):
            want, rows, norms = wanted[run]
            program("train", deck, "--run-dir", f"{run}-{grid}", *words, f"train.dpo_scores={scores}", f"model.init_from={start}", *axes, ranks=ranks)
            history = program.history(f"{run}-{grid}")
            training_test.expect_near(history["grad_norm"], norms, f"{run} {grid}: gradient norms")
            for column, values in history.items():
                if column in rows[0]:
                    off = max(abs(a - row[column]) for a, row in zip(values, rows, strict=True))
                    assert off <= 1e-11, f"{run} {grid}: {column} differs by {off:.1e}"
            worst = training_test.expect_weights(weights_of(program.newest(f"{run}-{grid}")), names.from_hf(want, shape))
        said.append(f"{grid} {worst:.1e}")
    return f"weights differ by {', '.join(said)}; loss {rest[0][0]['loss']:.4f} to {second[1][-1]['loss']:.4f}"


def prefers_alone(name, objective, program):
    """A whole model by a loss that needs no other model."""
    folder = program.work / "model"
    flavours.make(name, folder)
    shape, w = reference.load(folder, torch.float64)
    made = pairs()
    write_pairs(program.work / "random.tokens", made)
    program("import", folder, "imported")
    deck = program.write_deck("deck.toml", training_test.DECK.replace("CLIP", "0"))
    pair, keys = {"simpo": (simpo_pair, [f"train.simpo_beta={SIMPO_BETA}", f"train.simpo_gamma={GAMMA}"]),
                  "orpo": (orpo_pair, [f"train.orpo_lambda={LAMBDA}"])}[objective]
    words = [*PAIRS, f"train.objective={objective}", *keys, f"train.batch={BATCH}", f"optimizer.lr={WHOLE_LR}"]
    want, rows, norms = whole_sgd(w, shape, lambda w: without_reference(w, shape, made, pair))
    after = without_reference(want, shape, made, pair)[1]["loss"]
    assert after < rows[0]["loss"], f"nothing is learnt: {rows}"
    grids = {"one": ONE_RANK, "grid": GRID, "data": (4, ["parallel.data=4", "zero.stage=3"]), "two": (2, ["parallel.seq=2", "train.microbatch=2"]),
             "halves": (2, ["parallel.pipe=2", "parallel.schedule=zero-bubble", "model.recompute=block", "train.microbatch=2"])}
    if shape.experts_per_token:
        grids["experts"] = (GRID[0], [*GRID[1], "parallel.expert=2"])
    said = []
    for run, (ranks, grid) in grids.items():
        program("train", deck, "--run-dir", run, *words, *grid, ranks=ranks)
        history = program.history(run)
        training_test.expect_near(history["grad_norm"], norms, f"{run}: gradient norms")
        for column, values in history.items():
            if column in rows[0]:
                off = max(abs(a - row[column]) for a, row in zip(values, rows, strict=True))
                assert off <= 1e-11, f"{run}: {column} differs by {off:.1e}"
        said.append(f"{run} {training_test.expect_weights(weights_of(program.newest(run)), names.from_hf(want, shape)):.1e}")
        machine = [word for word in grid if word.startswith(("parallel.", "zero."))]
        evaluated = float(re.search(r"loss ([0-9.]+), .* over 12 ", program("evaluate", run, *machine, "--data", "random.tokens", ranks=ranks))[1])
        assert abs(evaluated - after) <= 1e-6, f"{run}: {evaluated} for {after}"
    return f"weights differ by {', '.join(said)}; loss {rows[0]['loss']:.4f} to {after:.4f}, accuracy {rows[-1]['accuracy']:.2f}"


def cases():
    for name, objective in (("gpt2", "simpo"), ("llama2", "orpo"), ("qwen2-moe", "simpo"), ("qwen2-moe", "orpo")):
        yield f"preferences-{objective}-{name}", lambda program, name=name, objective=objective: prefers_alone(name, objective, program)
    for name in ("gpt2", "llama2", "qwen2-moe"):
        yield f"preferences-whole-{name}", lambda program, name=name: prefers_whole(name, program)
    for name in ("gpt2", "llama2", "qwen3", "qwen2-moe"):
        yield f"preferences-{name}", lambda program, name=name: prefers(name, program)
    for name in ("llama2", "qwen2-moe"):
        yield f"preferences-kto-whole-{name}", lambda program, name=name: prefers_whole(name, program, "kto")
        yield f"preferences-kto-{name}", lambda program, name=name: prefers(name, program, "kto")
