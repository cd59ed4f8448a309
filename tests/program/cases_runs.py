"""What a run makes, and what it does with odd numbers, older checkpoints, other CPUs: on one rank."""
import json
import re
import shutil
import tempfile
from pathlib import Path

from fixture import DECK
from judging import checkpoints_of
from reading import has_bf16
from rows import FAIL, REFUSED, Case, Run, story

FAILED = "grep -q '\"failed\"' run/outcome.json"
OLDER = "ONEDNN_MAX_CPU_ISA=AVX2"  # for oneDNN, as on a CPU without AVX-512
WILD = "optimizer.lr=1000 schedule.shape=constant checkpoint.every_steps=0 "  # decay by a factor of -99 a step: beyond f32 after 20

CASES = [
    Case("going back keeps what is saved afterwards",
         [Run("--restart run/checkpoints/step-00000004 train.steps=6 checkpoint.keep_last=1",
              then="cd run/checkpoints; [ -e step-00000006 ] && [ -e left-step-00000012 ] && [ ! -e step-00000012 ]")], start="done", finish="", fast=True),
    Case("steps that are not finite stop the run", [Run(WILD + "train.steps=50", codes=(1,), says=("5 steps in a row were skipped, the last at step ",),
                                                       then=FAILED)], finish=""),
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
def skipped(at):
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
    at.write("late.toml", DECK + rule("blocks.0.*", 12, 0, "fresh") + rule("blocks.1.*", 3, 13, "fresh"))
    at.write("timely.toml", DECK + rule("blocks.0.*", 11, 0, "fresh") + rule("blocks.1.*", 3, 12, "fresh"))
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


@story(CASES, fast=True)
def frozen_steps(at):
    """steps of freeze rules count from 0, those of the history from 1"""
    at.write("freeze.toml", DECK + rule("*", 3, 5, "fresh"))
    at("train freeze.toml --run-dir run", silent=("stalled",))
    assert [int(row["step"]) for row in at.rows("run") if float(row["grad_norm"]) == 0] == [4, 5]


@story(CASES, fast=True)
def many_threads(at):
    """more threads than processors are warned of"""
    one = "exec taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[,-].*//') $TRIREME"
    for command in ("check deck.toml", "train deck.toml train.steps=1 --run-dir run"):
        said = at(f"{one} {command} run.threads=2").text
        assert said.count("a rank computes with 2 threads but may use only 1 processor of this node") == 1
    at(f"{one} check deck.toml", silent=("warning",))
    at(f"{one} check deck.toml --ranks 2 run.threads=2", silent=("threads",))  # which run elsewhere


@story(CASES, fast=True)
def ranks_checked(at):
    """a check is for the ranks that run it, unless it names others"""
    assert at("check deck.toml parallel.pipe=2", ranks=2).text.count("is valid on pipe 2 x data 1 x seq 1") == 1
    at("check deck.toml zero.stage=3 zero.shard=node", ranks=2, says=("is valid on pipe 1 x data 2",))
    at("check deck.toml parallel.pipe=2", codes=(1,), says=("does not fill 1 rank",))
    at("check deck.toml parallel.pipe=2 --ranks 4", ranks=2, says=("is valid on pipe 2 x data 2",))
    at("check deck.toml parallel.pipe=3", ranks=2, codes=(1,), once=("more than model.layers = 2",))


@story(CASES, fast=True)
def peak(at):
    """a machine file gives the history its peak"""
    at.train("run.machine=machine.toml train.steps=2")
    assert float(at.rows("run")[-1]["mfu"]) > 0


# Freeze rules that a checkpoint's deck had or had not.

def rule(pattern, begin, end, moments):
    return f'[[freeze]]\npattern = "{pattern}"\nfrom_step = {begin}\nto_step = {end}\nmoments = "{moments}"\n'


def whole_and_cut(at, whole, cut, then):
    """A run by the rules `whole`, and one by the rules `cut` that from step 4 on is by `then`: the same."""
    for name, rules in (("whole", whole), ("cut", cut), ("then", then)):
        at.write(f"{name}.toml", DECK + rules)
    for name in ("whole", "cut"):
        at(f"train {name}.toml --overwrite --run-dir {name}")
    for step in (8, 12):
        shutil.rmtree(at / f"cut/checkpoints/step-{step:08}")
    at("train then.toml --run-dir cut --restart latest")
    at.same("cut", "whole")


@story(CASES, fast=True)
def new_rules(at):
    """a restart takes up freeze rules that are new"""
    rules = rule("blocks.0.*", 4, 8, "fresh") + rule("*norm*", 4, 8, "keep")
    whole_and_cut(at, rules, "", rules)
    assert at.meta("cut", 12)["updates"]["blocks.0.qkv.weight"] == 4  # those behind its thaw


@story(CASES, each=("*norm*", "*.qkv.*"))
def old_rules(at, pattern):
    """a restart goes on without freeze rules that are gone"""
    whole_and_cut(at, rule(pattern, 0, 4, "keep"), rule(pattern, 0, 0, "keep"), "")


@story(CASES, fast=True)
def less_memory(at):
    """a restart takes no memory for moments that are dropped"""
    at.write("frozen.toml", DECK + rule("embedding.*", 0, 0, "fresh"))
    at.take("one", "cut", "cut")
    at("train frozen.toml --run-dir frozen")
    at("train frozen.toml --run-dir cut --restart latest")
    at.take("one", run="plain")
    cut, frozen, plain = (int(at.rows(run)[-1]["bytes_peak"]) for run in ("cut", "frozen", "plain"))
    assert cut == frozen < plain


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


# Other CPUs.

@story(CASES)
def without_bf16(at):
    """without bf16 it computes in f32 and says so once"""
    says = ("cannot multiply bf16: computing in f32",)
    at(f"{OLDER} exec $TRIREME train deck.toml --run-dir wide", silent=says)
    at(f"{OLDER} exec $TRIREME train deck.toml precision.compute=bf16 --run-dir narrow", once=says)
    at.same("narrow", "wide")
    for command in ("check deck.toml precision.compute=bf16", "evaluate narrow", "generate narrow --prompt the --tokens 3"):
        at(f"{OLDER} exec $TRIREME {command}", once=says)
    if has_bf16():
        at("train deck.toml precision.compute=bf16 --run-dir narrow --overwrite", silent=says)
        assert at.losses("narrow") != at.losses("wide")


@story(CASES)
def another_cpu(at):
    """a restart on another kind of CPU says so, where bits are promised"""
    exact, said = "run.exactness=invariant run.exact_chunk=4", ("the checkpoint was written on another kind of machine",)
    at.train(f"{exact} train.steps=1")
    kind = at.json("run/outcome.json")["machine"]
    assert ", oneDNN " in kind and ", kernels for " in kind and kind in at("inspect run").out
    at.train(f"{exact} train.steps=2 --restart latest", silent=said)
    older = "ONEDNN_MAX_CPU_ISA=AVX exec $TRIREME train deck.toml --run-dir run --restart latest "
    at(f"{older} {exact} train.steps=3", once=said)
    assert at.json("run/outcome.json")["machine"] != kind
    at.train("run.exactness=repeatable train.steps=4 --restart latest", once=said)
    at(f"{older} train.steps=5", silent=said)  # fast


# Checkpoints of older formats, written by a run of eight steps on two ranks after the fourth. In format 1, AdamW's arrays
# are moment1 and moment2, their updates `adam_counts`. Formats 1 and 2 have the model only in the deck.

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
