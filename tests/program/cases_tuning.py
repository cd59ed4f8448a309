"""Runs that begin with the weights of others: fine-tuning, adapters, pairs of answers, whole documents."""
import json
import math
import re
import shutil
import struct
import subprocess

from rows import REFUSED, story

CASES = []
DOCUMENTS = "data.packing=documents data.attention=document"


@story(CASES)
def tuning(at):
    """fine-tuning takes the weights alone"""
    at.train("train.steps=200 checkpoint.every_steps=0 evaluate.every_steps=0", run="base")
    at.train("model.init_from=base train.steps=2", run="tuned")
    # Fresh weights begin at ln(256) = 5.5, these far below; step 2 is Adam's second update.
    assert at.losses("tuned")[0] < 4
    assert at.meta("tuned", 2)["updates"]["embedding.weight"] == 2


@story(CASES, fast=True)
def adapters(at):
    """adapters beside a base: a restart has the bits of one run, readers find the base, and other weights are refused"""
    at.take("one", run="base")
    beside = "model.init_from=base adapter.rank=2 train.steps=8 checkpoint.every_steps=4 checkpoint.keep_last=0"
    said = at.train(beside, run="whole").text
    assert re.search(r"M parameters, 0\.\d+M of them trained", said) and "training adapters on the base model " in said
    assert "computes otherwise" not in said
    at.train(f"{beside} --restart whole/checkpoints/step-00000004", run="rest")
    assert at.losses("rest") == at.losses("whole")[4:]
    held = at("inspect whole --verify").out
    assert "blocks.0.qkv.lora_a" in held and "blocks.0.qkv.weight" not in held
    loss = at("evaluate whole").out
    assert loss != at("evaluate base").out
    at("export whole merged")
    at("import merged again", silent=("weights in",))
    at("export whole half --dtype bf16")
    at("import half from-half", says=("weights in bf16 are stored as f32 in the checkpoint, and in exports of it unless you pass --dtype bf16 to export",))
    of_merged, of_both = (re.search(r"loss ([\d.]+)", at(f"evaluate {model} --data text.tokens --samples 8").out)[1] for model in ("again", "whole"))
    assert abs(float(of_merged) - float(of_both)) < 1e-5  # roundings of f32
    # Where the base went, and what is not it.
    at("mv base moved; ! $TRIREME evaluate whole")
    assert at("evaluate whole --base moved").out == loss
    at.train("train.steps=2 train.seed=9", run="other")
    at("evaluate whole --base other", codes=(1,), says=("is not what these adapters were trained beside",))
    at.train(f"{beside} model.init_from=other --restart latest", run="whole", codes=(1,), says=("is not what these adapters were trained beside",))
    at.train("adapter.rank=2", run="none", codes=(1,), says=("name their checkpoint with model.init_from",))
    for key in ("adapter.dropout=0.1", "adapter.alpha=8", "adapter.rank_stabilized=true"):
        at.train(key, run="none", codes=REFUSED, says=(f"{key.split('=')[0]} has no effect without adapters",))
    at.train(f"{beside} adapter.patterns=[]", run="none", codes=(1,), says=("names no product",))
    at.train(f"{beside} model.init_from=whole", run="none", codes=(1,), says=("is a checkpoint of adapters",))
    at("evaluate moved --base other", codes=(1,), says=("it is a whole model",))
    # A run that went on still has the checkpoint; one that holds the base is not overwritten.
    at.train("train.steps=14 --restart latest", run="moved")
    assert at("evaluate whole --base moved").out == loss
    (at / "moved").rename(at / "base")
    at.train(f"{beside} model.init_from=base/checkpoints/step-00000012 --overwrite", run="base", codes=(1,), says=("--overwrite would remove",))
    assert at("evaluate whole").out == loss
    at("export base adapters --format peft --base-name x", codes=(1,), says=("it is a whole model",))


@story(CASES, fast=True)
def kept(at):
    """a base in 4 bits: what was planned is taken and sent, a restart and readers have its numbers on any grid, an export has the base's own"""
    at.take("one", run="base")
    words = "model.init_from=base adapter.rank=2 train.steps=8 checkpoint.every_steps=4 checkpoint.keep_last=0"
    at.train(words, run="wide")
    for base in ("bf16", "nf4"):
        said = at.train(f"{words} adapter.base={base}", run=base).text
        assert re.search(rf"training adapters on the base model .*, stored as {base}", said)
        assert at.losses(base) != at.losses("wide") and abs(at.losses(base)[0] - at.losses("wide")[0]) < 0.3
        assert [at.plan(f"deck.toml {words} adapter.base={base}")["reserved_bytes"]] == [
            int(n) for n in re.search(r"bytes by rank: ([\d ]+)", at.read(f"{base}/log"))[1].split()]
        at.train(f"{words} adapter.base={base} --restart {base}/checkpoints/step-00000004", run=f"{base}-rest")
        assert at.losses(f"{base}-rest") == at.losses(base)[4:]
        loss = [re.search(r"loss ([\d.]+)", at(f"evaluate {run} --data text.tokens --samples 8").out)[1] for run in (base, "wide")]
        assert loss[0] != loss[1]
        text = at(f"generate {base} --prompt The --tokens 8 --temperature 0").out
        assert text == at(f"generate {base} --prompt The --tokens 8 --temperature 0 zero.stage=3").out
    # On another grid, and with sums in no order.
    exact = f"{words} adapter.base=nf4 run.exactness=invariant"
    at.train(exact, run="exact")
    at(f"train deck.toml {exact} parallel.data=2 zero.stage=3 train.microbatch=1 --run-dir grid --restart exact/checkpoints/step-00000004", ranks=2)
    assert at.losses("grid") == at.losses("exact")[4:]
    loss = [at(f"evaluate exact --data text.tokens --samples 8 {grid}", ranks=n).out for grid, n in (("", 0), ("zero.stage=3", 2))]
    assert loss[0] == loss[1]
    assert "merged with the weights of" in at("export nf4 merged").text
    at.train(f"{words} --restart latest", run="nf4", codes=(1,), says=("adapter.base",))
    at.train("adapter.base=nf4", run="none", codes=REFUSED, says=("is of weights that adapters stand beside",))


TURNS = """[user]
before = "Q:"
after = "\\n"
[assistant]
before = "A:"
after = "\\n"
"""


@story(CASES, fast=True)
def shown(at):
    """a token file says what it holds and what is learnt of a document; other templates and lost bases are spoken of"""
    at.write("turns.toml", TURNS)
    at.write("other.toml", TURNS.replace("A:", "B:"))
    talks = [[("user", "one"), ("assistant", "two\u00e9"), ("user", "3"), ("assistant", "4")], [("user", "five"), ("assistant", "six")]]
    lines = (", ".join(f'{{"role": "{role}", "content": "{content}"}}' for role, content in talk) for talk in talks)
    at.write("talks.jsonl", "".join(f'{{"messages": [{line}]}}\n' for line in lines))
    for name in ("turns", "other"):
        at(f"tokenize talks.jsonl --chat --template {name}.toml --output {name}.tokens")
    said = at("inspect turns.tokens").out
    # Bytes: "Q:one\n" 6, "A:twoe'\n" 8, "Q:3\n" 4, "A:4\n" 4; "Q:five\n" 7, "A:six\n" 6; a separator behind both.
    for text in ("37 tokens of 2 bytes", "trained on: 12 tokens (32.4%)", "2 documents, each document followed by separator token 0", "minimum 13", "maximum 22"):
        assert text in said, f"{text!r} is not in {said!r}"
    shown = at("inspect turns.tokens --document 0").out
    assert "document 0: tokens 0 to 22\n" in shown and "context | Q:one\\nA:\ntrained | two\u00e9\\n\ncontext | Q:3\\nA:\ntrained | 4\\n\n" in shown
    assert at("inspect turns.tokens --verify").out == said + "verdict: intact\n"
    at("inspect turns.tokens --document 2", codes=(1,), says=("has 2 documents, numbered from 0",))
    at("inspect turns.tokens --repair", codes=(1,), says=("is a token file",))
    words = "model.positions=rotary data.path=turns.tokens train.batch=1 train.microbatch=1 model.context=8"
    at.train(f"{words} data.validation=[other.tokens] train.steps=2", run="base", says=("different chat templates",))
    at("inspect base --document 0", codes=(1,), says=("is of a token file",))
    at("generate base --chat --template other.toml --prompt one --tokens 1", says=("was trained with another chat template",))
    at("generate base --chat --prompt 123456789 --tokens 1", says=("prompt 1 has 14 tokens, of which the model sees the last 8",))
    at("evaluate base --data other.tokens", says=("written with another chat template", "in windows of 8"))
    beside = f"{words} data.validation=[] model.init_from=base adapter.rank=2 train.steps=2"
    at.train(f"{beside} model.context=16", run="long", says=("was trained with positions up to 8",))
    at.train(beside, run="tuned")
    (at / "base").rename(at / "moved")
    for ranks in (0, 2):
        at("evaluate tuned --data turns.tokens", ranks=ranks, codes=(1,), says=("the checkpoint that these adapters stand beside, is not there", "--base"))


def losses_in(scores, n):
    """of each document of the n-th token file, as another program reads them"""
    said = subprocess.run(["h5dump", "-y", "-w", "1", "-m", "%.17g", "-d", f"/files/{n}/loss", scores], check=True, capture_output=True, text=True).stdout
    return [float(x) for x in said[said.index("DATA {") + 6:].replace("}", " ").replace(",", " ").split()]


def measured_as(row):
    """what `evaluate` says of pairs that are in this row of evaluation.csv"""
    loss, margin, accuracy, chosen, rejected = (float(row[c]) for c in ("loss", "margin", "accuracy", "reward_chosen", "reward_rejected"))
    return f"loss {loss:.6f}, margin {margin:.4f} accuracy {accuracy:.3f} rewards {chosen:.4f} and {rejected:.4f}"


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
    for more, why in (("train.objective=tokens", "is of pairs of documents, of which the rejected one is not to be learnt"),
                      ("data.path=text.tokens data.validation=[]", "has none: make it with trireme tokenize --preference"),
                      ("adapter.rank=0", "give adapter.rank, to compare"), ("run.replay_every=2", "run.replay_every computes")):
        at.train(f"{words} {more}", run="none", codes=REFUSED, says=(why,))


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
    at(f"score deck.toml {words} train.dpo_scores=a.scores", codes=(1,), says=("a.scores exists",))
    (at / "folder").mkdir()
    for more, why in (("train.dpo_scores=folder", "folder is a directory"), ("train.dpo_scores=", "or train.dpo_scores, the scores of one"), ("train.objective=tokens", "give train.objective = \"dpo\"")):
        said = at(f"score deck.toml {words} {more}", codes=(1, *REFUSED), says=(why,))
        assert "remove" not in said.text and (at / "folder").is_dir()
    inspected = at("inspect a.scores").out
    assert "scores by " in inspected and "pairs.tokens: 49 pairs\n" in inspected and inspected.endswith("verdict: intact\n")
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
             says=("compares with another model than it began with",))
    at.train(f"{words} train.dpo_scores=later.scores", run="other", says=("the reference model and model.init_from have different weights",))
    shutil.copy(at / "pairs.tokens", at / "renamed.tokens")
    assert "over 49 pairs" in at("evaluate whole --data renamed.tokens").out
    # Of a model that was trained otherwise, when they are named.
    assert "over 49 pairs" in at("evaluate base train.dpo_scores=a.scores --data renamed.tokens").out
    at.train(f"model.init_from=base adapter.rank=2 adapter.base=nf4 {pairs} train.dpo_scores=a.scores", run="none", codes=REFUSED,
             says=("compares with what is kept of them",))
    at(f"score deck.toml {words} model.attention_scale=0.9 train.dpo_scores=scaled.scores")
    at.train(f"{words} train.dpo_scores=scaled.scores --restart whole/checkpoints/step-00000004", run="none", codes=REFUSED,
             says=("compares with another model than it began with",))
    at.write("few.jsonl", '{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    at("tokenize few.jsonl --preference --output pairs.tokens --overwrite")
    for command in ("train deck.toml --run-dir none", "check deck.toml"):
        at(f"{command} {whole} data.validation=0", codes=REFUSED, says=("holds no scores of the tokens that are in", "which has changed since"))
    for name, why in (("none.scores", "make it with `trireme score`"), ("folder", "is no file of scores: it is a directory"),
                      ("held.tokens", "is no file of scores: it is not HDF5")):
        at.train(f"{words} train.dpo_scores={name}", run="none", codes=REFUSED, says=("train.dpo_scores: ", why))
    at.train(words, run="none", codes=REFUSED, says=("or train.dpo_scores",))
    at("evaluate whole --data pairs.tokens", codes=(1,), says=("holds no scores of the tokens",))


@story(CASES, fast=True)
def distilled(at):
    """a model learns from another one: the same on any grid, with what was planned, and goes on with the same teacher alone"""
    at.take("one", run="teacher")
    taught = "train.objective=distill distill.teacher=teacher distill.temperature=2 distill.weight=0.7 data.validation=[]"
    words = f"{taught} model.width=8 model.layers=3 model.dropout=0 run.backend=ref precision.compute=f64 checkpoint.keep_last=0"
    assert "the teacher is " in at(f"train deck.toml {words} --run-dir one").text
    for i, (grid, ranks) in enumerate((("parallel.data=2 zero.stage=3", 2), ("parallel.seq=2", 2), ("parallel.pipe=2 train.microbatch=1", 2),
                                       ("parallel.pipe=2 parallel.schedule=zero-bubble model.layers=4 train.microbatch=1", 2),
                                       ("model.layers=4 model.recompute=block", 0),
                                       ("model.heads=4 parallel.seq=4", 4), ("model.heads=4", 0),  # more than the teacher has
                                       ("model.heads=1 parallel.seq=2 zero.stage=3", 2), ("model.heads=1", 0))):
        at(f"train deck.toml {words} {grid} --run-dir grid{i}", ranks=ranks)
    for a, b in ("one", "grid0"), ("one", "grid1"), ("one", "grid2"), ("grid3", "grid4"), ("grid5", "grid6"), ("grid7", "grid8"):
        for x, y in zip(at.rows(a), at.rows(b), strict=True):
            assert all(abs(float(x[c]) - float(y[c])) <= 1e-12 for c in ("loss", "grad_norm")), (a, b, x, y)
    # Of cross entropy alone there is nothing of the teacher; of the teacher alone none of that.
    at(f"train deck.toml {words} distill.weight=0 train.steps=2 --run-dir without")
    at(f"train deck.toml {words.replace(taught, 'data.validation=[]')} train.steps=2 --run-dir plain")
    assert all(abs(x - y) <= 1e-12 for x, y in zip(at.losses("without"), at.losses("plain"), strict=True)) and at.losses("one")[0] != at.losses("plain")[0]
    for more, ranks in (("", 0), ("parallel.pipe=2 zero.stage=3 train.microbatch=1", 2)):
        at(f"train deck.toml {taught} {more} train.steps=2 --run-dir host --overwrite", ranks=ranks)
        planned = at.plan(f"deck.toml {taught} {more} train.steps=2 --ranks {max(1, ranks)}")["reserved_bytes"]
        assert planned == max(int(n) for n in re.search(r"bytes by rank: ([\d ]+)", at.read("host/log"))[1].split())
    at(f"train deck.toml {words} --restart one/checkpoints/step-00000004 --run-dir rest")
    assert at.losses("rest") == at.losses("one")[4:]
    at.train("train.steps=2 train.seed=9", run="other")
    # One with a table of positions that ranks of seq could not share; itself, whose checkpoints it removes.
    at.train("train.steps=2 model.context=9", run="longer")
    at(f"train deck.toml {words} distill.teacher=longer parallel.seq=2 --run-dir sharing", ranks=2)
    at(f"train deck.toml {taught} distill.teacher=other train.steps=4 --restart latest --run-dir other", codes=(1,), says=("of this very run",))
    at(f"train deck.toml {words} distill.teacher=other --restart one/checkpoints/step-00000004 --run-dir none", codes=(1,),
       says=("is not what this run learns from",))
    at(f"train deck.toml {words} --run-dir teacher --overwrite", codes=(1,), says=("--overwrite would remove", "distill.teacher"))
    # Of a link that has moved on, what it led to then.
    (at / "link").symlink_to(at / "teacher/checkpoints/step-00000008")
    at(f"train deck.toml {words} distill.teacher=link train.steps=4 --run-dir linked")
    (at / "link").unlink()
    (at / "link").symlink_to(at / "teacher/checkpoints/step-00000012")
    assert re.search(r"the teacher is \S+step-00000008", at(f"train deck.toml {words} distill.teacher=link train.steps=6 --restart latest --run-dir linked").text)
    # It is needed for training alone.
    (at / "teacher").rename(at / "moved")
    assert "loss " in at("evaluate one --data text.tokens --samples 4").out
    at(f"train deck.toml {words} --restart latest --run-dir one train.steps=14", codes=(1,), says=("distill.teacher: there is no ", "teacher"))
    at(f"train deck.toml {words} distill.teacher=moved --restart latest --run-dir one train.steps=14")
    at(f"check deck.toml {taught} distill.teacher=moved model.layers=4 parallel.pipe=2 parallel.schedule=zbv parallel.chunks=2 --ranks 2",
       codes=REFUSED, says=("has 2 blocks",))
    for more, why in (("distill.teacher=moved model.context=16", "knows 8 positions"), ("distill.teacher=moved run.exactness=invariant", "\"invariant\""),
                      ("distill.teacher=", "go together"), ("train.objective=tokens", "go together"),
                      ("distill.teacher=moved run.replay_every=2", "run.replay_every"), ("distill.teacher=moved model.vocab=300", "a vocabulary of 256")):
        for command in ("train", "check"):
            run = " --run-dir none" if command == "train" else ""
            at(f"{command} deck.toml {taught} {more}{run}", codes=REFUSED, says=(why,))


def loss_of(said):
    return float(re.search(r"loss ([\d.]+)", said)[1])


@story(CASES, fast=True)
def measured(at):
    """pairs are measured of whatever has adapters, with the beta that is asked for, and refused elsewhere on all ranks"""
    at.take("one", run="base")
    at.write("pairs.jsonl", "".join(f'{{"prompt": "{a}", "chosen": "{a}", "rejected": "xyz"}}\n' for a in range(1, 8)))
    at("tokenize pairs.jsonl --preference --output pairs.tokens")
    # Taught with tokens, in windows; so are adapters that are imported.
    at.train("model.init_from=base adapter.rank=2 train.steps=4 optimizer.lr=0.1", run="whole")
    one = at("evaluate whole --data pairs.tokens").out
    assert "over 7 pairs of documents, with dpo_beta 0.1\n" in one
    assert abs(loss_of(at("evaluate whole --data pairs.tokens", ranks=2).out) - loss_of(one)) < 1e-5
    at("export whole theirs --format peft --base-name base")
    at("import theirs again --base base")
    assert loss_of(at("evaluate again --data pairs.tokens").out) == loss_of(one)
    # -log sigmoid(b x) of all pairs lies between that of half of b and of twice b, where they are alike enough; no beta is no change.
    small, large = (loss_of(at(f"evaluate whole train.dpo_beta={b} --data pairs.tokens").out) for b in (1e-6, 0.2))
    assert abs(small - math.log(2)) < 1e-5 < abs(loss_of(one) - math.log(2)) < abs(large - math.log(2))
    for ranks in (0, 2):
        said = at("evaluate base --data pairs.tokens", ranks=ranks, codes=(1,), says=("is of pairs of documents, for which a model with adapters",))
        assert "abort" not in said.text.lower()
    at("evaluate whole --data pairs.tokens train.dpo_beta=1", codes=(1,), says=("give overrides before it",))
    at("evaluate base data.path=x", codes=(1,), says=("data.packing=, data.attention=",))


def fill_row(file, tensor, row, value):
    """All of a row of a tensor of two dimensions in a file of safetensors, in f32."""
    data = bytearray(file.read_bytes())
    header = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + header])[tensor]
    width = entry["shape"][1]
    at = 8 + header + entry["data_offsets"][0] + 4 * row * width
    data[at:at + 4 * width] = struct.pack(f"<{width}f", *[value] * width)
    file.write_bytes(data)


@story(CASES, fast=True)
def overflowing(at):
    """a result that is not finite is no success: of an evaluation, questions, scores, a text, and a run whose steps are all good"""
    at.take("untied", run="base")
    text = at.read("text.txt")
    assert "~" not in text
    at("export base large-hf")
    fill_row(at / "large-hf/model.safetensors", "transformer.wte.weight", ord("~"), 3e38)
    at("import large-hf large")
    at.write("held.txt", text[:40] + "~" + text[40:80])
    at.write("questions.jsonl", json.dumps({"ctx": "a ~", "endings": ["b", "c"], "label": 0}))
    at.write("pairs.jsonl", json.dumps({"prompt": "a~", "chosen": "b", "rejected": "c"}))
    at("tokenize held.txt --output held.tokens")
    at("tokenize pairs.jsonl --preference --output pairs.tokens")
    at("evaluate large --data text.tokens --samples 4")
    for ranks in (0, 2):
        at("evaluate large --data held.tokens", ranks=ranks, codes=(1,), says=("the held-out loss is -?nan, over [0-9]+ targets",))
    at("evaluate large --multiple-choice questions.jsonl", codes=(1,), says=("not finite",))
    at("generate large --prompt a~ --tokens 2", codes=(1,), says=("not finite",))
    pairs = f"{DOCUMENTS} train.objective=dpo data.path=pairs.tokens data.validation=[] evaluate.every_steps=0 evaluate.batches=0"
    at(f"score deck.toml model.tied=false model.init_from=large {pairs} train.dpo_scores=a.scores", codes=(1,), says=("nothing is written",))
    at(f"train deck.toml model.tied=false model.init_from=large {pairs} adapter.rank=2 train.steps=1 --run-dir scored", codes=(0,))
    at("evaluate scored --data pairs.tokens", codes=(1,), says=("the held-out loss is -?nan with margin",))
    said = at.train("model.tied=false model.init_from=large data.validation=[held.tokens] train.steps=2 evaluate.every_steps=1 evaluate.batches=0", run="run", codes=(1,),
                    says=("step 1: the held-out loss is -?nan", "step 2, the last: the held-out loss is -?nan"))
    assert "skipped" not in said.text and all(math.isfinite(loss) for loss in at.losses("run")) and at.json("run/outcome.json")["status"] == "failed"
    at("export run hf")  # of which every step was good


@story(CASES, fast=True)
def ends(at):
    """a model that was imported without a tokenizer keeps the ids that begin and end its texts, through a run that begins with it"""
    at.take("one", run="base")
    at("export base theirs")
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (at / "theirs" / name).unlink()
    ids = {"bos_token_id": 7, "eos_token_id": list(range(256))}
    at.write("theirs/config.json", json.dumps(at.json("theirs/config.json") | ids))
    at("import theirs model")
    (at / "ids.bin").write_bytes(struct.pack("<2000H", *(i % 256 for i in range(2000))))
    at("tokenize ids.bin --from raw-u16 --vocab 256 --output ids.tokens")
    at.train("model.init_from=model data.path=ids.tokens train.steps=1", run="tuned")
    at.write("prompts.jsonl", '{"prompt": "1 2"}')
    for model in ("model", "tuned"):
        assert json.loads(at(f"generate {model} --prompts prompts.jsonl --tokens 3").out)["ended"] == "end of text"
        at(f"export {model} {model}-hf")
        for file in ("config.json", "generation_config.json"):
            assert ids.items() <= at.json(f"{model}-hf/{file}").items(), file
    # Of SentencePiece's the class of transformers begins texts unless it is told not to.
    at.take("spm", run="spelled")
    at("export spelled spelled-hf")
    at("import spelled-hf told", silent=("warning",))
    (at / "spelled-hf/tokenizer_config.json").unlink()
    at("import spelled-hf not-told", says=("puts a begin-of-text token before each text",))


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
    assert after[1:5] == [line + ",,,," for line in first[1:]] and {line.count(",") for line in after} == {13}
    held = {int(row["step"]): (row["perplexity"] != "", row["margin"] != "") for row in at.rows("turned", "evaluation.csv")}
    assert held == {4: (True, False), 6: (False, True), 8: (False, True), 12: (True, False)}, held
    at("report turned")
    # What the checkpoint has of it comes back, of whatever objective it was.
    at.train(f"{pairs} train.steps=8 --restart latest", run="lost")
    assert at.read("lost/history.csv").splitlines()[:5] == after[:5] and at.losses("lost") == at.losses("turned")[:8]
    (at / "turned/history.csv").unlink()
    at.train(f"{words} {text} train.steps=14 --restart latest", run="turned")
    assert at.read("turned/history.csv").splitlines()[:13] == after


@story(CASES, fast=True)
def documents(at):
    """whole documents: what is left out is counted apart, tokens a second are those that are there, an evaluation reads what training does"""
    lengths = [3, 8, 1, 30, 17, 2, 5, 8, 8]  # with the separator one more; a sample has 8 inputs
    at.write("lines.jsonl", "".join(f'{{"prompt": "{"p" * (n - 1)}", "completion": "c"}}\n' for n in lengths) + 3 * '{"prompt": "q", "completion": ""}\n')
    at("tokenize lines.jsonl --prompt prompt --completion completion --output lines.tokens")
    words = f"{DOCUMENTS} data.path=lines.tokens data.validation=[lines2.tokens] train.steps=2 evaluate.batches=0 precision.compute=f64 run.backend=ref model.dropout=0"
    (at / "lines2.tokens").write_bytes((at / "lines.tokens").read_bytes())
    for way, documents, said in (("cut", 10, "2 longer than a sample are cut, which loses 20.0% of the targets; 2 without a target are left out"),
                                 ("split", 12, "2 longer than a sample go on as further ones, which loses 0.0% of the targets; 0 without"),
                                 ("drop", 10, "2 longer than a sample are left out, which loses")):
        text = at.train(f"{words} data.long_documents={way} --overwrite", run="run").text
        assert f"lines.tokens: {documents} documents packed into " in text and said in text, text
        last = at.rows("run", "evaluation.csv")[-1]
        for ranks in (0, 2):
            ended = at("evaluate run", ranks=ranks)
            got = ended.out
            assert ended.text.count(said) == 1 and f"loss {float(last['loss']):.6f}, " in got, (got, last)
    # Of those that are left each alone in a file.
    sums = [0, 0]
    for n in [n for n in lengths if n <= 8] + 3 * ["q"]:
        line = '{"prompt": "q", "completion": ""}' if n == "q" else f'{{"prompt": "{"p" * (n - 1)}", "completion": "c"}}'
        at.write("line.jsonl", line)
        at("tokenize line.jsonl --prompt prompt --completion completion --output line.tokens --overwrite")
        loss, targets = re.search(r"loss ([\d.]+), .* over (\d+) targets", at("evaluate run --data line.tokens").out).groups()
        sums = [sums[0] + float(loss) * int(targets), sums[1] + int(targets)]
    assert f"over {sums[1]} targets" in got and abs(sums[0] / sums[1] - loss_of(got)) < 2e-6, (sums, got)
    # Two steps of four samples: all five of 38 inputs, and three of them again.
    there = sum(float(row["tokens_per_second"]) * float(row["seconds"]) for row in at.rows("run"))
    assert 38 < there < 2 * 4 * 8 - 1.5 and abs(at.json("run/timing.json")["processes"][0]["tokens"] - there) < 0.5
