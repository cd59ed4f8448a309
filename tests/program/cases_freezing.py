"""Freeze rules, and restarts that change them."""
import shutil

from fixture import DECK, freeze_rule
from rows import story

CASES = []


def whole_and_cut(at, whole, cut, then):
    """A run by the rules `whole`, and one by the rules `cut` that from step 4 on is by `then`: the same."""
    for name, rules in (("whole", whole), ("cut", cut), ("then", then)):
        at.write(f"{name}.toml", DECK + rules)
    for name in ("whole", "cut"):
        at(f"train {name}.toml --overwrite --run-dir {name}")
    for step in (8, 12):
        shutil.rmtree(at / f"cut/checkpoints/step-{step:08}")
    at("train then.toml --run-dir cut --restart latest")
    at.same("cut", "whole")


@story(CASES, fast=True)
def new_rules(at):
    """a restart takes up freeze rules that are new"""
    rules = freeze_rule("blocks.0.*", 4, 8, "fresh") + freeze_rule("*norm*", 4, 8, "keep")
    whole_and_cut(at, rules, "", rules)
    assert at.meta("cut", 12)["updates"]["blocks.0.qkv.weight"] == 4  # those behind its thaw


@story(CASES, each=("*norm*", "*.qkv.*"))
def old_rules(at, pattern):
    """a restart goes on without freeze rules that are gone"""
    whole_and_cut(at, freeze_rule(pattern, 0, 4, "keep"), freeze_rule(pattern, 0, 0, "keep"), "")


@story(CASES, fast=True)
def less_memory(at):
    """a restart takes no memory for moments that are dropped"""
    at.write("frozen.toml", DECK + freeze_rule("embedding.*", 0, 0, "fresh"))
    at.take("one", "cut", "cut")
    at("train frozen.toml --run-dir frozen")
    at("train frozen.toml --run-dir cut --restart latest")
    at.take("one", run="plain")
    cut, frozen, plain = (int(at.rows(run)[-1]["bytes_peak"]) for run in ("cut", "frozen", "plain"))
    assert cut == frozen < plain


@story(CASES, fast=True)
def frozen_steps(at):
    """steps of freeze rules count from 0, those of the history from 1"""
    at.write("freeze.toml", DECK + freeze_rule("*", 3, 5, "fresh"))
    at("train freeze.toml --run-dir run", silent=("stalled",))
    assert [int(row["step"]) for row in at.rows("run") if float(row["grad_norm"]) == 0] == [4, 5]
