"""Steps that are skipped: because they are not finite, have no targets, are far above the others, or are named."""
import re

from fixture import DECK
from rows import Case, Run, story

FAILED = "grep -q '\"failed\"' run/outcome.json"
WILD = "optimizer.lr=1000 schedule.shape=constant checkpoint.every_steps=0 "  # decay by a factor of -99 a step: beyond f32 after 20

CASES = [
    Case("steps that are not finite stop the run", [Run(WILD + "train.steps=50", codes=(1,), says=("5 steps in a row were skipped, the last at step ",),
                                                       then=FAILED)], finish=""),
]


@story(CASES, fast=True)
def across_restarts(at):
    """steps that are not finite are counted across a restart"""
    def last(more, run):
        said = at.train(f"{WILD} {more}", run=run, codes=(1,)).text
        return int(re.search(r"5 steps in a row were skipped, the last at step (\d+)", said)[1])
    end = last("train.steps=50", "whole")
    at.train(f"{WILD} train.steps={end - 2}", codes=(1,), says=(f"step {end - 2}, the last: the validation loss is .*[.] Once the cause is corrected",))
    assert last("train.steps=50 --restart latest", "run") == end


@story(CASES, fast=True)
def masks(at):
    """steps without targets stop the run as others that are skipped, and count in no rate"""
    sequential = "data.path=masked.tokens data.order=sequential data.validation=0"
    for masked, codes in ((1000, (1,)), (100, (0,))):  # a step is 4 samples of 8 tokens
        at.write("chat.jsonl", '{"p": "%s", "c": "%s"}' % (("abcdefg" * masked)[:masked], "hijkl" * 200))
        at("tokenize chat.jsonl --prompt p --completion c --overwrite --output masked.tokens")
        said = at.train(f"{sequential} --overwrite", codes=codes).text
        assert ("5 steps in a row were skipped, the last at step 5 because all of its targets are masked" in said) == (masked == 1000)
    assert [row["tokens_per_second"] == "nan" for row in at.rows("run")] == 3 * [True] + 9 * [False]
    assert at.json("run/timing.json")["processes"][0]["tokens"] == (12 - 3) * 32


def skipped(at, run):
    return {int(row["step"]): row["reason"] for row in at.rows(run, "skipped.csv")} if (at / f"{run}/skipped.csv").exists() else {}


@story(CASES, fast=True)
def steps_far_above(at):
    """train.skip_above skips the steps that their history says, over restarts and on grids, and train.skip_steps its own"""
    keys = "train.skip_above=1.5 train.skip_window=8 train.max_skipped=24 schedule.shape=constant train.steps=24"
    at.train(keys)
    rows, known, wanted = at.rows("run"), [], {}
    for row in rows:
        now = float(row["loss"]), float(row["grad_norm"])
        above = False
        for past, x in zip(zip(*known[-8:]), now):
            mean = sum(past) / len(past)
            above |= len(past) >= 4 and x > mean + 1.5 * (sum((y - mean) ** 2 for y in past) / (len(past) - 1)) ** 0.5
        if above:
            wanted[int(row["step"])] = "above_limit"
        else:
            known.append(now)
    assert 1 <= len(wanted) <= 12 and skipped(at, "run") == wanted, (skipped(at, "run"), wanted)
    for row in at.rows("run", "skipped.csv"):
        assert (row["first_sample"], row["samples"]) == (str(4 * (int(row["step"]) - 1)), "4")
    assert at.meta("run", 24)["skipped"] == sorted(wanted)
    # Restarted in the midst: the same decisions, and the same table.
    at.train(f"{keys} train.steps=16", run="cut")
    at.train(f"{keys} --restart latest", run="cut")
    assert at.read("cut/skipped.csv") == at.read("run/skipped.csv") and at.losses("cut") == at.losses("run")
    at.train(f"{keys} --restart cut/checkpoints/step-00000004", run="cut")
    assert at.read("cut/skipped.csv") == at.read("run/skipped.csv")
    at.train(f"{keys} zero.stage=3", config="data2", run="two")
    assert skipped(at, "two") == wanted
    assert "bitwise equal" in at("compare run cut").out or "equal" in at("compare run cut").out
    # Steps of the deck: their samples are not used, so the weights are those before them.
    at.train('\'train.skip_steps=["3","5-6"]\' train.steps=8 checkpoint.every_steps=1', run="named", says=("step 5 is skipped: train.skip_steps contains it",))
    assert skipped(at, "named") == {3: "skip_steps", 5: "skip_steps", 6: "skip_steps"}
    assert [row["step"] for row in at.rows("named") if row["loss"] == "nan"] == ["3", "5", "6"]
    at("export named/checkpoints/step-00000004 four")
    at("export named/checkpoints/step-00000006 six")
    assert (at / "four/model.safetensors").read_bytes() == (at / "six/model.safetensors").read_bytes()
    at.train('\'train.skip_steps=["1-7"]\' train.steps=8', run="most")
    assert len(skipped(at, "most")) == 7
    at("check deck.toml 'train.skip_steps=[\"5-4\"]'", codes=(1,), says=("neither a step",))
    at("train deck.toml train.steps=2 --run-dir run --overwrite")
    assert not (at / "run/skipped.csv").exists()
    # A restart in another directory keeps the window. A [[freeze]] border empties it.
    at.train(f"{keys} --restart cut/checkpoints/step-00000012 checkpoint.every_steps=2", run="moved")
    late = {step: why for step, why in wanted.items() if step > 12}
    assert skipped(at, "moved") == late
    at.train(f"{keys} --restart moved/checkpoints/step-00000018 checkpoint.every_steps=2", run="moved")
    assert skipped(at, "moved") == late
    at.write("deck.toml", DECK + '[[freeze]]\npattern = "blocks.*"\nto_step = 20\n')
    at.train("train.skip_above=6 train.skip_window=16 train.steps=40", run="thawed")
    assert all(step <= 20 or step > 28 for step in skipped(at, "thawed"))
