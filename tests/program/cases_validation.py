"""Sets of validation data: what is evaluated of each, and what a restart does with their tables."""
import math

from fixture import DECK, SECTIONS
from rows import FAIL, story

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
def other_tokens(at):
    """a restart warns if validation data has other tokens under the same path, and not if the same tokens are elsewhere"""
    with_sets(at)
    keys, main = "evaluate.every_steps=2 evaluate.batches=0", "data.validation=late.tokens"
    at.train(f"{keys} {main} train.steps=4")
    kept, late = ((at / f"{name}.tokens").read_bytes() for name in ("more", "late"))
    for name in ("more", "moved"):
        (at / f"{name}.tokens").write_bytes(late)
    at.train(f"{keys} data.validation=moved.tokens train.steps=6 --restart latest", silent=("evaluations of data.validation",),
             says=("warning validation data: later evaluations of more, both-2 are not comparable with earlier ones",))
    at.train(f"{keys} {main} train.steps=8 --restart latest", silent=("not comparable",))
    (at / "late.tokens").write_bytes(kept)
    at.train(f"{keys} {main} train.steps=10 --restart latest", config="data2",
             says=("warning validation data: later evaluations of data.validation, both-2 are not comparable",))


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


WEIGHTED = SECTIONS["sets"].replace('"more"\n', '"more"\nweight = 2\n', 1).replace('"both-2"\n', '"both-2"\nweight = 1\n')
MEAN = f"{KEYS} checkpoint.every_steps=2 checkpoint.keep_last=1 schedule.shape=constant optimizer.lr=0.3"


def means(at, run):
    """The mean of each step, of the sets' own tables."""
    more, both = ({row["step"]: float(row["loss"]) for row in at.rows(run, table(name))} for name in FILES)
    return {step: (2 * more[step] + both[step]) / 3 for step in more if step in both}


def mean_is_right(at, run):
    rows, expected = at.rows(run, table("mean")), means(at, run)
    assert [row["step"] for row in rows] == list(expected), f"{rows} and {expected}"
    for row in rows:
        loss, perplexity = float(row["loss"]), float(row["perplexity"])
        assert abs(loss - expected[row["step"]]) < 1e-12 and abs(perplexity - math.exp(loss)) < 1e-9 * perplexity
    return [float(row["loss"]) for row in rows]


@story(CASES, fast=True)
def mean(at):
    """the weighted mean of validation sets is one more set, which ranks evaluations, too"""
    at.write("deck.toml", DECK + WEIGHTED)
    at.train(f"{MEAN} checkpoint.keep_best=1 evaluate.best_set=mean run.tensorboard=true", says=(r"step 2: validation\[mean\] loss [0-9.]+, perplexity [0-9.]+\n",))
    losses = mean_is_right(at, "run")
    assert len(losses) == 6 and losses.index(min(losses)) < 5, f"{losses} only fall"
    best = 2 * (losses.index(min(losses)) + 1)
    assert best in kept(at, "run"), f"{kept(at, 'run')} without {best}"
    at("export run best --best", says=(f"step-{best:08}",))
    assert f"validation[mean] loss {losses[-1]:.6f}, perplexity " in at("evaluate run").out
    assert "weighted mean of 2 sets" in at("evaluate run", ranks=2).out
    at("report run --output page.html")
    assert '"held_out[mean]"' in at.read("page.html")
    at.train(f"{MEAN} zero.stage=3", config="data2", run="two")
    assert max(abs(a - b) for a, b in zip(losses, mean_is_right(at, "two"), strict=True)) < 1e-4
    assert "evaluations[mean]: 6 steps in common" in at("compare run two").out
    end = next(i for i in range(6) if losses[:i + 1].index(min(losses[:i + 1])) == i - 1)
    at.train(f"{MEAN} evaluate.patience=1 evaluate.best_set=mean", run="patient", says=(rf"step {2 * end + 2}: the run ends, because the validation\[mean\] loss has not improved",))
    at.write("deck.toml", DECK + SECTIONS["sets"])
    at(f"check deck.toml {KEYS} evaluate.best_set=mean", codes=(1,), says=("none of them has a weight",))
    at.write("deck.toml", DECK + SECTIONS["sets"].replace('"more"', '"mean"', 1))
    at("check deck.toml", codes=(1,), says=("reserved for the weighted mean",))


@story(CASES, fast=True)
def mean_restarted(at):
    """a restart completes the mean of validation sets, which never lacks a set"""
    at.write("deck.toml", DECK + WEIGHTED)
    at.train(MEAN)
    tables = {name: at.read(f"run/{table(name)}") for name in (*FILES, "mean")}

    def without(name):
        at.write(f"run/{table(name)}", tables[name][:tables[name].rstrip().rindex("\n") + 1])

    def unchanged():
        assert {name: at.read(f"run/{table(name)}") for name in tables} == tables
    for lost, says, silent in (((), (), (r"validation\[",)),
                               (("mean",), (r"step 12: validation\[mean\] loss",), (r"validation\[more\]", r"validation\[both-2\]")),
                               (("both-2", "mean"), (r"step 12: validation\[both-2\] loss", r"step 12: validation\[mean\] loss"), (r"validation\[more\]",))):
        for name in lost:
            without(name)
        at.train(f"{MEAN} --restart latest", says=says, silent=silent)
        unchanged()
    # Killed as each of the rows of step 6 is written, which is the third of its table.
    for name in tables:
        run = f"killed-{name}"
        at.train(MEAN, run=run, faults=f"write */{run}/{table(name)} 4 SIGKILL", codes=FAIL)
        rows = {n: [row["step"] for row in at.rows(run, table(n))] for n in tables}
        assert rows["mean"] == [step for step in rows["more"] if step in rows["both-2"]][:len(rows["mean"])]
        at.train(f"{MEAN} --restart latest", run=run)
        assert {n: at.read(f"{run}/{table(n)}") for n in tables} == tables, name
    # A restart with other weights: the log says so, and the next rows have them.
    at.write("deck.toml", DECK + WEIGHTED.replace("weight = 2", "weight = 0"))
    at.train(f"{MEAN} train.steps=14 --restart latest", says=("validation.weight: later evaluations of mean are not comparable",))
    assert at.rows("run", table("mean"))[-1]["loss"] == at.rows("run", table("both-2"))[-1]["loss"]


BEST = "data.validation=0.2 evaluate.every_steps=2 evaluate.batches=0 checkpoint.every_steps=2 checkpoint.keep_last=1 schedule.shape=constant optimizer.lr=0.3"


def ranked(at, run, until):
    """Steps up to this one, that of the lowest loss first."""
    rows = [(float(row["loss"]), int(row["step"])) for row in at.rows(run, "evaluation.csv") if int(row["step"]) <= until]
    assert rows != sorted(rows) and rows != sorted(rows, reverse=True), f"losses only rise or fall: {rows}"
    return [step for _, step in sorted(rows)]


def kept(at, run):
    return sorted(int(path.name.split("-")[1]) for path in (at / f"{run}/checkpoints").glob("step-*"))


@story(CASES, fast=True)
def best(at):
    """checkpoint.keep_best keeps the best checkpoints, over a kill, too, and --best finds the best one"""
    at.train(f"{BEST} checkpoint.keep_best=2")
    order = ranked(at, "run", 10)
    assert kept(at, "run") == sorted({*order[:2], 12}), f"{kept(at, 'run')} of {order}"
    at.train(f"{BEST} checkpoint.keep_best=2", run="killed", faults="write */killed/evaluation.csv 5 SIGKILL", codes=FAIL)
    at.train(f"{BEST} checkpoint.keep_best=2 --restart latest", run="killed")
    assert kept(at, "killed") == kept(at, "run")
    assert at.read("killed/evaluation.csv") == at.read("run/evaluation.csv")
    first = next(step for step in ranked(at, "run", 12) if step in kept(at, "run"))
    path = f"run/checkpoints/step-{first:08}"
    at("export run best --best", says=(f"the best checkpoint is {path}, by the loss",))
    at(f"export {path} same")
    assert (at / "best/model.safetensors").read_bytes() == (at / "same/model.safetensors").read_bytes()
    assert f"step {first}:" in at("evaluate run --best").out
    assert f"step {first}:" in at("evaluate run --best", ranks=2).out
    at(f"export {path} none --best", codes=(1,), says=("is not a run directory",))
    # A damaged one is not the best.
    (at / f"{path}/manifest.json").unlink()
    at("export run second --best", says=(f"a checkpoint is not used: .*step-{first:08}",), silent=(f"the best checkpoint is {path}",))
    for key, why in (("checkpoint.keep_best=1 data.validation=0", "the deck has no validation data"), ("checkpoint.keep_best=1 evaluate.every_steps=3", "after the same steps"),
                     ("evaluate.patience=1 evaluate.every_steps=0", "needs evaluations during training"), ("evaluate.best_by=margin", "needs an objective for preference pairs"),
                     ("evaluate.best_set=code", "is not the name")):
        at(f"check deck.toml {key}", codes=(1,), says=(why,))


@story(CASES)
def lost(at):
    """checkpoint.keep_best keeps a checkpoint whose evaluation the table lost"""
    keys = "data.validation=0.2 evaluate.every_steps=1 evaluate.batches=1 checkpoint.every_steps=550 checkpoint.keep_last=1 schedule.shape=constant optimizer.lr=0.1"
    at(f"$TRIREME train deck.toml {keys} checkpoint.keep_best=3 train.steps=1650 --run-dir run > first 2>&1")
    assert kept(at, "run") == [550, 1100, 1650]
    (at / "run/evaluation.csv").unlink()  # a checkpoint carries the newest 1000 rows
    at(f"$TRIREME train deck.toml {keys} checkpoint.keep_best=1 train.steps=2200 --run-dir run --restart latest > second 2>&1")
    assert "evaluation.csv" in at.read("second")
    assert "550" not in [row["step"] for row in at.rows("run", "evaluation.csv")]
    assert 550 in kept(at, "run") and 2200 in kept(at, "run"), kept(at, "run")


@story(CASES, fast=True)
def patience(at):
    """evaluate.patience ends a run that no longer improves, on each grid and for each restart"""
    patient = f"{BEST} evaluate.patience=1 checkpoint.keep_best=1"
    at.train(BEST, run="whole")
    losses = [float(row["loss"]) for row in at.rows("whole", "evaluation.csv")]
    end = next(i for i in range(len(losses)) if losses[:i + 1].index(min(losses[:i + 1])) == i - 1)
    assert 1 <= end < len(losses) - 1, f"{losses} do not show it"
    step = 2 * (end + 1)
    at.train(patient, says=(f"step {step}: the run ends, because the validation loss has not improved for 1 evaluation ",))
    assert len(at.rows("run")) == step and step in kept(at, "run") and step - 2 in kept(at, "run")
    outcome = at.json("run/outcome.json")
    assert outcome["status"] == "done" and outcome["step"] == step and "evaluate.patience" in outcome["exit_reason"]
    at.train(f"{patient} --restart latest", says=("has not improved",))
    assert len(at.rows("run")) == step
    at.train(f"{patient} zero.stage=3", config="data2", run="two", says=(f"step {step}: the run ends",))
    at.train(f"{BEST} --restart latest")
    assert at.losses("run") == at.losses("whole")
    # A run that diverges fails.
    at.train(f"{BEST} evaluate.patience=3 optimizer.lr=10 optimizer.weight_decay=1000 train.steps=40", run="wild", codes=(1,), says=("steps in a row were skipped",))
