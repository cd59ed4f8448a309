"""Muon in f64 from an imported model: every weight is that of a torch model, trained by Muon as its authors describe it.

Jordan et al. 2024, https://kellerjordan.github.io/posts/muon: momentum, Nesterov's, and five Newton-Schulz steps on the
gradient of each matrix; queries, keys and values, gate and up, and each expert are matrices of their own; tables, heads,
routers, norms and biases go to AdamW. That this is torch's Muon is shown, too: by torch's own code in f64. Polar Express
(Amsel et al. 2025, arXiv 2505.16932) has other polynomials and another scaling of their input.
"""
import math
from dataclasses import dataclass, replace
from unittest import mock

import torch

import adapter_test
import flavours
import names
import reference
import training_test
from program import GRID, ONE_RANK, weights_of

LR, DECAY, ADAMW_LR, ADAMW_DECAY, MOMENTUM, BETAS = 0.02, 0.1, 0.003, 0.02, 0.9, (0.8, 0.9)
# So large that AdamW does not divide rounding by rounding where a gradient is zero.
EPS = 1e-4

# By the deck's names: torch's, and the factor on a step for a matrix of `out` rows and `in` columns.
SCALES = {
    "sqrt(max(1, out/in))": ("original", lambda rows, columns: max(1, rows / columns) ** 0.5),
    "0.2 sqrt(max(out, in))": ("match_rms_adamw", lambda rows, columns: 0.2 * max(rows, columns) ** 0.5),
    "sqrt(out/in)": ("spectral_unclamped", lambda rows, columns: (rows / columns) ** 0.5),
}

# Names in the deck -> (a, b, c) of each step, and the factor and eps in g / (factor ||g|| + eps). The numbers of Polar
# Express are those of modded-nanogpt, https://github.com/KellerJordan/modded-nanogpt.
POLYNOMIALS = {
    "jordan": ([(3.4445, -4.7750, 2.0315)] * 5, 1, 1e-7),
    "polar-express": ([(8.156554524902461, -22.48329292557795, 15.878769915207462),
                       (4.042929935166739, -2.808917465908714, 0.5000178451051316),
                       (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
                       (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
                       (2.3465413258596377, -1.7097828382687081, 0.42323551169305323)], 1.02, 1e-6),
}


@dataclass
class Setting:
    nesterov: bool = True
    scale: str = "sqrt(max(1, out/in))"
    heads: str = "together"
    clip: float = 0.0
    polynomials: str = "jordan"
    lr: float = LR

    @property
    def bound(self):
        """Polar Express multiplies errors of a small singular value by the product of its a, 990, which with sums of 88
        terms of f64 is still below this bound: 990 * 88 * 2^-53 = 9.7e-12. Jordan's polynomials multiply them by 485."""
        return training_test.BOUND

    def matrix(self):
        """Returns the optimizer of one matrix."""
        return Muon(self)

    def section(self):
        return f"""
name = "muon"
muon_polynomials = "{self.polynomials}"
{self.common()}"""

    def common(self):
        """Returns the keys that Muon and Shampoo share."""
        return f"""
lr = {self.lr}
weight_decay = {DECAY}
betas = {list(BETAS)}
eps = {EPS}
clip = {self.clip}
matrix_momentum = {MOMENTUM}
matrix_nesterov = {str(self.nesterov).lower()}
matrix_scale = "{self.scale}"
matrix_heads = "{self.heads}"
adamw_lr = {ADAMW_LR}
adamw_weight_decay = {ADAMW_DECAY}
"""


def newton_schulz(g, polynomials):
    """As in the post, but for the type."""
    steps, factor, eps = POLYNOMIALS[polynomials]
    x = g / (factor * g.norm() + eps)
    if g.shape[0] > g.shape[1]:
        x = x.T
    for first, third, fifth in steps:
        a = x @ x.T
        b = third * a + fifth * a @ a
        x = first * x + b @ x
    return x.T if g.shape[0] > g.shape[1] else x


class Muon:
    """Of one matrix."""

    def __init__(self, setting):
        self.setting, self.m = setting, 0

    def step(self, w, g, decay=DECAY):
        self.m = MOMENTUM * self.m + g
        o = newton_schulz(g + MOMENTUM * self.m if self.setting.nesterov else self.m, self.setting.polynomials)
        return w - LR * SCALES[self.setting.scale][1](*w.shape) * o - LR * decay * w


class AdamW:
    """Loshchilov, Hutter 2019, algorithm 2."""

    def __init__(self):
        self.m = self.v = self.t = 0

    def step(self, w, g, decay):
        self.t += 1
        self.m = BETAS[0] * self.m + (1 - BETAS[0]) * g
        self.v = BETAS[1] * self.v + (1 - BETAS[1]) * g * g
        mean, square = self.m / (1 - BETAS[0] ** self.t), self.v / (1 - BETAS[1] ** self.t)
        return w - ADAMW_LR * mean / (square.sqrt() + EPS) - ADAMW_LR * decay * w


# Ends of transformers' names of what is no matrix to Muon, though it has two dims.
NO_MATRICES = ("wte", "wpe", "embed_tokens", "lm_head", "mlp.gate", "block_sparse_moe.gate", "mlp.shared_expert_gate")


def is_matrix(name, w):
    return w.dim() == 2 and not name.removesuffix(".weight").endswith(NO_MATRICES)


class Weight:
    """A tensor of transformers: the parts that are matrices, or all of it."""

    def __init__(self, name, w, shape, setting):
        self.conv1d = shape.gpt2 and is_matrix(name, w)  # [in, out]
        self.rows = [w.shape[0]]
        if self.conv1d:
            self.rows = [w.shape[1] // 3] * 3 if name.endswith("c_attn.weight") else [w.shape[1]]
        qkv = name.endswith(("c_attn.weight", "q_proj.weight", "k_proj.weight", "v_proj.weight"))
        if qkv and setting.heads == "each":
            self.rows = [shape.head_dim] * (sum(self.rows) // shape.head_dim)
        self.matrices = [setting.matrix() for _ in self.rows] if is_matrix(name, w) else []
        self.adamw = AdamW()
        self.decay = ADAMW_DECAY if w.dim() == 2 else 0  # neither norms nor biases

    def step(self, w, g):
        if not self.matrices:
            return self.adamw.step(w, g, self.decay)
        if self.conv1d:
            w, g = w.T, g.T
        parts = zip(self.matrices, w.split(self.rows), g.split(self.rows), strict=True)
        w = torch.cat([m.step(x, y) for m, x, y in parts])
        return w.T if self.conv1d else w


def train(weights, loss_of, steps, optimizers, clip=0.0):
    """Weights after the steps, and each step's loss and norm."""
    losses, norms = [], []
    for step in steps:
        weights = {name: x.detach().requires_grad_(True) for name, x in weights.items()}
        loss = loss_of(weights, *step)
        gradients = torch.autograd.grad(loss, list(weights.values()))
        norms.append(math.sqrt(sum(float((g * g).sum()) for g in gradients)))
        losses.append(loss.item())
        factor = min(1.0, clip / (norms[-1] + 1e-6)) if clip else 1.0
        weights = {name: optimizers[name].step(x.detach(), factor * g) for (name, x), g in zip(weights.items(), gradients)}
    return weights, losses, norms


def deck_of(setting):
    head, rest = training_test.DECK.split("[optimizer]")
    return f"{head}[optimizer]{setting.section()}\n[schedule]{rest.split('[schedule]')[1]}"


def prepare(name, program, batch=training_test.BATCH):
    """A random model, imported; its weights, and steps on random tokens."""
    folder = program.work / "model"
    flavours.make(name, folder)
    shape, w = reference.load(folder, torch.float64)
    ids = flavours.random_ids(1, training_test.STEPS * batch * flavours.CONTEXT + 1, seed=3)[0]
    program.write_tokens("random.tokens", ids, flavours.SHAPE["vocab_size"])
    program("import", folder, "imported")
    return shape, w, training_test.steps_of(ids, flavours.CONTEXT, (batch,) * training_test.STEPS)


def grids_of(shape):
    grids = {"one rank": ONE_RANK, "grid": GRID}
    if shape.experts_per_token:
        grids["experts over ranks"] = (GRID[0], ["parallel.data=4", "parallel.expert=2", "zero.stage=3"])
    return grids


def trains(name, program, setting=Setting(), batch=training_test.BATCH, grids=None):
    """`grids` (name -> ranks, grid) are those of grids_of() by default."""
    shape, before, steps = prepare(name, program, batch)
    optimizers = {key: Weight(key, w, shape, setting) for key, w in before.items()}
    count = sum(len(o.matrices) for o in optimizers.values())

    def loss_of(w, *step):
        return reference.mean_loss(w, shape, *step)
    after, losses, norms = train(before, loss_of, steps, optimizers, setting.clip)
    assert not setting.clip or min(norms) > setting.clip, "nothing is clipped"
    want = names.from_hf(after, shape)
    deck = program.write_deck("deck.toml", deck_of(setting))
    said = []
    for run, (ranks, grid) in (grids or grids_of(shape)).items():
        folder = run.replace(" ", "-")
        program("train", deck, "--run-dir", folder, f"train.batch={batch}", *grid, ranks=ranks)
        history = program.history(folder)
        training_test.expect_near(history["loss"], losses, f"{run}: losses", setting.bound)
        training_test.expect_near(history["grad_norm"], norms, f"{run}: gradient norms", setting.bound)
        said.append(f"{run} {training_test.expect_weights(weights_of(program.newest(folder)), want, setting.bound):.1e}")
    return f"{count} matrices; weights differ by {', '.join(said)}; losses {losses[0]:.3f} to {losses[-1]:.3f}"


def adapts(name, program, setting=Setting(scale="0.2 sqrt(max(out, in))")):
    """Both factors of each product are matrices."""
    shape, w, steps = prepare(name, program)
    text = deck_of(setting).replace("every_steps = 0", "every_steps = 1\nkeep_last = 0")
    deck = program.write_deck("deck.toml", text + adapter_test.Setting().section())
    said = []
    for run, (ranks, grid) in {"one": ONE_RANK, "grid": GRID}.items():
        program("train", deck, "--run-dir", run, *grid, "train.steps=1", ranks=ranks)
        first = program.newest(run)
        program("train", deck, "--run-dir", run, *grid, "--restart", "latest", ranks=ranks)
        # b is zero at first, so that a has no gradient, and but for decay stays as it was.
        begin = {key: x if key[1] == "b" else x / (1 - setting.lr * DECAY) for key, x in adapter_test.split(weights_of(first), shape, w).items()}
        begin = {key: torch.zeros_like(x) if key[1] == "b" else x for key, x in begin.items()}

        def loss_of(parts, *step):
            return reference.mean_loss(adapter_test.merged(w, shape, parts), shape, *step)
        want, losses, _ = train(begin, loss_of, steps, {key: setting.matrix() for key in begin})
        training_test.expect_near(program.history(run)["loss"], losses, f"{run}: losses", setting.bound)
        got = adapter_test.split(weights_of(program.newest(run)), shape, w)
        moved = min(float((want[key] - x).abs().max()) for key, x in begin.items())
        assert moved > 1e-4, f"a part has not moved: {moved}"
        said.append(f"{run} {training_test.expect_weights(adapter_test.flat(got), adapter_test.flat(want), setting.bound):.1e}")
    return f"{len(want)} parts differ by {', '.join(said)}"


def is_torchs(_):
    """torch's own code, which computes in bf16, in f64. Its eps bounds a norm and the post's is added to it, so gradients are large."""
    if not hasattr(torch.optim, "Muon"):
        return f"torch {torch.__version__} has no Muon"
    worst = 0.0
    for nesterov in (True, False):
        for name, (torchs, _) in SCALES.items():
            for size in ((7, 20), (20, 7), (12, 12)):
                draw = torch.Generator().manual_seed(5)
                w = torch.randn(size, generator=draw, dtype=torch.float64)
                theirs, ours = torch.nn.Parameter(w.clone()), Muon(Setting(nesterov, name))
                optimizer = torch.optim.Muon([theirs], lr=LR, weight_decay=DECAY, momentum=MOMENTUM, nesterov=nesterov, adjust_lr_fn=torchs)
                for _ in range(4):
                    g = 1e9 * torch.randn(size, generator=draw, dtype=torch.float64)
                    theirs.grad = g.clone()
                    with mock.patch.object(torch, "bfloat16", torch.float64):
                        optimizer.step()
                    w = ours.step(w, g)
                worst = max(worst, float((theirs.detach() - w).abs().max()))
    assert worst <= training_test.BOUND, f"weights differ by {worst:.1e}"
    return f"weights differ by {worst:.1e}"


def cases():
    yield "torch", is_torchs
    for name in ("gpt2", "mistral", "qwen2-moe"):
        yield name, lambda program, name=name: trains(name, program)
    heads = Setting(nesterov=False, scale="sqrt(out/in)", heads="each", clip=0.3)
    for name in ("gpt2", "qwen3", "mixtral"):
        yield f"{name}-heads", lambda program, name=name: trains(name, program, heads)
    express = Setting(polynomials="polar-express")
    yield "gpt2-polar-express", lambda program: trains("gpt2", program, express)
    each = replace(express, nesterov=False, heads="each")
    yield "qwen3-polar-express-heads", lambda program: trains("qwen3", program, each)
    # parallel.data divides the batch.
    for name, batch, ranks, grid in (("mistral", 6, 6, ["parallel.data=3", "parallel.pipe=2", "zero.stage=1"]),
                                     ("gpt2", 8, 8, ["parallel.data=8", "zero.stage=3"])):
        grids = {f"{ranks} ranks": (ranks, grid)}
        yield f"{name}-{ranks}-ranks", lambda program, name=name, batch=batch, grids=grids: trains(name, program, batch=batch, grids=grids)
    for name in ("gpt2", "qwen3"):
        yield f"{name}-adapters", lambda program, name=name: adapts(name, program)
