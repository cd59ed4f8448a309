"""Runs that begin with the weights of others: fine-tuning, adapters, a teacher, whole documents."""
import re

from fixture import DOCUMENTS
from reading import loss_of
from rows import REFUSED, story

CASES = []


@story(CASES)
def tuning(at):
    """fine-tuning takes the weights alone"""
    at.train("train.steps=200 checkpoint.every_steps=0 evaluate.every_steps=0", run="base")
    at.train("model.init_from=base train.steps=2", run="tuned")
    # Fresh weights begin at ln(256) = 5.5, these far below; step 2 is Adam's second update.
    assert at.losses("tuned")[0] < 4
    assert at.meta("tuned", 2)["updates"]["embedding.weight"] == 2


@story(CASES, fast=True)
def modules(at):
    """adapters that peft's format cannot store are named as a run begins, with the patterns that it can"""
    glm = "model.norm_place=both model.norm=rms model.positions=rotary model.activation=swiglu model.bias=false model.qkv_bias=true model.tied=false model.rotary_dim=2"
    at.train(f"{glm} train.steps=1", run="base")
    beside = f"{glm} model.init_from=base adapter.rank=2 train.steps=1"
    warned = (r"`trireme export --format peft` will refuse the adapters of blocks\.\*\.ffn_in\.gate and blocks\.\*\.ffn_in\.up, because",)
    right = re.search(r"set (adapter.patterns) = (\[.*\])", at(f"check deck.toml {beside}", says=warned).text)
    at.train(beside, run="whole", says=warned)
    at("export whole theirs --format peft --base-name x", codes=(1,), says=("Leave the product out of adapter.patterns",))
    at.train(f"{beside} '{right[1]}={right[2]}'", run="part", silent=("will refuse",))
    at("export part theirs --format peft --base-name x")
    # Of one block, only that block's products are named.
    right = re.search(r"set adapter.patterns = (\[.*\])", at(f"check deck.toml {beside} adapter.patterns=[blocks.1.*]").text)
    assert "blocks.1.ffn_out" in right[1] and "*" not in right[1], right[1]


@story(CASES, fast=True)
def adapters(at):
    """adapters beside a base: a restart has the bits of one run, readers find the base, and other weights are refused"""
    at.take("one", run="base")
    beside = "model.init_from=base adapter.rank=2 train.steps=8 checkpoint.every_steps=4 checkpoint.keep_last=0"
    said = at.train(beside, run="whole").text
    assert re.search(r"M parameters, 0\.\d+M of them trained", said) and "training adapters on the base model " in said
    assert "computes differently" not in said
    at.train(f"{beside} --restart whole/checkpoints/step-00000004", run="rest")
    assert at.losses("rest") == at.losses("whole")[4:]
    held = at("inspect whole --verify").out
    assert "blocks.0.qkv.lora_a" in held and "blocks.0.qkv.weight" not in held
    loss = at("evaluate whole").out
    assert loss != at("evaluate base").out
    at("export whole merged")
    at("import merged again", silent=("weights in",))
    at("export whole half --dtype bf16")
    at("import half from-half", says=("weights in bf16 are stored as f32 in the checkpoint, which export converts back to bf16",))
    of_merged, of_both = (re.search(r"loss ([\d.]+)", at(f"evaluate {model} --data text.tokens --samples 8").out)[1] for model in ("again", "whole"))
    assert abs(float(of_merged) - float(of_both)) < 1e-5  # roundings of f32
    # Where the base went, and what is not it.
    at("mv base moved; ! $TRIREME evaluate whole")
    assert at("evaluate whole --base moved").out == loss
    at.train("train.steps=2 train.seed=9", run="other")
    at("evaluate whole --base other", codes=(1,), says=("is not the base model that these adapters were trained with",))
    at.train(f"{beside} model.init_from=other --restart latest", run="whole", codes=(1,), says=("is not the base model that these adapters were trained with",))
    at.train("adapter.rank=2", run="none", codes=(1,), says=("Name its checkpoint with model.init_from",))
    for key in ("adapter.dropout=0.1", "adapter.alpha=8", "adapter.rank_stabilized=true"):
        at.train(key, run="none", codes=REFUSED, says=(f"{key.split('=')[0]} has no effect without adapters",))
    at.train(f"{beside} adapter.patterns=[]", run="none", codes=(1,), says=("matches no matrix product",))
    at.train(f"{beside} model.init_from=whole", run="none", codes=(1,), says=("contains adapters without their base model",))
    at("evaluate moved --base other", codes=(1,), says=("it is a complete model",))
    # A run that went on still has the checkpoint; one that holds the base is not overwritten.
    at.train("train.steps=14 --restart latest", run="moved")
    assert at("evaluate whole --base moved").out == loss
    (at / "moved").rename(at / "base")
    at.train(f"{beside} model.init_from=base/checkpoints/step-00000012 --overwrite", run="base", codes=(1,), says=("--overwrite would remove",))
    assert at("evaluate whole").out == loss
    at("export base adapters --format peft --base-name x", codes=(1,), says=("it is a complete model",))


@story(CASES, fast=True)
def optimizers(at):
    """a restart keeps the optimizer of matrices, also where the arrays of another one have the same names and shapes"""
    at.take("one", run="base")
    beside = "model.init_from=base adapter.rank=2 checkpoint.every_steps=4 checkpoint.keep_last=0"
    decks = {"sgd": "optimizer.name=sgd optimizer.momentum=0.9", "muon": "optimizer.name=muon"}
    for name, words in decks.items():
        at.train(f"{beside} {words} train.steps=4", run=name)
    # The checkpoints of both have the same arrays, so only their decks say which optimizer made them.
    files = [at.json(f"{name}/checkpoints/step-00000004/manifest.json")["content"]["files"] for name in decks]
    of_sgd, of_muon = ({(s["group"], s["name"], *s["shape"]) for file in all_files for s in file.get("slices", [])} for all_files in files)
    assert of_sgd == of_muon and len({group for group, *_ in of_sgd}) == 2, (of_sgd, of_muon)
    for before, after in (("sgd", "muon"), ("muon", "sgd")):
        refusal = rf'{before}/checkpoints/step-00000004 was trained with optimizer\.name = "{before}", but the deck has "{after}": restart with the same optimizer'
        at.train(f"{beside} {decks[after]} train.steps=8 --restart latest", run=before, codes=(1,), says=(refusal,))
        assert len(at.losses(before)) == 4
        at.train(f"{beside} {decks[after]} train.steps=8 --restart {before}/checkpoints/step-00000004", run="other", codes=(1,), says=(refusal,))
        at.train(f"{beside} {decks[before]} train.steps=8 --restart latest", run=before)
        assert len(at.losses(before)) == 8


@story(CASES, fast=True)
def patterns_of_adamw(at):
    """a restart that moves matrices to AdamW names optimizer.adamw_patterns"""
    muon = "optimizer.name=muon optimizer.adamw_lr=1e-3 checkpoint.every_steps=4"
    at.train(f"{muon} train.steps=4", run="muon")
    at.train(f"{muon} train.steps=8 --restart latest 'optimizer.adamw_patterns=[\"blocks.0.*\"]'", run="muon", codes=(1,),
             says=("was trained with another optimizer", "restart with the optimizer settings in its deck, including optimizer.adamw_patterns"))
    assert len(at.losses("muon")) == 4


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
    assert "merged into the weights of" in at("export nf4 merged").text
    at.train(f"{words} --restart latest", run="nf4", codes=(1,), says=("adapter.base",))
    at.train("adapter.base=nf4", run="none", codes=REFUSED, says=("has no effect without adapters",))


TURNS = "{% for m in messages %}{{ ('Q:' if m.role == 'user' else 'A:') + m.content + '\\n' }}{% endfor %}{{ 'A:' if add_generation_prompt }}"


@story(CASES, fast=True)
def shown(at):
    """a token file says what it holds and what is learnt of a document; other templates and lost bases are spoken of"""
    at.write("turns.jinja", TURNS)
    at.write("other.jinja", TURNS.replace("A:", "B:"))
    talks = [[("user", "one"), ("assistant", "two\u00e9"), ("user", "3"), ("assistant", "4")], [("user", "five"), ("assistant", "six")]]
    lines = (", ".join(f'{{"role": "{role}", "content": "{content}"}}' for role, content in talk) for talk in talks)
    at.write("talks.jsonl", "".join(f'{{"messages": [{line}]}}\n' for line in lines))
    for name in ("turns", "other"):
        at(f"tokenize talks.jsonl --chat --template {name}.jinja --output {name}.tokens")
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
    at("inspect base --document 0", codes=(1,), says=("applies only to token files",))
    at("generate base --chat --template other.jinja --prompt one --tokens 1", says=("was trained with another chat template",))
    at("generate base --chat --prompt 123456789 --tokens 1", says=("the prompt has 14 tokens, but the model sees only the last 8",))
    at("evaluate base --data other.tokens", says=("have another chat template", "in windows of 8"))
    beside = f"{words} data.validation=[] model.init_from=base adapter.rank=2 train.steps=2"
    at.train(f"{beside} model.context=16", run="long", says=("was trained only with positions up to 8",))
    at.train(beside, run="tuned")
    (at / "base").rename(at / "moved")
    for ranks in (0, 2):
        at("evaluate tuned --data turns.tokens", ranks=ranks, codes=(1,), says=("the base model of these adapters, does not exist", "--base"))


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
    at(f"train deck.toml {taught} distill.teacher=other train.steps=4 --restart latest --run-dir other", codes=(1,), says=("is a checkpoint of this run, which removes",))
    at(f"train deck.toml {words} distill.teacher=other --restart one/checkpoints/step-00000004 --run-dir none", codes=(1,),
       says=("is not the teacher that this run was trained with",))
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
    at(f"train deck.toml {words} --restart latest --run-dir one train.steps=14", codes=(1,), says=("distill.teacher: there is no .*teacher",))
    at(f"train deck.toml {words} distill.teacher=moved --restart latest --run-dir one train.steps=14")
    at(f"check deck.toml {taught} distill.teacher=moved model.layers=4 parallel.pipe=2 parallel.schedule=zbv parallel.chunks=2 --ranks 2",
       codes=REFUSED, says=("has 2 blocks",))
    for more, why in (("distill.teacher=moved model.context=16", "supports 8 positions"), ("distill.teacher=moved run.exactness=invariant", "\"invariant\""),
                      ("distill.teacher=", "need each other"), ("train.objective=tokens", "need each other"),
                      ("distill.teacher=moved run.replay_every=2", "run.replay_every"), ("distill.teacher=moved model.vocab=300", "a vocabulary of 256")):
        for command in ("train", "check"):
            run = " --run-dir none" if command == "train" else ""
            at(f"{command} deck.toml {taught} {more}{run}", codes=REFUSED, says=(why,))


@story(CASES, fast=True)
def documents(at):
    """whole documents: what is left out is counted apart, tokens a second are those that are there, an evaluation reads what training does"""
    lengths = [3, 8, 1, 30, 17, 2, 5, 8, 8]  # with the separator one more; a sample has 8 inputs
    at.write("lines.jsonl", "".join(f'{{"prompt": "{"p" * (n - 1)}", "completion": "c"}}\n' for n in lengths) + 3 * '{"prompt": "q", "completion": ""}\n')
    at("tokenize lines.jsonl --prompt prompt --completion completion --output lines.tokens")
    words = f"{DOCUMENTS} data.path=lines.tokens data.validation=[lines2.tokens] train.steps=2 evaluate.batches=0 precision.compute=f64 run.backend=ref model.dropout=0"
    (at / "lines2.tokens").write_bytes((at / "lines.tokens").read_bytes())
    for way, documents, said in (("cut", 10, "2 longer than a sample are cut, which loses 20.0% of the targets; 2 without a target are left out"),
                                 ("split", 12, "2 longer than a sample are split into several, which loses 0.0% of the targets; 0 without"),
                                 ("drop", 10, "2 longer than a sample are left out, which loses")):
        text = at.train(f"{words} data.long_documents={way} --overwrite", run="run").text
        assert f"lines.tokens (training): {documents} documents packed into " in text and said in text, text
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
        loss, targets = re.search(r"loss ([\d.]+), .* over (\d+) targets?", at("evaluate run --data line.tokens").out).groups()
        sums = [sums[0] + float(loss) * int(targets), sums[1] + int(targets)]
    assert f"over {sums[1]} targets" in got and abs(sums[0] / sums[1] - loss_of(got)) < 2e-6, (sums, got)
    # Two steps of four samples: all five of 38 inputs, and three of them again.
    there = sum(float(row["tokens_per_second"]) * float(row["seconds"]) for row in at.rows("run"))
    assert 38 < there < 2 * 4 * 8 - 1.5 and abs(at.json("run/timing.json")["processes"][0]["tokens"] - there) < 0.5
