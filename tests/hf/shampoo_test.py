"""Shampoo in f64 from an imported model: every weight is that of a torch model, with inverse roots from eigenvalues.

Gupta, Koren, Singer 2018 (arXiv 1802.09568) with moving averages, as docs/optimizers.md describes it. Matrices, AdamW and
grids are those of muon_test.py.
"""
from dataclasses import dataclass

import torch

import muon_test
import training_test
from muon_test import DECAY, MOMENTUM, SCALES

# Terms of the longest sum over rows or columns of a matrix (flavours.py).
TERMS = 88
# Sums that may change L / ||L||: that of the average, and those of a root's four first products. Errors of later products
# count less and less, by 1 / 2.4 each, so that all together are below twice the first.
SUMS = 9


@dataclass
class Setting(muon_test.Setting):
    # Shampoo's momentum adds up steps, so the learning rate is a tenth of Muon's.
    lr: float = 0.002
    beta: float = 0.8
    eps: float = 1e-2
    every: int = 1

    @property
    def bound(self):
        """An error of L / ||L|| changes the power -1/4 of an eigenvalue, which is at least eps, by 1 / (4 eps) times as much.
        The step may lie where both roots are smallest, and errors where both are largest, eps^(-1/4) times as large."""
        root = SUMS * TERMS * 2 ** -53 / (4 * self.eps)
        return (training_test.BOUND + 2 * root) / self.eps ** 0.5

    def matrix(self):
        return Shampoo(self)

    def section(self):
        return f"""
name = "shampoo"
shampoo_beta = {self.beta}
shampoo_eps = {self.eps}
shampoo_every = {self.every}
{self.common()}"""


def inverse_root(a, eps):
    """Returns (a / ||a|| + eps I)^(-1/4). If a is zero, so is a / ||a||."""
    norm = a.norm()
    values, vectors = torch.linalg.eigh(a / norm if norm > 0 else a)
    return vectors * (values + eps) ** -0.25 @ vectors.T


class Shampoo:
    """The optimizer of one matrix."""

    def __init__(self, setting):
        self.setting, self.m, self.left, self.right, self.t = setting, 0, 0, 0, 0

    def step(self, w, g, decay=DECAY):
        s = self.setting
        self.t += 1
        self.left = s.beta * self.left + (1 - s.beta) * g @ g.T
        self.right = s.beta * self.right + (1 - s.beta) * g.T @ g
        if self.t == 1 or self.t % s.every == 0:
            self.roots = inverse_root(self.left, s.eps), inverse_root(self.right, s.eps)
        o = self.roots[0] @ g @ self.roots[1]
        norm = o.norm()
        if norm > 0:  # A zero gradient has a zero step.
            o = o * (min(w.shape) ** 0.5 / norm)
        o = SCALES[s.scale][1](*w.shape) * o
        self.m = MOMENTUM * self.m + o
        step = o + MOMENTUM * self.m if s.nesterov else self.m
        return w - s.lr * (step + decay * w)


def cases():
    heads = {"nesterov": False, "scale": "sqrt(out/in)", "heads": "each", "clip": 0.3}
    for title, name, setting in (("gpt2", "gpt2", Setting()),
                                 ("mistral-every-2", "mistral", Setting(every=2)),
                                 ("qwen3-heads-every-2", "qwen3", Setting(every=2, eps=1e-3, **heads)),
                                 ("qwen2-moe-every-2", "qwen2-moe", Setting(every=2))):
        yield title, lambda program, name=name, setting=setting: muon_test.trains(name, program, setting)
    # The first gradient of each `a` is zero. With every = 3, the second step uses the roots from this zero gradient.
    adapters = Setting(every=3, scale="0.2 sqrt(max(out, in))")
    for name in ("gpt2", "qwen3"):
        yield f"{name}-adapters", lambda program, name=name: muon_test.adapts(name, program, adapters)
