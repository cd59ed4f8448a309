"""Checkpoints of older formats, written by a run of eight steps on two ranks after the fourth.

In format 1, AdamW's arrays are moment1 and moment2, their updates `adam_counts`. Formats 1 and 2 have the model only in the deck.
"""
import shutil
from pathlib import Path

from rows import story

CASES = []


def unpack(at, name="format1"):
    shutil.unpack_archive(Path(__file__).with_name(f"{name}.tar.gz"), at.folder)


@story(CASES, fast=("format1 1", "format2 2"), each=("format1 1", "format1 2", "format2 2"))
def older_format(at, case):
    """a checkpoint of an older format goes on as if it had never stopped, format and ranks"""
    name, ranks = case.split()
    unpack(at, name)
    at("train d.toml --run-dir whole")
    # Format 1 does not say on what machine it was written. Format 2 does, and this may be another one.
    silent = ("another kind of machine",) if name == "format1" else ()
    at("train d.toml --run-dir old --restart latest run.exactness=repeatable", ranks=int(ranks), silent=silent)
    # Another CPU adds up in another order: eight steps apart are within 1e-4 of each other, moments that are lost or counted
    # from 0 change the loss by more than 1e-3.
    whole, again = at.losses("whole"), at.losses("old")
    assert len(whole) == len(again) == 8
    assert max(abs(a - b) for a, b in zip(whole, again)) < 1e-4
    # The older version counted no trained tokens, so their number is unknown for good.
    assert {row["trained_tokens"] for row in at.rows("old")} == {""} and at.rows("whole")[-1]["trained_tokens"] != ""
    assert "did not count trained tokens: the column trained_tokens of history.csv stays empty" in at.read("old/log")
    assert "trained_tokens" not in at.meta("old", 8)["extra"]
    at("report old --output page.html")
    assert '"trained_tokens":null' in at.read("page.html")


@story(CASES, fast=True)
def format1_inspected(at):
    """a checkpoint of format 1 is inspected under its arrays' names"""
    unpack(at)
    at("inspect old --verify", says=("weights", "moment1", "moment2", "every hash is right"))


@story(CASES)
def format1_order(at):
    """an order of few samples that is another now is warned of"""
    unpack(at)
    (at / "few").write_bytes(bytes(2 * 41))
    at("tokenize few --from raw-u16 --vocab 11 --output few.tokens")
    go_on, said = "train d.toml --run-dir old --restart latest data.path=few.tokens ", ("some samples are repeated and others are left out",)
    at(go_on, says=said)
    at(go_on + "train.steps=9", silent=said)
