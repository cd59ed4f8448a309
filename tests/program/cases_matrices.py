"""States of optimizers that update whole matrices, compared."""
import json

from rows import story

CASES = []
SQUARES = "optimizer.name=shampoo optimizer.shampoo_every=1 train.steps=2 checkpoint.every_steps=2"


def of_heads(at):
    """Trains with one matrix for all heads, and with one for each head: the square arrays of qkv have different shapes."""
    for heads in ("together", "each"):
        at.train(f"{SQUARES} optimizer.matrix_heads={heads}", run=heads)


@story(CASES, fast=True)
def squares(at):
    """states whose square arrays have different shapes are compared"""
    of_heads(at)
    for one, other in (("together", "each"), ("each", "together")):
        said = json.loads(at(f"compare {one} {other} --no-replay --json", codes=(1,)).out)
        differ = {}
        for d in said["compared"][0]["differ"]:
            differ.setdefault((d["array"], d["parameter"]), []).append(d.get("only_in", ""))
        for block in (0, 1):
            for array in ("left", "left_root", "right", "right_root"):
                assert differ.pop((array, f"blocks.{block}.qkv.weight")) == ["A", "B"], array
                for product in ("projection", "ffn_in", "ffn_out"):
                    assert differ[array, f"blocks.{block}.{product}.weight"] == [""], (array, product)
            assert differ["momentum", f"blocks.{block}.qkv.weight"] == [""]
        assert set(map(tuple, differ.values())) == {("",)}, differ
        assert "verdict: they differ\n" in at(f"compare {one} {other} --no-replay", codes=(1,)).out
    assert "verdict: equal in everything" in at("compare together together --no-replay").out


@story(CASES, fast=True)
def replayed_squares(at):
    """states whose square arrays have different shapes are compared after replays"""
    of_heads(at)
    for one, other in (("together", "each"), ("each", "together")):
        said = at(f"compare {one} {other}", codes=(1,), says=("replay of A, ", "replay of B, ")).out
        assert "verdict: they differ\n" in said
