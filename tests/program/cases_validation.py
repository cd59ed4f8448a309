"""Sets of validation data: what is evaluated of each, and what a restart does with their tables."""
from fixture import DECK, SECTIONS
from rows import story

CASES = []

FILES = {"more": "more.tokens", "both-2": "late.tokens,more.tokens"}
KEYS = "data.validation=[] evaluate.every_steps=2 evaluate.batches=0"


def table(name):
    return f"evaluations/{name}.csv"


def with_sets(at):
    at.write("deck.toml", DECK + SECTIONS["sets"])


@story(CASES, fast=True)
def apart(at):
    """each validation set has the table that it has alone, on each grid"""
    with_sets(at)
    at("check deck.toml")
    at.train(KEYS, says=(r"step 2: validation\[more\] loss [0-9.]+, perplexity ", r"step 12: validation\[both-2\] loss "), silent=("validation loss",))
    assert not (at / "run/evaluation.csv").exists()
    at.write("deck.toml", DECK)
    for name, files in FILES.items():
        at.train(f"{KEYS} data.validation=[{files}] --overwrite", run="alone")
        assert at.read("alone/evaluation.csv") == at.read(f"run/{table(name)}"), name
        assert at("evaluate alone").out.split("step 12: ")[1].split("\n")[0] in at("evaluate run").out
    at.write("deck.toml", DECK + SECTIONS["sets"])
    at.train("evaluate.every_steps=6", run="beside", says=(r"step 6: validation loss ", r"step 6: validation\[more\] loss "))
    assert [len(at.rows("beside", t)) for t in ("evaluation.csv", *map(table, FILES))] == [2, 2, 2]
    said = at("evaluate beside --samples 4").out
    assert said.index("step 12: loss") < said.index("step 12: validation[more] loss") < said.index("step 12: validation[both-2] loss")
    at.train(f"{KEYS} zero.stage=3", config="data2", run="two")
    for name in FILES:
        for one, two in zip(at.losses("run", table(name)), at.losses("two", table(name)), strict=True):
            assert abs(one - two) < 1e-5 * one
    said = at("compare run two").out
    assert "evaluations[more]: 6 steps in common" in said and "evaluations[both-2]: 6 steps in common" in said, said
    at("report run two --output page.html")
    assert '"held_out[more]"' in at.read("page.html")


@story(CASES, fast=True)
def restarted(at):
    """a restart evaluates the sets that have no row, and restores lost tables of sets from the checkpoint"""
    with_sets(at)
    at.train(KEYS)
    tables = {name: at.read(f"run/{table(name)}") for name in FILES}
    assert len(at.rows("run", table("more"))) == 6

    def unchanged():
        assert {name: at.read(f"run/{table(name)}") for name in FILES} == tables
    # As after a process that ended between the evaluations of two sets.
    at.write(f"run/{table('both-2')}", tables["both-2"][:tables["both-2"].rstrip().rindex("\n") + 1])
    at.train(f"{KEYS} --restart latest", says=(r"step 12: validation\[both-2\] loss",), silent=(r"validation\[more\] loss",))
    unchanged()
    # From an earlier checkpoint: rows behind it go, and lost ones come back.
    (at / f"run/{table('more')}").unlink()
    at.write(f"run/{table('both-2')}", "\0" * 20 + "\n")  # as after a power failure
    at.train(f"{KEYS} --restart run/checkpoints/step-00000008", says=("evaluations/both-2.csv",))
    unchanged()
    assert (at / f"run/{table('both-2')}.damaged").exists()
    # A set that is left out for a while: its table has no rows of steps that were computed again without it.
    for name in FILES:
        at.write(f"old.{name}", at.read(f"run/{table(name)}"))
    at.write("deck.toml", DECK + SECTIONS["sets"].replace('"more"', '"new"'))
    at.train(f"{KEYS} optimizer.lr=1e-2 train.steps=6 --restart run/checkpoints/step-00000004", run="run")
    assert [row["step"] for row in at.rows("run", table("more"))] == ["2", "4"]
    at.write("deck.toml", DECK + SECTIONS["sets"])
    (at / f"run/{table('more')}").unlink()  # its rows are in the checkpoint all the same
    at.train(f"{KEYS} optimizer.lr=1e-2 train.steps=8 --restart latest")
    assert [row["step"] for row in at.rows("run", table("more"))] == ["2", "4", "6", "8"]
    assert at.rows("run", table("more"))[-1]["loss"] != at.rows(".", "old.more")[3]["loss"]
    at.train(f"{KEYS} --restart run/checkpoints/step-00000004")
    # Other sets: the table of a new one begins with its first evaluation.
    at.write("deck.toml", DECK + SECTIONS["sets"].replace('"more"', '"new"'))
    at.train(f"{KEYS} train.steps=14 --restart latest")
    assert [row["step"] for row in at.rows("run", table("new"))] == ["4", "12", "14"]
    assert len(at.rows("run", table("both-2"))) == 7 and at.read(f"run/{table('more')}") == tables["more"]
    at.write("deck.toml", DECK)
    at.train("train.steps=2 --overwrite")
    assert not (at / "run/evaluations").exists()
    # Files of the user stay.
    at.write("run/evaluation.notes.csv", "mine\n")
    at.train("train.steps=3 --restart latest")
    at.train("train.steps=2 --overwrite")
    assert at.read("run/evaluation.notes.csv") == "mine\n"


@story(CASES, fast=True)
def refused(at):
    """validation sets with mistakes"""
    with_sets(at)
    for old, new, why in (('"more"', '"a/b"', r"deck.toml:37:8: the name of ..validation.. set 1 is \"a/b\"; give a name"), ('"more"', '"both-2"', "two ..validation.. sets have the name"),
                          ('"more.tokens"', '"text.tokens"', "contains a file that is also in data.path"), ('"more.tokens"', "[]", "has no path"),
                          ('"more.tokens"', '"none.tokens"', "none.tokens"), ("name =", "nam =", "there is no key 'nam' in ..validation..; did you mean 'name'"), ('name = "more"\n', "", "name")):
        at.write("deck.toml", DECK + SECTIONS["sets"].replace(old, new, 1))
        at("check deck.toml", codes=(1,), says=(why,))
        at("train deck.toml --run-dir run", codes=(1,), says=(why,))
        assert not (at / "run").exists()
