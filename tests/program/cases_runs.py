"""What a run makes and says."""
import json
import re
import shutil
import tempfile
from pathlib import Path

from fixture import DECK, freeze_rule
from judging import checkpoints_of
from rows import FAIL, REFUSED, Case, Run, story

CASES = [
    Case("going back keeps what is saved afterwards",
         [Run("--restart run/checkpoints/step-00000004 train.steps=6 checkpoint.keep_last=1",
              then="cd run/checkpoints; [ -e step-00000006 ] && [ -e left-step-00000012 ] && [ ! -e step-00000012 ]")], start="done", finish="", fast=True),
    *(Case(f"a run that fails keeps the checkpoint before, {name}",
           [Run(f"checkpoint.every_steps=1 optimizer.lr=1000 optimizer.weight_decay=1000 schedule.warmup_steps=0 train.max_skipped=1 train.steps=100 {more}",
                codes=(1,), says=("not finite",), then="n=$(tail -1 run/history.csv | cut -d, -f1); [ -e run/checkpoints/step-$(printf %08d $((n - 1)))/manifest.json ]")],
           config="data2", finish="") for name, more in (("behind training", ""), ("at once", "checkpoint.async=false"))),
    # What stands around memory changes no bit, and finds nothing.
    *(Case(f"guards of memory: {config}", [Run("run.guards=true")], config=config, fast=config in ("one", "seq2"))
      for config in ("one", "bf16", "at-once", "recompute", "f64", "seq2", "data2-zero3", "pipe2-data2")),
    # Checkpoints that are written while training goes on are those that training would have waited for.
    *(Case(f"a save at once is one behind training: {config}", [Run("checkpoint.async=false")], config=config, fast=config == "one")
      for config in ("one", "data2-zero3", "grid-axes")),
    Case("a save after every step", [Run("checkpoint.every_steps=1", then="[ $(ls run/checkpoints | wc -l) = 12 ] && $TRIREME inspect run --verify")], config="data2"),
    Case("any number of threads has the same bits", [Run("run.threads=8")], config="exact", fast=True),
    Case("a hail of signals changes no bit", [Run(command="$TRIREME train deck.toml model.width=256 train.batch=300 train.microbatch=1 train.steps=2 --run-dir run & p=$!; "
                                                        "while [ ! -e run/outcome.json ]; do sleep 0.01; done; while kill -USR1 $p 2>/dev/null; do sleep 0.002; done; wait $p")],
         config="wide", finish="bits"),
]


@story(CASES, fast=True)
def files(at):
    """the files of a run"""
    at.take("one")
    assert len(at.rows("run")) == 12
    assert [row["step"] for row in at.rows("run", "evaluation.csv")] == ["6", "12"]
    outcome = at.json("run/outcome.json")
    assert outcome["status"] == "done" and outcome["step"] == 12
    meta = at.meta("run", 12)
    assert meta["samples"] == 12 * 4 and meta["tokens"] == 12 * 4 * 8
    at("check run/effective.toml")
    log = at.read("run/log")
    for text in ("info trireme ", "deck.toml, run directory /", "12 steps in 00:00:", "tokens/s on average", "last checkpoint run/checkpoints/step-00000012"):
        assert text in log


@story(CASES, fast=True)
def commands(at):
    """what reads a run"""
    at.take("one")
    generate = "generate run --prompt the --tokens 20 --seed 4"
    text = at(generate).out
    assert text.startswith("the") and len(text) > 3
    assert at(generate).out == text
    assert "loss " in at("evaluate run").out
    assert "blocks.0.qkv.weight" in at("inspect run --verify").out


@story(CASES, fast=True)
def place(at):
    """where a run would be"""
    ask = "cp deck.toml other; exec $TRIREME train other run.machine=machines/x.toml --print-run-dir "
    assert at(ask).out == "runs/other\n"
    assert at(f"N=7; export N; {ask} --overwrite --run-dir '${{N}} b'").out == "7 b\n"
    assert not (at / "runs").exists()
    at(ask + "model.width=wide", codes=(1,))


@story(CASES, fast=True)
def jobs(at):
    """the log of a batch job"""
    at("SLURM_JOB_ID=123 SLURM_RESTART_COUNT=2 SLURM_JOB_NODELIST='n[1-2]' exec $TRIREME train deck.toml train.steps=1 'train.seed=${SLURM_JOB_ID}' "
       "--run-dir 'runs/${SLURM_JOB_ID}'")
    assert "Slurm job 123, restart 2, on n[1-2]: 1 rank, " in at.read("runs/123/log")
    assert "seed = 123" in at.read("runs/123/effective.toml")


@story(CASES)
def wider(at):
    """weights of f32 start a run in f64"""
    at.take("one", run="base")
    for name, more in (("in32", ""), ("in64", "precision.compute=f64")):
        at.train(f"model.init_from=base train.steps=1 model.dropout=0 run.backend=ref {more}", run=name)
    narrow, wide = at.losses("in32")[0], at.losses("in64")[0]
    assert narrow != wide and abs(narrow - wide) < 1e-5  # roundings of f32


@story(CASES, fast=True)
def fewer_digests(at):
    """digests past a restart are dropped"""
    at.train("run.digest_every=2")
    for step in (8, 12):
        shutil.rmtree(at / f"run/checkpoints/step-{step:08}")
    at.train("--restart latest train.steps=8")
    assert len(at.rows("run", "digests.csv")) == 2
    at.train("--overwrite train.steps=2")
    assert not (at / "run/digests.csv").exists()


def trained(at, run):
    return [int(row["trained_tokens"]) for row in at.rows(run)]


@story(CASES, fast=True)
def trained_tokens(at):
    """targets that count in the loss are counted, on each grid and over a restart"""
    at.write("chat.jsonl", '{"p": "%s", "c": "%s"}' % ("abcdefghij" * 10, "hijkl" * 200))
    at("tokenize chat.jsonl --prompt p --completion c --output masked.tokens")
    masked = "data.path=masked.tokens data.order=sequential data.validation=0 checkpoint.every_steps=4"
    # A step has 4 samples of 8 tokens. The targets of n steps are the tokens 1 to 32 n, of which the first 99 are masked.
    expected = [max(0, 32 * step - 99) for step in range(1, 13)]
    at.train(masked, says=(f"tokens/s on average, {expected[-1]} of {12 * 32} tokens trained; metrics",))
    assert trained(at, "run") == expected
    assert at.meta("run", 4)["extra"]["trained_tokens"] == str(expected[3])
    for config in ("data2-zero3", "pipe2", "seq2"):
        at.train(masked, config=config, run=config)
        assert trained(at, config) == expected, config
    # Skipped steps train nothing.
    at.train(f"{masked} train.skip_steps=[6]", run="skipped")
    assert trained(at, "skipped") == expected[:5] + [n - 32 for n in [expected[5], *expected[6:]]]
    # A kill between checkpoints, and tables that are lost.
    at.train(masked, run="killed", faults="write */killed/history.csv 7 then:SIGKILL", codes=FAIL)
    (at / "killed/history.csv").unlink()
    at.train(f"{masked} --restart latest", run="killed")
    assert trained(at, "killed") == expected
    at.train(f"{masked} --restart run/checkpoints/step-00000004 train.steps=8", run="other")
    assert trained(at, "other") == expected[4:8]
    assert at.json("run/checkpoints/step-00000012/manifest.json")["content"]["checkpoint"]["extra"]["trained_tokens"] == str(expected[-1])
    at("report run --output page.html")
    assert f'"trained_tokens":{expected[-1]}' in at.read("page.html")
    at.train(f"{masked} data.path=text.tokens", run="plain", silent=("tokens trained",))
    assert trained(at, "plain") == [32 * step for step in range(1, 13)]
    said = at("compare run plain --no-replay", codes=(1,)).out
    assert "\n  trained_tokens 0 and 32\n" in said, said


@story(CASES, fast=True)
def lengths(at):
    """lengths that do not fit are warned of"""
    sound = at("check deck.toml", silent=("warning",)).text
    samples = int(re.search(r"all trained, (\d+) samples", sound)[1])
    at(f"check deck.toml train.microbatch=1 train.batch={samples} schedule.warmup_steps=12", silent=("warning",))
    at(f"check deck.toml train.microbatch=1 train.batch={samples + 1}", says=("samples of an epoch",))
    # Where an epoch ends with a step, and where it ends within the second.
    for batch in (samples, samples - 1):
        at.train(f"train.microbatch=1 train.batch={batch} train.steps=2 schedule.warmup_steps=0 --overwrite", says=("step 2: epoch 2 begins",), silent=("step 1: epoch",))
    at.train(f"train.microbatch=1 train.batch={samples} train.steps=1 schedule.warmup_steps=0 --overwrite", silent=("epoch 2 begins", "1 steps"))
    at("check deck.toml parallel.pipe=2 data.path=none.tokens", codes=(1,), says=("start a multiple of 2", "none.tokens"))  # both at once
    at("check deck.toml data.validation=none.tokens", codes=(1,), says=("none.tokens",), silent=("vocabulary",))
    (at.folder / "frozen.toml").write_text((at.folder / "deck.toml").read_text() + "[[freeze]]\npattern = '*'\n")
    at("check frozen.toml", says=("nothing is trained",))
    at("check deck.toml schedule.warmup_steps=24", says=("schedule.warmup_steps = 24 is longer than the run of 12 steps: the learning rate reaches 0.0015",))


@story(CASES, fast=True)
def beyond(at):
    """what lies beyond the run's end is warned of, one line each"""
    at.write("late.toml", DECK + freeze_rule("blocks.0.*", 12, 0, "fresh") + freeze_rule("blocks.1.*", 3, 13, "fresh"))
    at.write("timely.toml", DECK + freeze_rule("blocks.0.*", 11, 0, "fresh") + freeze_rule("blocks.1.*", 3, 12, "fresh"))
    for command in ("check late.toml", "train late.toml --run-dir run"):
        said = at(f"{command} run.trace_steps=[11,13] schedule.decay_steps=11 run.log_every=0").text
        for says in (r"run.trace_steps = \[11, 13\] is beyond the run's last step, 12: the trace ends there",
                     r'\[\[freeze\]\] rule of "blocks.0.\*" begins at step 12, but the run.s last step is 11 .*: it freezes nothing',
                     r'\[\[freeze\]\] rule of "blocks.1.\*" ends at step 13, but the run.s last step is 11 .*: it freezes until the run ends',
                     "schedule.decay_steps = 11 is longer than the run after warmup, 10 steps: the learning rate falls only to [0-9.e-]+, not to schedule.min_lr = 0"):
            assert len(re.findall(says, said)) == 1, (says, said)
        assert said.count("warning") == 4
    at("check timely.toml run.trace_steps=[11,12] schedule.decay_steps=10", silent=("warning",))
    at("check deck.toml run.trace_steps=[13,14]", says=("is beyond the run's last step, 12: nothing is traced",))
    at("check deck.toml schedule.shape=wsd schedule.decay_steps=11", says=("is longer than the run after warmup, 10 steps",))
    keys = """train.microbatch=1 'train.batch_ramp=["2 until 12 steps"]' 'train.skip_steps=["3","13-15"]' train.ema=0.9 schedule.shape=wsd schedule.decay_steps=4 schedule.decay_end_steps=[6,9]"""
    for command in ("check deck.toml", "train deck.toml --run-dir short"):
        said = at(f"{command} {keys} run.log_every=0").text
        for says in ('train.batch_ramp has "2 until 12 steps", but the run ends before, after 12 steps and 192 tokens: no step has train.batch = 4 samples',
                     'train.skip_steps contains "13-15", but the run has only 12 steps',
                     "the decay before 9 lasts only 3 steps, because the decay before ends at 6",
                     "train.ema = 0.9 averages over about 10 steps, but the run has 12 steps: at its end, the first weights are 28.2% of the average"):
            assert said.count(says) == 1, (says, said)
        assert said.count("warning") == 4 + said.count("step 3 is skipped"), said
    at("check deck.toml " + keys.replace("until 12", "until 11").replace("13-15", "12-15").replace("0.9", "0.6").replace("=4", "=3"), silent=("warning",))


@story(CASES, fast=True)
def stalled(at):
    """unusual learning rates and training that learns nothing are warned of, and the report marks the step"""
    at("check deck.toml optimizer.lr=1e3", says=("optimizer.lr = 1000 is far above the usual learning rates",))
    at("check deck.toml optimizer.lr=1e-9", says=("is far below the usual learning rates",))
    at("check deck.toml optimizer.lr=0.05", silent=("usual learning rates",))
    at("check deck.toml optimizer.name=muon optimizer.lr=1 optimizer.adamw_lr=1",
       says=('optimizer.lr = 1 is far above the usual learning rates of optimizer.name = "muon" with optimizer.matrix_scale = ', "optimizer.adamw_lr = 1 is far above the usual learning rates of AdamW"))
    at('check deck.toml optimizer.name=muon optimizer.lr=0.2 optimizer.matrix_scale="0.2 sqrt(max(out, in))"', says=("optimizer.lr = 0.2 is far above",))
    at("check deck.toml optimizer.name=muon optimizer.lr=0.02", says=("AdamW updates all other parameters with optimizer.lr = 0.02, because optimizer.adamw_lr is not set",))
    at("check deck.toml optimizer.name=muon optimizer.lr=0.2 optimizer.adamw_lr=1e-3", silent=("usual learning rates",), says=("muon updates 12 matrices with",))
    at("check deck.toml optimizer.name=shampoo optimizer.lr=1e-6", says=("optimizer.lr = 1e-6 is far below",))
    samples = re.search(r"all trained, (\d+) samples", at("check deck.toml").text)[1]
    said = at(f"train deck.toml --run-dir run train.batch={samples} train.microbatch=1 model.dropout=0 optimizer.name=sgd optimizer.lr=1e-9 "
              "schedule.shape=constant schedule.warmup_steps=0 train.steps=110 evaluate.every_steps=0 checkpoint.every_steps=0").text
    assert re.findall(r"step (\d+): training stalled: the loss has been", said) == ["51"], said
    at("report run --output page.html")
    assert '"stalled":[{"step":51,' in (at / "page.html").read_text()


@story(CASES)
def tokenizers(at):
    """tokens of another tokenizer are refused, those of the model's own are not"""
    at.take("one")
    at("export run hf")
    (at / "other").mkdir()
    names = str.maketrans("ab", "ba")
    at.write("other/tokenizer.json", re.sub(r'"([ab])": (97|98)\b', lambda m: f'"{m[1].translate(names)}": {m[2]}', at.read("hf/tokenizer.json")))
    for name in ("hf", "other"):
        at(f"tokenize text.txt --separator none --tokenizer {name} -o {name}.tokens")
    check = "check deck.toml model.init_from=run data.path="
    at(check + "other.tokens", codes=REFUSED, says=("tokenizer", "--tokenizer", "/run/checkpoints/step-00000012 is a model of"))
    at(check + "'[\"hf.tokens\", \"text.tokens\"]'")
    at("train deck.toml train.steps=14 --run-dir run --restart latest data.path=other.tokens", codes=REFUSED, says=("tokenizer",))


@story(CASES)
def asked_by_files(at):
    """files ask as signals do"""
    ended = at("$TRIREME train deck.toml train.steps=1000000 checkpoint.every_steps=0 evaluate.every_steps=0 run.log_every=0 --run-dir run & p=$!; "
               "until [ $(cat run/history.csv 2>/dev/null | wc -l) -gt 5 ]; do sleep 0.01; done; touch run/checkpoint_now; "
               "until ls run/checkpoints/step-*/manifest.json >/dev/null 2>&1; do sleep 0.01; done; cat /proc/$p/comm; touch run/stop_now; wait $p", codes=(75,))
    assert ended.out == "trireme\n"  # what top and the kernel's messages call it
    assert at.json("run/outcome.json")["exit_reason"] == "the file stop_now asked for it"
    assert not list((at / "run").glob("*_now"))
    assert len(checkpoints_of(at / "run")) == 2


@story(CASES, fast=True)
def outputs_of_generate(at):
    """a file of continuations is written anew, what is open already is written to behind what it holds"""
    at.take("one")
    at.write("asked.txt", "first\nsecond\n")
    generate = "generate run --prompts asked.txt --tokens 2 --output "
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        at(generate + folder + "/out.jsonl")
        at(generate + folder + "/out.jsonl", codes=(1,), says=("replace it with --overwrite",))
        at(generate + folder + "/out.jsonl --overwrite")
        assert len(Path(folder, "out.jsonl").read_text().splitlines()) == 2
    at.write("kept.txt", "kept\n")
    at(f"$TRIREME {generate} /dev/stdout >> kept.txt")
    assert [line[:6] for line in at.read("kept.txt").splitlines()] == ["kept", '{"prom', '{"prom']


@story(CASES, fast=True)
def epochs(at):
    """train.epochs counts passes over the data, also where a restart has other ones or another batch"""
    batch, context = 4, 8
    size = int(re.search(r"(\d+) samples per epoch", at("check deck.toml train.epochs=2").out)[1])
    steps = -(-2 * size // batch)
    at("plan deck.toml train.epochs=2")
    at.train("train.epochs=2", says=(f"step {size // batch + 1}: epoch 2 begins",))
    assert len(at.rows("run")) == steps
    deck = at.read("run/effective.toml")
    assert f"\ntokens = {2 * size * context}\n" in re.sub(r" *#.*|_", "", deck) and "\nepochs" not in deck
    at.train("train.epochs=2 --restart latest", says=("the run is finished",))
    at.train(f"train.epochs=2.5 train.batch={2 * batch} --restart latest")
    assert len(at.rows("run")) == steps + -(-(-(-5 * size // 2) - steps * batch) // (2 * batch))
    # The samples of all steps, although the batch changed.
    begin = 0
    for step in range(1, len(at.rows("run")) + 1):
        first, *_ = listed = [json.loads(line)["sample"] for line in at(f"samples run --step {step}").out.splitlines()]
        assert first == begin and len(listed) == (batch if step <= steps else 2 * batch), (step, listed, begin)
        begin += len(listed)
    at.train("train.epochs=2", config="data2", run="two")
    assert len(at.rows("two")) == steps
    at.write("deck.toml", DECK.replace("steps = 12", "steps = 12\nepochs = 1"))
    at("check deck.toml", codes=(1,), says=("sets more than one of train.steps",))
