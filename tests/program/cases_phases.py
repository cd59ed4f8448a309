"""Which samples a run reads if its data changes ([[phase]]) or if it leaves some out (train.rollback), as docs/token_file.md and docs/decks.md
say it, held to the losses of a model that is known in closed form."""
import json
import math
import random
import re
from datetime import datetime

from cases_packing import BATCH, DECK, SEED, SEPARATOR, T, VOCAB, File, H, loss_of, permuted, shown, text_hash, write_model
from reading import rows_of
from rows import FAIL, story

CASES = []
PHASED = DECK.replace("validation = 0.25", "weights = [3, 1]").replace("lr = 0", "lr = 0\n[checkpoint]\nkeep_last = 0\nevery_steps = 4") + """
[[phase]]
from_step = 5
weights = [1, 2]
[[phase]]
from_step = 11
path = ["c.tokens", "b.tokens"]
weights = [1, 1]
"""


def windows_of(at, run, steps):
    """(file, first token) of the samples of each step, as `samples` lists them."""
    found = []
    for step in steps:
        lines = [json.loads(text) for text in at(f"samples {run} --step {step}").out.splitlines()]
        found.append([(line["file"].split("/")[-1], line["tokens"][0]) for line in lines])
    return found


def own_order(file, number, count):
    """The first tokens of the first `count` windows of a file, in its own epochs."""
    size = (len(file.ids) - 1) // T
    found = []
    for epoch in range(count // size + 1):
        found += [T * w for w in permuted(size, H(text_hash(SEED, "data order"), epoch, number))]
    return found[:count]


def turn(weights, m):
    """The file of sample number m, as its place in the list."""
    w = [max(1, math.floor(x / sum(weights) * 2**40 + 0.5)) for x in weights]
    begin, end = 0, len(w)
    while end - begin > 1:
        middle = (begin + end) // 2
        left, both = sum(w[begin:middle]), sum(w[begin:end])
        before = m * left // both
        if (m + 1) * left // both > before:
            end, m = middle, before
        else:
            begin, m = middle, m - before
    return begin


def held_to_phases(tables, files, numbers, seen, rows, phases):
    """Each file is read in its own order, nothing twice in an epoch and nothing left out, whatever the phases; files take turns in each phase;
    and the losses are those of these samples."""
    for name, file in files.items():
        windows = [first for step in seen for of, first in step if of == name]
        assert windows == own_order(file, numbers[name], len(windows)), (name, windows)
    for begin, end, weights in phases:
        taken = [name for step in seen[begin:end] for name, _ in step]
        assert taken == [list(weights)[turn(list(weights.values()), m)] for m in range(len(taken))], (begin, taken)
    for step, row in zip(seen, rows):
        samples = [[(files[name].ids[i], i - first, files[name].ids[i + 1] if files[name].counts[i + 1] else None, 1) for i in range(first, first + T)]
                   for name, first in step]
        wanted = loss_of(tables, samples)
        assert abs(float(row["loss"]) - wanted) < 1e-6 * wanted, (row["step"], row["loss"], wanted)


@story(CASES, fast=True)
def phases(at):
    """[[phase]] sections take other files and shares, and each file continues where it stopped, over restarts and grids"""
    draw = random.Random(12)
    tables = write_model(at / "hf", draw)
    files = {f"{name}.tokens": File(draw, [draw.choice((5, 9, 20, 31)) for _ in range(n)]) for name, n in (("a", 20), ("b", 9), ("c", 7))}
    for name, file in files.items():
        file.write(at / name)
    numbers = {name: i for i, name in enumerate(files)}
    at.write("deck.toml", PHASED)
    at("import hf base")
    assert "c.tokens (50%), b.tokens (50%)" in at("train deck.toml train.steps=18 --run-dir run").text
    rows = rows_of(at / "run/history.csv")
    seen = windows_of(at, "run", range(1, 19))
    held_to_phases(tables, files, numbers, seen, rows, [(0, 5, {"a.tokens": 3, "b.tokens": 1}), (5, 11, {"a.tokens": 1, "b.tokens": 2}),
                                                       (11, 18, {"c.tokens": 1, "b.tokens": 1})])
    # Each file has its own epochs.
    sizes, taken = {name: (len(file.ids) - 1) // T for name, file in files.items()}, dict.fromkeys(files, 0)
    for line in [json.loads(text) for text in at("samples run --step 1-18").out.splitlines()]:
        name = line["file"].split("/")[-1]
        assert line["epoch"] == taken[name] // sizes[name] + 1, (line, taken)
        taken[name] += 1
    # Stopped in a phase, and continued on two ranks from the middle of the next: nothing changes.
    at("train deck.toml train.steps=7 --run-dir two")
    at("train deck.toml train.steps=18 train.microbatch=1 --run-dir two --restart latest", ranks=3, silent=("not those that the checkpoint",))
    assert [row["tokens"] for row in rows_of(at / "two/history.csv")] == [row["tokens"] for row in rows]
    assert windows_of(at, "two", (1, 6, 8, 12, 18)) == [seen[s - 1] for s in (1, 6, 8, 12, 18)]
    for mine, theirs in zip(rows_of(at / "two/history.csv"), rows):
        assert abs(float(mine["loss"]) - float(theirs["loss"])) < 1e-9
    # `check` counts the samples of each phase, and never files of other phases.
    a, b, c = ((len(file.ids) - 1) // T for file in files.values())
    said = at("check deck.toml train.steps=18").text
    assert "3 data phases" in said and "per epoch" not in said, said
    for line in (f"from step 1: 15 samples from a.tokens (75%), b.tokens (25%); these files contain {a + b} samples",
                 f"from step 6: 18 samples from a.tokens (33.3%), b.tokens (66.7%); these files contain {a + b} samples",
                 f"from step 12: 21 samples from c.tokens (50%), b.tokens (50%); these files contain {c + b} samples"):
        assert line in said, (line, said)
    said = at(f"check deck.toml train.steps=18 train.batch={b + c + 1} train.microbatch=1").text
    assert f"a batch of {b + c + 1} is more than the {b + c} samples in c.tokens (50%), b.tokens (50%), which the run reads from step 12 on" in said, said
    assert said.count("is more than the") == 1, said
    # What is still to come is known before.
    at("train deck.toml train.steps=2 --run-dir early")
    assert windows_of(at, "early", (4, 9, 14)) == [seen[s - 1] for s in (4, 9, 14)]
    for which in ("--step 2-3", "--sample 5-6"):
        at(f"samples early {which}", says=("warning the deck of the run ends with step 2[.]",))
    at("samples early --step 1-2", silent=("the run ends",))
    # A section's first step depends on the batch after the restart: 13 samples after step 4.
    at.write("tokens.toml", PHASED[:PHASED.index("[[phase]]")] + f"[[phase]]\nfrom_tokens = {25 * T}\nweights = [1, 2]\n")
    at("train tokens.toml train.steps=4 --run-dir tokens", says=("section 1 would begin with step 9, but the run has only 4 steps",))
    at("train tokens.toml train.steps=6 train.batch=6 --run-dir tokens --restart latest", says=("section 1 would begin with step 7, but the run has only 6 steps",))
    # A restart may change files, shares and the batch: files continue, too.
    at.write("less.toml", PHASED[:PHASED.index("[[phase]]")].replace('["a.tokens", "b.tokens"]', '["c.tokens", "a.tokens"]').replace("[3, 1]", "[1, 1]"))
    said = at("train less.toml train.steps=24 train.batch=4 --run-dir run --restart run/checkpoints/step-00000008").text
    assert "step 9: the samples now come from c.tokens (50%), a.tokens (50%)" in said, said
    assert "token files are not those" not in said, said
    rows = rows_of(at / "run/history.csv")
    seen = windows_of(at, "run", range(1, 25))
    held_to_phases(tables, files, numbers, seen, rows, [(0, 5, {"a.tokens": 3, "b.tokens": 1}), (8, 24, {"c.tokens": 1, "a.tokens": 1})])
    # With shares, no epoch is that of all files.
    at("train less.toml train.steps=24 --run-dir shares", silent=("epoch . begins",))
    # train.epochs has no meaning, and mistakes are refused before anything runs.
    for old, new, why in (("from_step = 5", "", "section 1 must say when it begins"), ("from_step = 11", "from_step = 5", "section 2 must begin after section 1"),
                          ("from_step = 11", "from_tokens = 500", "use from_step or from_tokens in all of them"), ("weights = [1, 2]", "", "section 1 changes nothing"),
                          ("weights = [3, 1]", "", "need data.weights, because data.path has 2 files"), ("weights = [1, 1]", "", "section 2 has 2 files but no weights"),
                          ("weights = [1, 2]", "weights = [1]", "section 1 has 1 entries, but the phase has 2 files"), ('"c.tokens"', '"b.tokens"', "contains a file twice"),
                          ('"c.tokens"', '"none.tokens"', "none.tokens"), ("[[phase]]", "[phase]", "phase"), ("[[phase]]", "[[data.phase]]", "phase")):
        at.write("wrong.toml", PHASED.replace(old, new, 1))
        at("check wrong.toml train.steps=4", codes=(1,), says=(why,))
    at("check deck.toml train.epochs=1", codes=(1,), says=("train.epochs has no meaning",))


@story(CASES, fast=True)
def rollback(at):
    """train.rollback goes back to the checkpoint before skipped steps and leaves out their samples, on each grid and over restarts"""
    draw = random.Random(13)
    tables = write_model(at / "hf", draw)
    file = File(draw, [400])
    # Samples whose tokens are all improbable: 12 to 20, and 39.
    usual, rare = sorted((i for i in range(VOCAB) if i != SEPARATOR), key=lambda token: loss_of(tables, [[(token, 3, token, 1)]]))[:2]
    odd = max((i for i in range(VOCAB) if i != SEPARATOR), key=lambda token: loss_of(tables, [[(usual, 3, token, 1)]]))
    file.ids = [usual] * (60 * T + 1)
    for n in range(60):  # by which the losses of samples differ
        file.ids[n * T + n % T] = rare
    for first in (*range(12, 21), 39):
        file.ids[first * T:(first + 1) * T] = [usual, odd] * (T // 2)
    file.counts = [1] * len(file.ids)
    file.write(at / "a.tokens")
    at.write("deck.toml", DECK.replace('["a.tokens", "b.tokens"]\nvalidation = 0.25', '"a.tokens"\norder = "sequential"'))
    at("import hf base")
    keys = "train.steps=16 train.skip_above=10 train.skip_window=8 train.max_skipped=9 checkpoint.every_steps=2 checkpoint.keep_last=4 schedule.warmup_steps=0 schedule.min_lr=0"
    at(f"train deck.toml {keys} --run-dir plain", codes=(0, 1))
    assert [int(row["step"]) for row in rows_of(at / "plain/skipped.csv")][:4] == [5, 6, 7, 14], rows_of(at / "plain/skipped.csv")

    def losses(samples):
        return [loss_of(tables, [[(file.ids[i], i - n * T, file.ids[i + 1], 1) for i in range(n * T, n * T + T)] for n in range(first, first + BATCH)]) for first in samples]

    def left_out(run):
        return [",".join(list(row.values())[:4]) for row in rows_of(at / f"{run}/rollbacks.csv")]

    def held(run, samples):
        rows = rows_of(at / f"{run}/history.csv")
        assert [int(row["step"]) for row in rows] == list(range(1, len(samples) + 1))
        for row, wanted in zip(rows, losses(samples)):
            assert abs(float(row["loss"]) - wanted) < 1e-6 * wanted, (run, row["step"], row["loss"], wanted)

    # The steps 5 and 6 are skipped, so the run rolls back to step 4 and goes on with sample 18; then the step of sample 18 is skipped alone.
    said = at(f"train deck.toml {keys} train.rollback=2 --run-dir run", faults="write */run/history.csv 3 sleep:3000").text
    assert "steps 5 to 6 were skipped, so the run rolls back to the checkpoint of step 4 and continues with sample 18. It leaves out 6 samples" in said, said
    samples = [*range(0, 12, BATCH), *range(18, 18 + 12 * BATCH, BATCH)]
    held("run", samples)
    assert left_out("run") == ["4,6,12,6"]
    # The last log line is about the steps after the rollback, also its time: a step before it took 3 s.
    back, end = (datetime.fromisoformat(re.search(rf"^(\S+ \S+) .*{line}", said, re.M)[1]) for line in ("so the run rolls back", " 12 steps in 00:00:"))
    assert int(re.search(r" 12 steps in 00:00:(\d\d), ", said)[1]) <= (end - back).seconds + 1, said
    assert at.json("run/outcome.json")["status"] == "done"
    # The steps that made it roll back stay visible, with the samples that they read; and so does the time that they took.
    skips = [("5", "12"), ("6", "15"), ("5", "18"), ("12", "39")]
    assert [(row["step"], row["first_sample"]) for row in rows_of(at / "run/skipped.csv")] == skips
    assert "to step 4 after step 6, without the samples 12 to 17; skipped steps: 5 (above_limit, samples 12 to 14), 6 (above_limit, samples 15 to 17)" in at("inspect run").out
    assert [(part["first_step"], part["last_step"]) for part in at.json("run/timing.json")["processes"]] == [(0, 6), (4, 16)]
    bad = [json.loads(text) for text in at("samples run --sample 12-19").out.splitlines()]
    assert [(line["sample"], line["step"], line.get("left_out", False)) for line in bad] == [(n, 5 + (n - 12) // 3 % 2, n < 18) for n in range(12, 20)], bad
    assert [line["tokens"][0] for line in bad] == [n * T for n in range(12, 20)]
    # The deck has not changed, so the log says nothing of it again.
    assert said.count("deck changed") == 0 and "has rolled back to" not in said, said
    # Steps that a rollback trained again, and skipped ones, are recognizable.
    assert [line["skipped"] for line in bad] == ["above_limit"] * 8, bad
    said = at("samples run --step 5-6", says=("rolled back from step 6 to step 4. To see the samples that it left out, use --sample 12-17",)).out
    assert [json.loads(text).get("skipped") for text in said.splitlines()] == ["above_limit"] * 3 + [None] * 3, said
    at("samples run --step 7-8", silent=("rolled back",))
    # All three are skipped.
    at(f"train deck.toml {keys} train.rollback=3 --run-dir three")
    samples = [*range(0, 12, BATCH), *range(21, 21 + 12 * BATCH, BATCH)]
    held("three", samples)
    for step in (4, 5, 9, 16):
        assert shown(at(f"samples three --step {step}").out)[0]["sample"] == samples[step - 1]
    listed = [json.loads(text) for text in at("samples three --document a.tokens:0").out.splitlines()]
    assert [(line["step"], line["sample"]) for line in listed] == [(step + 1, first + i) for step, first in enumerate(samples) for i in range(BATCH)]
    # On other grids, and over restarts before and after it, nothing changes.
    at(f"train deck.toml {keys} train.rollback=3 --run-dir grid", ranks=3)
    held("grid", samples)
    at(f"train deck.toml {keys} train.rollback=3 train.steps=6 --run-dir cut", codes=(0,))
    at(f"train deck.toml {keys} train.rollback=3 --run-dir cut --restart latest", ranks=3)
    held("cut", samples)
    at(f"train deck.toml {keys} train.rollback=3 --run-dir cut --restart latest train.steps=17")
    assert left_out("cut") == ["4,7,12,9"]
    # A restart in another directory, from the checkpoint that it rolled back to and from a later one.
    at(f"train deck.toml {keys} train.rollback=3 checkpoint.keep_last=0 --run-dir kept")
    wanted = at.losses("three")
    for first in (4, 8):
        at(f"train deck.toml {keys} train.rollback=3 --run-dir from{first} --restart kept/checkpoints/step-{first:08}")
        assert at.losses(f"from{first}") == wanted[first:]
    # The rollback of the other run does not count there.
    at(f"train deck.toml {keys} train.rollback=1 train.max_rollbacks=1 --run-dir own --restart kept/checkpoints/step-00000004")
    assert left_out("own") == ["10,11,39,3"]
    at(f"train deck.toml {keys} train.rollback=3 data.order=random train.steps=5 --run-dir other --restart kept/checkpoints/step-00000004",
       says=("from sample 21 on, samples come in random order",))
    # The checkpoints may be on another disk.
    at(f"mkdir disk linked; ln -s $PWD/disk linked/checkpoints; $TRIREME train deck.toml {keys} train.rollback=3 --run-dir linked")
    held("linked", samples)
    assert left_out("linked") == ["4,7,12,9"]
    # A restart from a checkpoint that a rollback has set aside undoes the rollback.
    at(f"train deck.toml {keys} train.rollback=3 checkpoint.keep_last=0 train.steps=5 --run-dir aside")
    at(f"train deck.toml {keys} train.rollback=3 checkpoint.keep_last=0 --run-dir aside --restart latest")
    assert left_out("aside") == ["4,7,12,9"]
    at(f"train deck.toml {keys} train.rollback=2 checkpoint.keep_last=0 --run-dir aside --restart aside/checkpoints/left-step-00000005")
    assert left_out("aside") == ["4,6,12,6"]
    assert [(row["step"], row["first_sample"]) for row in rows_of(at / "aside/skipped.csv")] == skips
    # A replay from the beginning rolls back, too.
    said = at("cp -r three altered; sed -i '7s/,\\([^,]*\\),[^,]*/,\\1,9/' altered/history.csv; $TRIREME compare three altered", codes=(1,)).text
    assert "replay of A, steps 1 to 6 on one rank: bitwise equal to its record in 6 steps" in said, said
    # Killed when it has just rolled back: the next start goes on there.
    at(f"train deck.toml {keys} train.rollback=3 --run-dir killed", faults="write */killed/history.csv 9 SIGKILL", codes=FAIL)
    at(f"train deck.toml {keys} train.rollback=3 --run-dir killed --restart latest")
    held("killed", samples)
    assert at.read("killed/skipped.csv") == at.read("three/skipped.csv") and "7,above_limit" in at.read("three/skipped.csv")
    # At most as often as the deck says; and only to a checkpoint that exists.
    at(f"train deck.toml {keys} train.rollback=1 train.max_rollbacks=2 --run-dir often", codes=(0,), says=("done so 2 times",))
    assert len(rows_of(at / "often/rollbacks.csv")) == 2
    at(f"train deck.toml {keys} train.rollback=3 checkpoint.every_steps=6 --run-dir none", says=("cannot roll back .*exists up to step 4",))
    at(f"check deck.toml {keys} train.rollback=10", codes=(1,), says=("is above train.max_skipped",))
    at(f"check deck.toml {keys} train.rollback=1 checkpoint.every_steps=0", codes=(1,), says=("at multiples of checkpoint.every_steps, which is 0",))
    # Only damaged checkpoints are left to which it may roll back. A later one is intact.
    at(f"train deck.toml {keys} train.rollback=3 checkpoint.keep_last=0 train.steps=5 --run-dir harmed")
    for step in (2, 4):
        shard = at / f"harmed/checkpoints/step-{step:08}/rank-00000.h5"
        whole = bytearray(shard.read_bytes())
        whole[len(whole) // 2] ^= 16
        shard.write_bytes(whole)
    at(f"train deck.toml {keys} train.rollback=3 checkpoint.keep_last=0 --run-dir harmed --restart latest", codes=(1,),
       says=("train.rollback: all checkpoints in .* up to step 4 at multiples of checkpoint.every_steps are damaged",), silent=("--overwrite",))
    # A restart with other keys that rolls back names them once.
    at(f"train deck.toml {keys} train.rollback=3 train.steps=4 --run-dir changed")
    said = at(f"train deck.toml {keys} train.rollback=3 optimizer.clip=3 'train.skip_steps=[\"14\"]' --run-dir changed --restart latest").text
    assert "rolls back to the checkpoint of step 4" in said and said.count("deck changed: optimizer.clip") == 1 == said.count("warning optimizer.clip"), said
    assert shown(at("samples changed --step 14").out)[0]["skipped"] == "skip_steps"
    # A damaged table is not ignored, and a new run has none.
    at("echo 4,7 >> three/rollbacks.csv; $TRIREME train deck.toml train.steps=17 --run-dir three --restart latest", codes=(1,), says=("rollbacks.csv is damaged",))
    at(f"train deck.toml {keys} train.steps=2 --run-dir three --overwrite")
    assert not (at / "three/rollbacks.csv").exists()


@story(CASES, fast=True)
def decks_of_the_past(at):
    """`samples` shows what each past step has read, also if restarts changed the data and no checkpoint before them is left"""
    draw = random.Random(15)
    tables = write_model(at / "hf", draw)
    files = {f"{name}.tokens": File(draw, [draw.choice((5, 9, 20, 31)) for _ in range(n)]) for name, n in (("a", 20), ("b", 9), ("c", 7))}
    for name, file in files.items():
        file.write(at / name)
    at.write("deck.toml", DECK.replace("validation = 0.25", "weights = [3, 1]") + "[checkpoint]\nevery_steps = 2\nkeep_last = 1\n")
    at("import hf base")

    def held(run, first, count, losses=None):
        """The samples that are listed have the losses that the run has recorded."""
        losses = losses or at.losses(run)
        lines = [json.loads(text) for text in at(f"samples {run} --step {first}-{first + count - 1}").out.splitlines()]
        for step, loss in zip(range(first, first + count), losses[-count:]):
            windows = [(files[line["file"].split("/")[-1]], line["tokens"][0]) for line in lines if line["step"] == step]
            wanted = loss_of(tables, [[(f.ids[i], i - begin, f.ids[i + 1] if f.counts[i + 1] else None, 1) for i in range(begin, begin + T)] for f, begin in windows])
            assert abs(float(loss) - wanted) < 1e-6 * wanted, (run, step, loss, wanted)
        return lines

    # Each start has another seed, batch, order or files; that of step 9 goes back before the one of step 7.
    at("train deck.toml train.steps=4 --run-dir run")
    early = held("run", 1, 4)
    at("train deck.toml train.steps=6 train.seed=4 train.batch=4 --run-dir run --restart latest", ranks=2)
    at("train deck.toml train.steps=9 data.order=sequential --run-dir run --restart latest")
    at("train deck.toml train.steps=10 'data.path=[\"c.tokens\",\"a.tokens\"]' 'data.weights=[1,1]' train.batch=6 --run-dir run --restart latest")
    lines = held("run", 1, 10)
    assert len([p for p in (at / "run/checkpoints").iterdir()]) == 1 and lines[:len(early)] == early
    assert [line["sample"] for line in lines] == list(range(4 * 3 + 2 * 4 + 3 * 3 + 6))
    # By numbers of samples and by documents, the answers agree.
    assert [json.loads(text) for text in at("samples run --sample 5-30").out.splitlines()] == lines[5:31]
    for name in files:
        listed = [json.loads(text) for text in at(f"samples run --document {name}:4").out.splitlines()]
        assert [line for line in listed if line["step"] <= 10] == [x for x in lines if x["file"].endswith(name) and x["documents"][0] <= 4 <= x["documents"][1]]
    # In another directory, and where an earlier version has recorded nothing, what is unknown is said.
    at("train deck.toml train.steps=12 --run-dir on --restart run")
    held("on", 11, 2)
    at("samples on --step 10", codes=(1,), says=("look for step 10 in the run that it continues",))
    at("mv run/starts.json starts.json; $TRIREME samples run --step 10", codes=(1,), says=("does not contain the decks", "the data of the steps 1 to 10 is unknown"))
    at("samples run --step 11", says=("warning .*does not contain the decks",))
    at("train deck.toml train.steps=12 --run-dir run --restart latest")
    held("run", 11, 2)
    at("samples run --step 3", codes=(1,), says=("the data of the steps 1 to 10 is unknown",))
    # Another file with the same path is not shown as if it had been read.
    at("cp b.tokens kept.tokens; cp c.tokens b.tokens; $TRIREME samples run --step 12", codes=(1,), says=("steps from 11 on read other token files than those that are now in",))
    at("cp kept.tokens b.tokens; echo x > run/starts.json; $TRIREME samples run --step 12", codes=(1,), says=("starts.json is damaged",))
    # A new run in the directory knows nothing of the old one.
    at("train deck.toml train.steps=2 train.seed=9 --run-dir run --overwrite")
    held("run", 1, 2)
    for wrong in ("0", "3-2", "x", "3-", "-3", "1-2-3"):
        at(f"samples run --step={wrong}", codes=(106, 105, 2), says=("is neither a number from 1 on",))


ROLLBACKS = "train.skip_above=10 train.skip_window=8 train.max_skipped=9 schedule.warmup_steps=0 schedule.min_lr=0"


def even(masked, usual, rare):
    """A file of 60 samples whose losses are much alike. Those in `masked` have no targets, so steps of them alone are skipped."""
    file = File(random.Random(1), [1])
    file.ids = [usual] * (60 * T + 1)
    for n in range(60):
        file.ids[n * T + n % T] = rare
    file.counts = [int((i - 1) // T not in masked) for i in range(len(file.ids))]
    return file


@story(CASES, fast=True)
def rolled_back(at):
    """train.rollback to before the start of a phase reads no sample twice and loses none, and a restart after phases keeps the window"""
    draw = random.Random(14)
    tables = write_model(at / "hf", draw)
    files = {"a.tokens": even((), 1, 2), "b.tokens": even(range(6), 2, 3)}
    for name, file in files.items():
        file.write(at / name)
    at.write("deck.toml", DECK.replace('["a.tokens", "b.tokens"]\nvalidation = 0.25', '"a.tokens"\norder = "sequential"') +
             '[checkpoint]\nevery_steps = 4\nkeep_last = 0\n[[phase]]\nfrom_step = 6\npath = "b.tokens"\n')
    at("import hf base")
    at(f"train deck.toml {ROLLBACKS} train.rollback=2 train.steps=14 --run-dir run")
    assert [row["step"] + " " + row["last_skipped"] for row in rows_of(at / "run/rollbacks.csv")] == ["4 8"]

    def expected():
        """Steps 1 to 4, and what follows the six samples of `a` and the six of `b` that the run had read."""
        yield from ([("a.tokens", T * (BATCH * n + i)) for i in range(BATCH)] for n in (0, 1, 2, 3, 6, 7))
        yield from ([("b.tokens", T * (6 + BATCH * n + i)) for i in range(BATCH)] for n in range(8))

    def held(run):
        seen = windows_of(at, run, range(1, 15))
        assert seen == list(expected()), (run, seen)
        for step, row in zip(seen, rows_of(at / f"{run}/history.csv")):
            wanted = loss_of(tables, [[(files[name].ids[i], i - first, files[name].ids[i + 1], 1) for i in range(first, first + T)] for name, first in step])
            assert abs(float(row["loss"]) - wanted) < 1e-6 * wanted, (run, row, wanted)

    held("run")
    window = at.meta("run", 14)["extra"]["usual_steps"]
    at(f"train deck.toml {ROLLBACKS} train.rollback=2 train.steps=14 --run-dir run --restart run/checkpoints/step-00000004")
    held("run")
    # The window of skip_above survives restarts after the phase began.
    for first in (8, 12):
        at(f"train deck.toml {ROLLBACKS} train.rollback=2 train.steps=14 --run-dir later{first} --restart run/checkpoints/step-{first:08}")
        assert at.meta(f"later{first}", 14)["extra"]["usual_steps"] == window, first
    at(f"train deck.toml {ROLLBACKS} train.rollback=2 train.steps=14 --run-dir run --restart run/checkpoints/step-00000012", ranks=3)
    held("run")
    # Two paths of one file are refused.
    at("ln -s a.tokens link.tokens; $TRIREME check deck.toml train.steps=4; sed -i 's/b.tokens/link.tokens/' deck.toml; $TRIREME check deck.toml train.steps=4",
       codes=(1,), says=("are the same file",))


@story(CASES, each=("write */run/history.csv 6 SIGKILL", "write */run/history.csv 12 SIGKILL", "write *00012.partial/rank-00000.h5 1 SIGKILL",
                    "rename *step-00000012 1 SIGKILL", "write */run/history.csv 14 SIGKILL"))
def killed(at, fault):
    """a run that is killed at the border of a phase continues as if it had not been"""
    draw = random.Random(12)
    write_model(at / "hf", draw)
    for name, n in (("a", 20), ("b", 9), ("c", 7)):
        File(draw, [draw.choice((5, 9, 20, 31)) for _ in range(n)]).write(at / f"{name}.tokens")
    at.write("deck.toml", PHASED)
    at("import hf base")
    at("train deck.toml train.steps=16 --run-dir whole")
    at("train deck.toml train.steps=16 --run-dir run", faults=fault, codes=FAIL)
    at("train deck.toml train.steps=16 --run-dir run --restart latest --or-start")
    assert at.losses("run") == at.losses("whole")
    assert windows_of(at, "run", range(1, 17)) == windows_of(at, "whole", range(1, 17))
    # A deck that still lacks the phases when the run stops, and has them when it continues.
    at.write("plain.toml", PHASED[:PHASED.index("[[phase]]")])
    at("train plain.toml train.steps=4 --run-dir late")
    at("train deck.toml train.steps=16 --run-dir late --restart latest")
    assert at.losses("late") == at.losses("whole")
