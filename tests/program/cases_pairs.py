"""Pairs of answers: preference training, scores of a fixed model, and what measures them."""
import math
import re
import shutil
import subprocess

from fixture import DOCUMENTS
from reading import loss_of
from rows import REFUSED, story

CASES = []


def losses_in(scores, n):
    """of each document of the n-th token file, as another program reads them"""
    said = subprocess.run(["h5dump", "-y", "-w", "1", "-m", "%.17g", "-d", f"/files/{n}/loss", scores], check=True, capture_output=True, text=True).stdout
    return [float(x) for x in said[said.index("DATA {") + 6:].replace("}", " ").replace(",", " ").split()]


def measured_as(row):
    """what `evaluate` says of pairs that are in this row of evaluation.csv"""
    loss, margin, accuracy, chosen, rejected = (float(row[c]) for c in ("loss", "margin", "accuracy", "reward_chosen", "reward_rejected"))
    return f"loss {loss:.6f}, margin {margin:.4f} accuracy {accuracy:.3f} rewards {chosen:.4f} (chosen) and {rejected:.4f} (rejected)"


@story(CASES, fast=True)
def preferences(at):
    """pairs of answers: a run takes what was planned, a restart has the bits of one run, and what is no pair is refused"""
    at.take("one", run="base")
    for name, sums in (("pairs", range(1, 8)), ("held", range(8, 10))):
        at.write(f"{name}.jsonl", "".join(f'{{"prompt": "{a}{b}", "chosen": "{a}", "rejected": "x"}}\n' for a in sums for b in range(1, 8)))
        at(f"tokenize {name}.jsonl --preference --output {name}.tokens")
    words = (f"model.init_from=base adapter.rank=2 {DOCUMENTS} train.objective=dpo "
             "data.path=pairs.tokens data.validation=[held.tokens] evaluate.batches=0 checkpoint.keep_last=0")
    said = at.train(f"{words} train.microbatch=1", run="whole").text
    assert "validation loss" in said and "perplexity" not in said and "accuracy" in at.read("whole/log")
    rows = at.rows("whole")
    assert abs(float(rows[0]["loss"]) - math.log(2)) < 1e-6 and float(rows[0]["margin"]) == float(rows[0]["reward_chosen"]) == 0
    for row in rows:
        assert abs(float(row["margin"]) - float(row["reward_chosen"]) + float(row["reward_rejected"])) < 1e-9 and 0 <= float(row["accuracy"]) <= 1
    assert [at.plan(f"deck.toml {words} train.microbatch=1")["reserved_bytes"]] == [
        int(n) for n in re.search(r"bytes by rank: ([\d ]+)", at.read("whole/log"))[1].split()]
    at.train(f"{words} train.microbatch=1 --restart whole/checkpoints/step-00000004", run="rest")
    assert at.losses("rest") == at.losses("whole")[4:]
    held = at.rows("whole", "evaluation.csv")[-1]
    assert held["perplexity"] == "" and measured_as(held) in at("evaluate whole").out and measured_as(held) in at("evaluate whole", ranks=2).out
    assert abs(float(held["margin"]) - float(held["reward_chosen"]) + float(held["reward_rejected"])) < 1e-9 and float(held["accuracy"]) * 14 % 1 == 0
    assert "perplexity" in at("evaluate whole --data text.tokens --samples 4").out
    for more, why in (("train.objective=tokens", r"contains preference pairs, which train.objective = \"tokens\" cannot train on: set train.objective = \"dpo\""),
                      ("data.path=text.tokens data.validation=[]", "contains none. Create them with `trireme tokenize --preference`"),
                      ("adapter.rank=0", "set adapter.rank to use the model without its adapters"), ("run.replay_every=2", "run.replay_every cannot verify")):
        at.train(f"{words} {more}", run="none", codes=REFUSED, says=(why,))


@story(CASES, fast=True)
def alone(at):
    """a run learns from pairs without a reference, takes what was planned, goes on with the bits of one run, and is measured as it learns"""
    at.take("one", run="base")
    for name, sums in (("pairs", range(1, 8)), ("held", range(8, 10))):
        at.write(f"{name}.jsonl", "".join(f'{{"prompt": "{a}{b}", "chosen": "{a}", "rejected": "x{b}y"}}\n' for a in sums for b in range(1, 8)))
        at(f"tokenize {name}.jsonl --preference --output {name}.tokens")
    for objective, keys, other in (("simpo", {"simpo_beta": 1.5, "simpo_gamma": 0.25}, "orpo_lambda"), ("orpo", {"orpo_lambda": 0.5}, "simpo_beta")):
        words = (f"model.init_from=base {DOCUMENTS} train.objective={objective} data.path=pairs.tokens data.validation=[held.tokens] "
                 f"evaluate.batches=0 checkpoint.keep_last=0 {' '.join(f'train.{key}={value}' for key, value in keys.items())}")
        said = at.train(f"{words} train.microbatch=1", run=objective).text
        assert "validation loss" in said and "perplexity" not in said and "reference model" not in said
        for row in at.rows(objective):
            assert abs(float(row["margin"]) - float(row["reward_chosen"]) + float(row["reward_rejected"])) < 1e-9 and 0 <= float(row["accuracy"]) <= 1
        assert float(at.rows(objective)[-1]["loss"]) < float(at.rows(objective)[0]["loss"])
        assert [at.plan(f"deck.toml {words} train.microbatch=1")["reserved_bytes"]] == [
            int(n) for n in re.search(r"bytes by rank: ([\d ]+)", at.read(f"{objective}/log"))[1].split()]
        at.train(f"{words} train.microbatch=1 --restart {objective}/checkpoints/step-00000004", run=f"{objective}-rest")
        assert at.losses(f"{objective}-rest") == at.losses(objective)[4:]
        held = at.rows(objective, "evaluation.csv")[-1]
        numbers = " and ".join(f"{key} {value}" for key, value in keys.items())
        for ranks in (0, 2):
            said = at(f"evaluate {objective}" + (" parallel.seq=2" if ranks else ""), ranks=ranks).out
            assert said.endswith(f"over 14 pairs, with {numbers}\n")
            assert abs(loss_of(said) - float(held["loss"])) < 1e-5
        assert measured_as(held) in at(f"evaluate {objective}").out
        key = next(iter(keys))
        assert loss_of(at(f"evaluate {objective} train.{key}=9").out) != loss_of(said)
        on_two = at(f"train deck.toml {words} train.microbatch=1 parallel.seq=2 --run-dir {objective}-two", ranks=2)
        assert all(abs(a - b) < 1e-3 for a, b in zip(map(float, at.losses(f"{objective}-two")), map(float, at.losses(objective)), strict=True)), on_two.text
        for more, why in (("train.dpo_scores=a.scores", "train.dpo_scores needs train.objective = \"dpo\" or \"kto\""), ("train.dpo_beta=2", "train.dpo_beta needs"),
                          ("run.exactness=invariant", "does not support run.exactness"), ("run.replay_every=2", "run.replay_every cannot verify"),
                          (f"train.{other}=3", f"needs train.objective = \"{other[:other.index('_')]}\""),
                          ("data.path=text.tokens data.validation=[]", "contains none. Create them with `trireme tokenize --preference`")):
            at.train(f"{words} {more}", run="none", codes=REFUSED, says=(why,))
        at(f"score deck.toml {words}", codes=(1, *REFUSED), says=("set train.objective = \"dpo\" or \"kto\"",))


@story(CASES, fast=True)
def scores(at):
    """scores of a model save the pass that makes them, on any grid, let all of a model learn, and must be of what is trained on"""
    at.take("one", run="base")
    for name, sums in (("pairs", range(1, 8)), ("held", range(8, 10))):
        at.write(f"{name}.jsonl", "".join(f'{{"prompt": "{a}{b}", "chosen": "{a}", "rejected": "x"}}\n' for a in sums for b in range(1, 8)))
        at(f"tokenize {name}.jsonl --preference --output {name}.tokens")
    pairs = "data.packing=documents data.attention=document train.objective=dpo data.path=pairs.tokens data.validation=[held.tokens] "
    words = f"model.init_from=base {pairs} evaluate.batches=0 checkpoint.keep_last=0 train.microbatch=1 model.dropout=0 run.backend=ref precision.compute=f64"
    said = at(f"score deck.toml {words} train.dpo_scores=a.scores").out
    assert re.search(r"a\.scores: 49 pairs of \S*pairs\.tokens scored by \S*base/checkpoints/step-00000012\n.*: 14 pairs of \S*held\.tokens", said)
    at(f"score deck.toml {words} train.dpo_scores=b.scores adapter.rank=2 parallel.data=2 zero.stage=3", ranks=2)
    at(f"score deck.toml {words} train.dpo_scores=a.scores", codes=(1,), says=("a.scores already exists",))
    (at / "folder").mkdir()
    for more, why in (("train.dpo_scores=folder", "folder is a directory"), ("train.dpo_scores=", "or train.dpo_scores to use a file of scores"), ("train.objective=tokens", "set train.objective = \"dpo\" or \"kto\"")):
        said = at(f"score deck.toml {words} {more}", codes=(1, *REFUSED), says=(why,))
        assert "remove" not in said.text and (at / "folder").is_dir()
    inspected = at("inspect a.scores").out
    assert "scores by " in inspected and "pairs.tokens: 98 documents\n" in inspected and inspected.endswith("verdict: intact\n")
    assert "tokens per pair, without separators: " in at("inspect pairs.tokens").out

    def near(a, b):
        rows = at.rows(a), at.rows(b)
        for x, y in zip(*rows, strict=True):
            for column in ("loss", "grad_norm", "margin", "reward_chosen", "reward_rejected"):
                assert abs(float(x[column]) - float(y[column])) <= 1e-12, (column, x, y)
    at(f"train deck.toml {words} adapter.rank=2 --run-dir computed")
    for i, (name, grid) in enumerate((("a", ""), ("b", ""), ("b", "parallel.seq=2"))):
        at(f"train deck.toml {words} adapter.rank=2 train.dpo_scores={name}.scores {grid} --run-dir given{i}", ranks=2 if grid else 0)
        near("computed", f"given{i}")
    whole = f"{words} train.dpo_scores=a.scores"
    at(f"train deck.toml {whole} --run-dir whole")
    assert abs(float(at.rows("whole")[0]["loss"]) - math.log(2)) < 1e-12 and float(at.rows("whole")[-1]["margin"]) != 0
    assert [at.plan(f"deck.toml {whole}")["reserved_bytes"]] == [
        int(n) for n in re.search(r"bytes by rank: ([\d ]+)", at.read("whole/log"))[1].split()]
    at(f"train deck.toml {whole} --restart whole/checkpoints/step-00000004 --run-dir rest")
    assert at.losses("rest") == at.losses("whole")[4:]
    held = at.rows("whole", "evaluation.csv")[-1]
    assert f"{measured_as(held)}, over 14 pairs" in at("evaluate whole").out
    # Scores of what was trained since are those of another model.
    at(f"score deck.toml {words} model.init_from=whole train.dpo_scores=later.scores")
    before, after = (losses_in(at / name, 1) for name in ("a.scores", "later.scores"))
    assert len(before) == 28
    rewards = [0.1 * (b - a) for b, a in zip(before, after, strict=True)]
    margins = [chosen - rejected for chosen, rejected in zip(rewards[::2], rewards[1::2], strict=True)]
    for column, all in (("reward_chosen", rewards[::2]), ("reward_rejected", rewards[1::2]), ("margin", margins), ("accuracy", [m > 0 for m in margins]),
                        ("loss", [math.log1p(math.exp(-m)) for m in margins])):
        assert abs(float(held[column]) - sum(all) / len(all)) <= 1e-12, (column, held)
    at.train(f"{words} train.dpo_scores=later.scores --restart whole/checkpoints/step-00000004", run="none", codes=REFUSED,
             says=("the reference model is not the one that the run began with",))
    at.train(f"{words} train.dpo_scores=later.scores", run="other", says=("the reference model and model.init_from have different weights",))
    shutil.copy(at / "pairs.tokens", at / "renamed.tokens")
    assert "over 49 pairs" in at("evaluate whole --data renamed.tokens").out
    # Of a model that was trained otherwise, when they are named.
    assert "over 49 pairs" in at("evaluate base train.dpo_scores=a.scores --data renamed.tokens").out
    at.train(f"model.init_from=base adapter.rank=2 adapter.base=nf4 {pairs} train.dpo_scores=a.scores", run="none", codes=REFUSED,
             says=("were computed with unconverted weights",))
    at(f"score deck.toml {words} model.attention_scale=0.9 train.dpo_scores=scaled.scores")
    at.train(f"{words} train.dpo_scores=scaled.scores --restart whole/checkpoints/step-00000004", run="none", codes=REFUSED,
             says=("the reference model is not the one that the run began with",))
    at.write("few.jsonl", '{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    at("tokenize few.jsonl --preference --output pairs.tokens --overwrite")
    for command in ("train deck.toml --run-dir none", "check deck.toml"):
        at(f"{command} {whole} data.validation=0", codes=REFUSED, says=("has no scores for the tokens in", "which has changed since"))
    for name, why in (("none.scores", "create it with `trireme score`"), ("folder", "is not a scores file: it is a directory"),
                      ("held.tokens", "is not a scores file: it is not HDF5")):
        at.train(f"{words} train.dpo_scores={name}", run="none", codes=REFUSED, says=("train.dpo_scores: ", why))
    at.train(words, run="none", codes=REFUSED, says=("or train.dpo_scores",))
    at("evaluate whole --data pairs.tokens", codes=(1,), says=("has no scores for the tokens",))


@story(CASES, fast=True)
def labeled(at):
    """a run learns from labeled answers, takes what was planned, goes on with the bits of one run, with scores or adapters, and is measured as it learns"""
    at.take("one", run="base")
    for name, sums in (("answers", range(1, 8)), ("held", range(8, 10))):
        at.write(f"{name}.jsonl", "".join(f'{{"prompt": "{a}{b}", "completion": "{chr(97 + a * b % 26)}", "label": {str(b % 3 > 0).lower()}}}\n' for a in sums for b in range(1, 8)))
        said = at(f"tokenize {name}.jsonl --labeled --output {name}.tokens").out
        assert f"{7 * len(sums)} labeled answers ({14 * len(sums)} documents)" in said
    said = at("inspect held.tokens").out
    assert "28 documents, 14 labeled answers," in said and "10 desirable, 4 undesirable" in said
    for n, what in ((0, "labeled answer 0, desirable"), (4, "labeled answer 2, undesirable"), (27, "mismatched answer of labeled answer 13")):
        assert at(f"inspect held.tokens --document {n}").out.startswith(f"document {n}, {what}: tokens")
    numbers = {"kto_beta": 0.3, "kto_desirable_weight": 1.25, "kto_undesirable_weight": 0.75}
    words = (f"{DOCUMENTS} train.objective=kto data.path=answers.tokens data.validation=[held.tokens] evaluate.batches=0 "
             f"checkpoint.keep_last=0 train.microbatch=1 model.dropout=0 run.backend=ref precision.compute=f64 {' '.join(f'train.{k}={v}' for k, v in numbers.items())}")
    start = f"{words} model.init_from=base"
    said = at(f"score deck.toml {start} train.dpo_scores=a.scores").out
    assert re.search(r"a\.scores: 49 labeled answers of \S*answers\.tokens scored by \S*base/", said)
    for run, more in (("adapters", "adapter.rank=2"), ("given", "adapter.rank=2 train.dpo_scores=a.scores"), ("whole", "train.dpo_scores=a.scores")):
        said = at(f"train deck.toml {start} {more} --run-dir {run}").text
        assert "validation loss" in said and "perplexity" not in said and " z0 " in at.read(f"{run}/log")
        rows = at.rows(run)
        assert float(rows[0]["reward_chosen"]) == float(rows[0]["reward_rejected"]) == 0 or run != "adapters"
        # At the begin all sigmoids are one half; the share of labels is that of the step.
        assert 0.375 - 1e-9 <= float(rows[0]["loss"]) <= 0.625 + 1e-9
        assert [at.plan(f"deck.toml {start} {more}")["reserved_bytes"]] == [int(n) for n in re.search(r"bytes by rank: ([\d ]+)", at.read(f"{run}/log"))[1].split()]
    for a, b in zip(at.rows("adapters"), at.rows("given"), strict=True):
        assert all(a[c] == b[c] == "nan" or abs(float(a[c]) - float(b[c])) <= 1e-12 for c in ("loss", "grad_norm", "margin", "accuracy", "reward_chosen", "reward_rejected")), (a, b)
    at(f"train deck.toml {start} train.dpo_scores=a.scores --restart whole/checkpoints/step-00000004 --run-dir rest")
    assert at.losses("rest") == at.losses("whole")[4:]
    held = at.rows("whole", "evaluation.csv")[-1]
    for ranks, grid in ((0, ""), (2, " parallel.seq=2"), (2, " parallel.pipe=2"), (2, "")):
        said = at(f"evaluate whole{grid}", ranks=ranks).out
        assert measured_as(held) in said, (said, held)
        assert said.endswith(f"over 14 labeled answers, with {', '.join(f'{k} {v}' for k, v in list(numbers.items())[:2])} and kto_undesirable_weight 0.75\n")
    # By the formula, of what `score` says of the trained model and of the one that it began with.
    at(f"score deck.toml {words} model.init_from=whole train.dpo_scores=later.scores")
    before, after = (losses_in(at / name, 1) for name in ("a.scores", "later.scores"))
    ratios = [b - a for b, a in zip(before, after, strict=True)]
    z = 0.3 * max(0, sum(ratios[1::2]) / 14)
    labels = [b % 3 > 0 for _ in (8, 9) for b in range(1, 8)]
    rewards = [0.3 * r for r in ratios[::2]]
    losses = [1.25 / (1 + math.exp(r - z)) if label else 0.75 / (1 + math.exp(z - r)) for r, label in zip(rewards, labels, strict=True)]
    good, bad = ([r for r, label in zip(rewards, labels) if label is which] for which in (True, False))
    fits = sum(r > z if label else r < z for r, label in zip(rewards, labels))
    for column, want in (("loss", sum(losses) / 14), ("reward_chosen", sum(good) / 10), ("reward_rejected", sum(bad) / 4),
                         ("margin", sum(good) / 10 - sum(bad) / 4), ("accuracy", fits / 14)):
        assert abs(float(held[column]) - want) <= 1e-12, (column, held, want)
    on_two = at(f"train deck.toml {start} train.dpo_scores=a.scores parallel.seq=2 --run-dir two", ranks=2)
    assert all(abs(float(a) - float(b)) < 1e-9 for a, b in zip(at.losses("two"), at.losses("whole"), strict=True)), on_two.text
    # Answers of one label alone: there is no mean reward of the other one.
    at.write("good.jsonl", "".join(f'{{"prompt": "{a}", "completion": "{a}", "label": true}}\n' for a in range(1, 8)))
    at("tokenize good.jsonl --labeled --output good.tokens")
    at(f"train deck.toml {start} adapter.rank=2 data.path=good.tokens data.validation=[] --run-dir good")
    row = at.rows("good")[-1]
    assert row["reward_rejected"] == row["margin"] == "nan" and math.isfinite(float(row["reward_chosen"]) + float(row["loss"]))
    said = at("evaluate adapters --data good.tokens").out
    assert "over 7 labeled answers" in said and "nan" in said
    # Another run's labeled answers are measured as with kto; other data are refused.
    at("train deck.toml model.init_from=base adapter.rank=2 train.steps=2 --run-dir taught")
    assert "over 7 labeled answers, with kto_beta 0.1, kto_desirable_weight 1 and kto_undesirable_weight 1" in at("evaluate taught --data good.tokens").out
    at("evaluate taught train.objective=dpo --data good.tokens", codes=(1,), says=("contains labeled answers, which train.objective=dpo does not measure. Set train.objective to \"kto\"",))
    at("evaluate base --data good.tokens", codes=(1,), says=("has no adapters whose base model could be the reference of train.objective=kto",))
    at.write("pairs.jsonl", "".join(f'{{"prompt": "{a}", "chosen": "{a}", "rejected": "x"}}\n' for a in range(1, 8)))
    at("tokenize pairs.jsonl --preference --output pairs.tokens")
    for more, why in (("data.path=pairs.tokens data.validation=[]", r"contains preference pairs, which train.objective = \"kto\" cannot train on"), ("train.objective=tokens", "train.kto_beta needs train.objective = \"kto\""),
                      ("data.path=[pairs.tokens,answers.tokens]", "use files of one kind"), ("run.replay_every=2", "run.replay_every cannot verify"),
                      ("run.exactness=invariant", "does not support run.exactness"), ("train.dpo_beta=2", "train.dpo_beta needs")):
        at.train(f"{start} adapter.rank=2 {more}", run="none", codes=REFUSED, says=(why,))
    at.write("one.jsonl", '{"prompt": "a", "completion": "b", "label": true}\n')
    at("tokenize one.jsonl --labeled --output one.tokens", codes=(1,), says=("a single labeled answer",))
    at("tokenize good.jsonl --labeled --preference --output one.tokens", codes=(2,), says=("excludes",))


@story(CASES, fast=True)
def measured(at):
    """pairs are measured of whatever has adapters, with the beta that is asked for, and refused elsewhere on all ranks"""
    at.take("one", run="base")
    at.write("pairs.jsonl", "".join(f'{{"prompt": "{a}", "chosen": "{a}", "rejected": "xyz"}}\n' for a in range(1, 8)))
    at("tokenize pairs.jsonl --preference --output pairs.tokens")
    # Taught with tokens, in windows; so are adapters that are imported.
    at.train("model.init_from=base adapter.rank=2 train.steps=4 optimizer.lr=0.1", run="whole")
    one = at("evaluate whole --data pairs.tokens").out
    assert "over 7 pairs, with dpo_beta 0.1\n" in one
    assert abs(loss_of(at("evaluate whole --data pairs.tokens", ranks=2).out) - loss_of(one)) < 1e-5
    at("export whole theirs --format peft --base-name base")
    at("import theirs again --base base")
    assert loss_of(at("evaluate again --data pairs.tokens").out) == loss_of(one)
    # -log sigmoid(b x) of all pairs lies between that of half of b and of twice b, where they are alike enough; no beta is no change.
    small, large = (loss_of(at(f"evaluate whole train.dpo_beta={b} --data pairs.tokens").out) for b in (1e-6, 0.2))
    assert abs(small - math.log(2)) < 1e-5 < abs(loss_of(one) - math.log(2)) < abs(large - math.log(2))
    for ranks in (0, 2):
        at("evaluate base train.objective=tokens --data pairs.tokens", ranks=ranks, codes=(1,), says=("which train.objective=tokens does not measure",))
        said = at("evaluate base --data pairs.tokens", ranks=ranks, codes=(1,), says=("has no adapters whose base model could be the reference of train.objective=dpo",))
        assert "abort" not in said.text.lower()
    at("evaluate whole --data pairs.tokens train.dpo_beta=1", codes=(1,), says=("write it before --data",))
    at("evaluate base data.path=x", codes=(1,), says=("the checkpoint determines this value", "and also data.packing, data.attention, "))
    at("evaluate base data.pakcing=documents", codes=(1,), says=("override 'data.pakcing=documents': unknown key 'data.pakcing' .nearest key: data.packing",))
    at("generate base model.widht=3 --prompt x", codes=(1,), says=("unknown key 'model.widht' .nearest key: model.width",))


@story(CASES, fast=True)
def turns(at):
    """a run that changes its objective has one table of its steps, and one of its evaluations"""
    at.take("one", run="base")
    at.write("pairs.jsonl", "".join(f'{{"prompt": "{a}", "chosen": "{a}", "rejected": "xyz"}}\n' for a in range(1, 8)))
    at("tokenize pairs.jsonl --preference --output pairs.tokens")
    words = f"model.init_from=base adapter.rank=2 {DOCUMENTS} evaluate.batches=1"
    pairs = f"{words} train.objective=dpo data.path=pairs.tokens data.validation=[held.tokens]"
    text = "data.path=text.tokens data.packing=windows data.attention=document data.validation=[later.tokens]"
    at("tokenize text.txt --output text.tokens --overwrite --separator 32")
    shutil.copy(at / "text.tokens", at / "later.tokens")
    shutil.copy(at / "pairs.tokens", at / "held.tokens")
    at.train(f"{words} {text} train.steps=4", run="turned")
    first = at.read("turned/history.csv").splitlines()
    shutil.copytree(at / "turned", at / "lost")
    (at / "lost/history.csv").unlink()
    at.train(f"{pairs} train.steps=8 --restart latest", run="turned")
    at.train(f"{words} {text} train.steps=12 --restart latest", run="turned")
    rows = at.rows("turned")
    assert [int(row["step"]) for row in rows] == list(range(1, 13))
    assert [row["margin"] != "" for row in rows] == 4 * [False] + 4 * [True] + 4 * [False]
    after = at.read("turned/history.csv").splitlines()
    assert after[0] == first[0] + ",margin,accuracy,reward_chosen,reward_rejected"
    assert after[1:5] == [line + ",,,," for line in first[1:]] and {line.count(",") for line in after} == {14}
    held = {int(row["step"]): (row["perplexity"] != "", row["margin"] != "") for row in at.rows("turned", "evaluation.csv")}
    assert held == {4: (True, False), 6: (False, True), 8: (False, True), 12: (True, False)}, held
    at("report turned")
    # What the checkpoint has of it comes back, of whatever objective it was.
    at.train(f"{pairs} train.steps=8 --restart latest", run="lost")
    assert at.read("lost/history.csv").splitlines()[:5] == after[:5] and at.losses("lost") == at.losses("turned")[:8]
    (at / "turned/history.csv").unlink()
    at.train(f"{words} {text} train.steps=14 --restart latest", run="turned")
    assert at.read("turned/history.csv").splitlines()[:13] == after
