#!/usr/bin/env python3
"""Digests of short trainings, to show that a change leaves the numbers as they are, bit for bit.

  tests/same_bits.py BINARY > FILE           a line for each training of a fixed table
  tests/same_bits.py BINARY --compare FILE   names the trainings that differ from FILE; exit code 1 when there are any
  tests/same_bits.py OLD NEW                 the same for two binaries
  tests/same_bits.py --self-test             plants differences and looks for them

A line has digests of the last checkpoint's weights and optimizer state, of history.csv's loss, grad_norm, lr and
bytes_sent, and of evaluation.csv. Digests of two kinds of CPU differ: take FILE on the machine where it is compared.
"""
import argparse
import csv
import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ("step", "loss", "grad_norm", "lr", "bytes_sent")
BYTES = {"f32": 4, "f64": 8}

DECK = """
[model]
layers = 3
width = 32
heads = 4
context = 16

[data]
path = "text.tokens"

[train]
batch = 8
microbatch = 2
steps = 3

[optimizer]
lr = 3e-3

[schedule]
warmup_steps = 1

[run]
backend = "host"
threads = 1
"""

LLAMA = "model.norm=rms model.positions=rotary model.activation=swiglu model.bias=false model.tied=false"
GQA = LLAMA + " model.kv_heads=2"
F64 = "run.backend=ref precision.compute=f64"
BF16 = "precision.compute=bf16"
EVALUATE = "data.validation=0.2 evaluate.every_steps=2 evaluate.batches=2"
FIRST_BLOCKS = [{"pattern": p} for p in ("embedding.*", "positions.*", "blocks.0.*", "blocks.1.*")]
THAWED = [{"pattern": "blocks.1.*", "from_step": 1, "to_step": 2, "moments": "keep"},
          {"pattern": "*_norm.*", "from_step": 1, "to_step": 3, "moments": "fresh"}]


class Failed(Exception):
    pass


class Case:
    """A training; with `then`, another one of two more steps that restarts from its checkpoint with those overrides."""

    def __init__(self, name, ranks, overrides="", freeze=(), then=None):
        self.name, self.ranks, self.freeze = name, ranks, freeze
        self.overrides = overrides.split()
        self.then = None if then is None else (then[0], then[1].split())

    def bf16(self):
        return BF16 in self.overrides


CASES = [
    # One rank: flavours.
    Case("gpt2", 1),
    Case("gpt2-untied", 1, "model.tied=false"),
    Case("gpt2-dropout", 1, "model.dropout=0.1"),
    Case("gpt2-no-bias", 1, "model.bias=false"),
    Case("gpt2-rms", 1, "model.norm=rms model.norm_eps=1e-4"),
    Case("gpt2-uneven", 1, "model.width=36 model.heads=3 model.ffn_width=100 model.context=13"),
    Case("llama", 1, LLAMA),
    Case("llama-gqa", 1, GQA),
    Case("llama-gqa-dropout", 1, GQA + " model.dropout=0.1"),
    Case("llama-one-kv-head-tied", 1, LLAMA + " model.kv_heads=1 model.tied=true"),
    # Batches and memory.
    Case("one-microbatch", 1, "train.microbatch=8"),
    Case("eight-microbatches", 1, "train.microbatch=1"),
    Case("recompute-dropout", 1, "model.recompute=block model.dropout=0.1"),
    Case("llama-recompute", 1, GQA + " model.recompute=block"),
    Case("masks", 1, "data.path=chat.tokens"),
    Case("separator-masks", 1, "data.path=chat.tokens data.separator_masks=true data.order=sequential"),
    Case("two-files", 1, 'data.path=["text.tokens","chat.tokens"] data.weights=[1,3]'),
    Case("evaluation", 1, EVALUATE),
    Case("two-threads", 1, "run.threads=2 model.width=128 model.context=64"),
    # Optimizers and schedules.
    Case("adamw-no-clip", 1, "optimizer.clip=0 optimizer.betas=[0.8,0.99] optimizer.eps=1e-6"),
    Case("adamw-clip", 1, "optimizer.clip=0.01 optimizer.no_decay=[\"embedding.*\"]"),
    Case("sgd", 1, "optimizer.name=sgd"),
    Case("sgd-no-clip", 1, "optimizer.name=sgd optimizer.clip=0 optimizer.weight_decay=0 optimizer.lr=0.1"),
    Case("linear", 1, "schedule.shape=linear schedule.warmup_steps=0 schedule.min_lr=1e-4"),
    Case("wsd", 1, "schedule.shape=wsd schedule.decay_steps=2 train.steps=4"),
    # Number formats and backends.
    Case("bf16", 1, BF16),
    Case("bf16-llama-recompute", 1, f"{BF16} {GQA} model.recompute=block"),
    Case("bf16-dropout-eight-microbatches", 1, f"{BF16} model.dropout=0.1 train.microbatch=1"),
    Case("ref", 1, "run.backend=ref model.dropout=0.1 train.steps=2"),
    Case("ref-bf16", 1, f"run.backend=ref {BF16} {GQA} train.steps=2"),
    Case("f64", 1, f"{F64} model.dropout=0.1 train.steps=2"),
    Case("f64-llama", 1, f"{F64} {GQA} model.recompute=block optimizer.name=sgd train.steps=2"),
    Case("fenced", 1, "run.backend=fenced model.dropout=0.1"),
    Case("fenced-llama", 1, f"run.backend=fenced {GQA} model.recompute=block {EVALUATE}"),
    Case("fenced-bf16", 1, f"run.backend=fenced {BF16}"),
    # Freezing and restarts.
    Case("freeze-first-blocks", 1, "model.tied=false", FIRST_BLOCKS),
    Case("freeze-thaw", 1, "train.steps=4", THAWED),
    Case("freeze-thaw-sgd-llama", 1, GQA + " optimizer.name=sgd train.steps=4", THAWED),
    Case("restart", 1, "model.dropout=0.1 train.steps=4", then=(1, "")),
    Case("restart-thaw", 1, "train.steps=4", THAWED, then=(1, "")),
    # Two ranks.
    Case("pipe2", 2, "parallel.pipe=2"),
    Case("pipe2-llama-eight-microbatches", 2, f"parallel.pipe=2 {GQA} train.microbatch=1"),
    Case("pipe2-dropout-recompute", 2, "parallel.pipe=2 model.dropout=0.1 model.recompute=block"),
    Case("pipe2-uneven-stages", 2, "parallel.pipe=2 parallel.stage_layers=[1,2] " + EVALUATE),
    Case("pipe2-freeze", 2, "parallel.pipe=2 model.tied=false", FIRST_BLOCKS),
    Case("pipe2-bf16", 2, f"parallel.pipe=2 {BF16}"),
    Case("data2", 2, ""),
    Case("data2-zero1", 2, "zero.stage=1"),
    Case("data2-zero1-sgd", 2, "zero.stage=1 optimizer.name=sgd"),
    Case("data2-zero2", 2, "zero.stage=2 model.dropout=0.1"),
    Case("data2-zero3", 2, "zero.stage=3"),
    Case("data2-zero3-gather-step", 2, "zero.stage=3 zero.gather=step"),
    Case("data2-zero3-reduce-step", 2, "zero.stage=3 zero.reduce=step"),
    Case("data2-zero3-both-step", 2, f"zero.stage=3 zero.gather=step zero.reduce=step {GQA}"),
    Case("data2-zero3-ahead", 2, "zero.stage=3 zero.prefetch=3 zero.scatters=2 model.recompute=block"),
    Case("data2-zero3-masks", 2, "zero.stage=3 data.path=chat.tokens"),
    Case("data2-zero3-bf16", 2, f"zero.stage=3 {BF16}"),
    Case("data2-zero1-reduce-bf16", 2, f"zero.stage=1 precision.reduce=bf16 {BF16}"),
    Case("data2-zero3-freeze-thaw", 2, "zero.stage=3 train.steps=4", THAWED),
    Case("data2-zero2-freeze", 2, "zero.stage=2 model.tied=false", FIRST_BLOCKS),
    Case("data2-zero2-f64", 2, f"{F64} zero.stage=2 train.steps=2"),
    Case("seq2", 2, "parallel.seq=2"),
    Case("seq2-llama", 2, f"parallel.seq=2 {GQA} model.dropout=0.1"),
    Case("seq2-uneven-heads", 2, "parallel.seq=2 model.width=36 model.heads=3"),
    Case("seq2-zero3-recompute", 2, "parallel.seq=2 zero.stage=3 model.recompute=block " + EVALUATE),
    Case("seq2-bf16", 2, f"parallel.seq=2 zero.stage=1 {BF16}"),
    Case("seq2-zero3-fenced", 2, f"parallel.seq=2 zero.stage=3 run.backend=fenced {GQA}"),
    Case("pipe2-fenced", 2, "parallel.pipe=2 run.backend=fenced model.dropout=0.1"),
    # Four and eight.
    Case("pipe4", 4, "parallel.pipe=4 model.layers=4 train.microbatch=1"),
    Case("data4-zero3-shard2", 4, "zero.stage=3 zero.shard=2"),
    Case("data4-zero1-shard2", 4, "zero.stage=1 zero.shard=2 optimizer.name=sgd"),
    Case("pipe2-data2-zero1", 4, "parallel.pipe=2 zero.stage=1 model.dropout=0.1"),
    Case("pipe2-seq2-zero3", 4, f"parallel.pipe=2 parallel.seq=2 zero.stage=3 {GQA}"),
    Case("data2-seq2-zero2", 4, "parallel.seq=2 zero.stage=2"),
    Case("restart-on-another-grid", 4, "parallel.pipe=2 parallel.seq=2 zero.stage=3 train.steps=4",
         then=(2, "zero.stage=2")),
    Case("pipe2-data2-seq2-zero3", 8, f"parallel.pipe=2 parallel.seq=2 zero.stage=3 {BF16} model.dropout=0.1"),
    Case("pipe2-data2-seq2-zero3-f32", 8, "parallel.pipe=2 parallel.seq=2 zero.stage=3 model.recompute=block"),
]


def cpu():
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", info, re.M)
    flags = re.search(r"^flags\s*: (.*)$", info, re.M)
    flags = flags.group(1).split() if flags else []
    name = " ".join(model.group(1).split()) if model else "unknown"
    return name, hashlib.sha256(" ".join(sorted(flags)).encode()).hexdigest()[:8], "avx512bw" in flags


def short(digest):
    return digest.hexdigest()[:20]


def arrays(checkpoint):
    """{group: {name: (dtype, shape, bytes)}}: every array whole, out of the places that the manifest names."""
    content = json.loads((checkpoint / "manifest.json").read_text())["content"]
    found, filled = {}, {}
    for file in content["files"]:
        slices = file.get("slices", [])
        data = (checkpoint / file["name"]).read_bytes() if slices else b""
        for s in slices:
            size = BYTES[s["dtype"]]
            group, key = found.setdefault(s["group"], {}), (s["group"], s["name"])
            if s["name"] not in group:
                group[s["name"]] = (s["dtype"], s["shape"], bytearray(size * math.prod(s["shape"])))
            whole, begin, left = group[s["name"]][2], s["begin"], s["count"]
            for at, _ in s["chunks"]:
                n = min(left, s["chunk_elements"])
                part = data[at:at + n * size]
                if len(part) != n * size or (begin + n) * size > len(whole):
                    raise Failed(f"{checkpoint}/{file['name']}: {key} does not fit its file")
                whole[begin * size:(begin + n) * size] = part
                filled[key] = filled.get(key, 0) + n
                begin, left = begin + n, left - n
            if left:
                raise Failed(f"{checkpoint}/{file['name']}: chunks of {key} end {left} elements early")
    for (group, name), n in filled.items():
        if n != math.prod(found[group][name][1]):
            raise Failed(f"{checkpoint}: {n} elements of {group}/{name} of shape {found[group][name][1]}")
    if not found.get("weights"):
        raise Failed(f"{checkpoint}: no weights")
    return found


def digest_group(group):
    d = hashlib.sha256()
    for name, (dtype, shape, data) in sorted(group.items()):
        d.update(f"{name} {dtype} {shape}\n".encode())
        d.update(data)
    return d


def digest_checkpoint(checkpoint):
    groups = arrays(checkpoint)
    weights = short(digest_group(groups.pop("weights")))
    # By content, not by the names of the groups: a state array may be renamed.
    state = hashlib.sha256()
    for text in sorted(digest_group(g).hexdigest() for g in groups.values()):
        state.update(text.encode())
    return weights, short(state)


def digest_history(file):
    with open(file, newline="") as f:
        rows = list(csv.DictReader(f))
    if not rows or any(not row.get(c) for row in rows for c in COLUMNS):
        raise Failed(f"{file}: rows without {', '.join(COLUMNS)}")
    d = hashlib.sha256()
    for row in rows:
        d.update((",".join(row[c] for c in COLUMNS) + "\n").encode())
    return short(d)


def digest_run(run):
    """The fields of a case's line."""
    last = max((run / "checkpoints").glob("step-*"), default=None)
    if last is None:
        raise Failed(f"{run}: no checkpoint")
    weights, state = digest_checkpoint(last)
    fields = [f"weights={weights}", f"state={state}", f"history={digest_history(run / 'history.csv')}"]
    evaluation = run / "evaluation.csv"
    if evaluation.is_file():
        fields.append("evaluation=" + hashlib.sha256(evaluation.read_bytes()).hexdigest()[:20])
    return " ".join(fields)


class Program:
    def __init__(self, binary, work, options):
        self.binary, self.work, self.options = Path(binary).resolve(), work, options
        if not os.access(self.binary, os.X_OK):
            raise Failed(f"{binary}: no program")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "SLURM_", "TRIREME_"))}

    def call(self, what, command):
        limit = 120 * self.options.patience
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen([str(c) for c in command], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = f"a time limit of {limit:g} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if code == 0:
                return
            said.seek(0)
            tail = "".join(said.readlines()[-15:])
        raise Failed(f"{what} ended with {code}: {' '.join(str(c) for c in command)}\n{tail}")

    def make_data(self):
        """Tokens with a loss everywhere, and some with masks and documents."""
        licence = ROOT / "LICENSE"
        lines = [line.strip() for line in licence.read_text().splitlines() if line.strip()]
        with open(self.work / "chat.jsonl", "w") as f:
            for a, b in zip(lines[::2], lines[1::2]):
                f.write(json.dumps({"p": a, "c": b}) + "\n")
        self.call("tokenize", [self.binary, "tokenize", licence, "-o", "text.tokens"])
        self.call("tokenize", [self.binary, "tokenize", "chat.jsonl", "--prompt", "p", "--completion", "c", "-o", "chat.tokens"])

    def train(self, case, ranks, arguments):
        self.call(case.name, [*self.options.mpiexec.split(), "-n", ranks, self.binary, "train", "deck.toml", "--run-dir", "run",
                              *arguments, *self.options.override])

    def digest(self, case):
        rules = ""
        for rule in case.freeze:
            rules += "\n[[freeze]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in rule.items())
        (self.work / "deck.toml").write_text(DECK + rules)
        shutil.rmtree(self.work / "run", ignore_errors=True)
        if case.then:
            self.train(case, case.ranks, case.overrides + ["checkpoint.every_steps=2", "checkpoint.keep_last=0"])
            (end,) = (self.work / "run/checkpoints").glob("step-00000004")
            shutil.rmtree(end)
            of_grid = ("parallel.", "zero.")
            kept = [o for o in case.overrides if not case.then[1] or not o.startswith(of_grid)]
            self.train(case, case.then[0], [*kept, *case.then[1], "--restart", "latest"])
        else:
            self.train(case, case.ranks, case.overrides)
        return digest_run(self.work / "run")


def lines_of(binary, options, show):
    """{name: fields} of all cases, shown as they come."""
    name, flags, has_bf16 = cpu()
    lines = {"#cpu": f"{name} {flags}"}
    show(f"#cpu {lines['#cpu']}")
    with tempfile.TemporaryDirectory(prefix="same_bits.") as work:
        program = Program(binary, Path(work), options)
        program.make_data()
        for case in CASES:
            if options.only and case.name not in options.only:
                continue
            # Where bf16 has no vector instructions the host backend refuses it.
            lines[case.name] = "left-out" if case.bf16() and not has_bf16 else program.digest(case)
            show(f"{case.name} {lines[case.name]}")
    return lines


def read_lines(file):
    lines = {}
    for line in Path(file).read_text().splitlines():
        name, _, fields = line.partition(" ")
        lines[name] = fields
    return lines


def differences(old, new):
    """A text for each case that is not the same in both."""
    if old.get("#cpu") != new.get("#cpu"):
        return [f"the CPUs differ, and with them the bits: {old.get('#cpu')}, now {new.get('#cpu')}"]
    found = []
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            found.append(f"{name}: only in the {'new' if name not in old else 'old'} one")
        elif old[name] != new[name]:
            a, b = (dict(f.partition("=")[::2] for f in lines[name].split()) for lines in (old, new))
            found.append(f"{name}: {', '.join(k for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k))}")
    return found


def report(old, new):
    found = differences(old, new)
    for text in found:
        print(f"DIFFERS {text}")
    print(f"same_bits: {len(new) - 1} trainings, {len(found)} differ")
    return 1 if found else 0


def plant_run(folder):
    """A run of two parameters as the checkpoint format has it, one of them cut in two."""
    checkpoint = folder / "checkpoints/step-00000002"
    checkpoint.mkdir(parents=True)
    data = bytes(range(64))

    def piece(group, name, begin, count, at, shape):
        return {"group": group, "name": name, "shape": shape, "begin": begin, "count": count, "dtype": "f32",
                "chunk_elements": 2, "chunks": [[at + 8 * i, ""] for i in range((count + 1) // 2)]}

    files = [{"name": "rank-00000.h5", "slices": [piece("weights", "a", 0, 3, 0, [5]), piece("moment1", "a", 0, 5, 12, [5])]},
             {"name": "rank-00001.h5", "slices": [piece("weights", "a", 3, 2, 0, [5]), piece("weights", "b", 0, 4, 8, [2, 2])]},
             {"name": "master.h5", "slices": []}]
    for file in files[:2]:
        (checkpoint / file["name"]).write_bytes(data)
    (checkpoint / "manifest.json").write_text(json.dumps({"content": {"files": files}}))
    (folder / "history.csv").write_text("step,loss,grad_norm,lr,seconds,bytes_sent\n1,5.5,2.5,0.1,9.0,0\n")
    (folder / "evaluation.csv").write_text("step,loss\n1,5.5\n")
    return checkpoint


def flip(file, at):
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def replace(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def self_test():
    plants = {  # what is done to a run, and the fields that have to show it
        "nothing": (lambda c, r: None, ""),
        "a bit of a weight": (lambda c, r: flip(c / "rank-00001.h5", 4), "weights"),
        "a bit of a weight's last element": (lambda c, r: flip(c / "rank-00001.h5", 23), "weights"),
        "a bit of a moment": (lambda c, r: flip(c / "rank-00000.h5", 31), "state"),
        "a parameter's name": (lambda c, r: replace(c / "manifest.json", '"b"', '"c"'), "weights"),
        "another name of a state array": (lambda c, r: replace(c / "manifest.json", "moment1", "momentum"), ""),
        "a loss": (lambda c, r: replace(r / "history.csv", "5.5", "5.500000000000001"), "history"),
        "a gradient norm": (lambda c, r: replace(r / "history.csv", "2.5", "2.4"), "history"),
        "bytes sent": (lambda c, r: replace(r / "history.csv", "9.0,0", "9.0,1"), "history"),
        "a time": (lambda c, r: replace(r / "history.csv", "9.0", "8.0"), ""),
        "an evaluation": (lambda c, r: replace(r / "evaluation.csv", "5.5", "5.6"), "evaluation"),
    }
    broken = {
        "elements that nobody holds": lambda c, r: replace(c / "manifest.json", '"begin": 3, "count": 2', '"begin": 3, "count": 1'),
        "a file cut short": lambda c, r: (c / "rank-00001.h5").write_bytes(bytes(12)),
        "no weights": lambda c, r: replace(c / "manifest.json", '"weights"', '"other"'),
        "no column grad_norm": lambda c, r: replace(r / "history.csv", "grad_norm", "norm"),
    }
    mistakes = []
    with tempfile.TemporaryDirectory(prefix="same_bits.") as work:
        work = Path(work)

        def planted(name, plant):
            run = work / name.replace(" ", "_")
            plant(plant_run(run), run)
            return {"#cpu": "one", "case": digest_run(run)}

        right = planted("right", lambda c, r: None)
        for name, (plant, field) in plants.items():
            want = [f"case: {field}"] if field else []
            got = differences(right, planted(name, plant))
            if got != want:
                mistakes.append(f"{name}: {got}, not {want}")
        for name, plant in broken.items():
            try:
                mistakes.append(f"{name}: taken as {planted(name, plant)}")
            except Failed:
                pass
        if len(differences(right, {"#cpu": "one", "other": right["case"]})) != 2:
            mistakes.append("cases that only one side has")
        if len(differences(right, {**right, "#cpu": "two"})) != 1:
            mistakes.append("another CPU")
        # A training that fails is no digest.
        (work / "program").write_text("#!/bin/sh\n[ $1 = tokenize ] || { echo the disk is full >&2; exit 3; }\n")
        (work / "program").chmod(0o755)
        options = argparse.Namespace(mpiexec=str(work / "launch"), patience=1, override=[], only=[])
        (work / "launch").write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
        (work / "launch").chmod(0o755)
        try:
            lines_of(work / "program", options, lambda line: None)
            mistakes.append("a failing training has a digest")
        except Failed as e:
            if not str(e).startswith("gpt2 ended with 3") or "the disk is full" not in str(e):
                mistakes.append(f"a failing training is told as: {e}")
    names = [case.name for case in CASES]
    if len(set(names)) != len(names):
        mistakes.append("two cases of one name")
    for text in mistakes:
        print(f"same_bits: {text}")
    print(f"same_bits: {len(plants) + len(broken) + 4} plants, {len(mistakes)} mistakes")
    return 1 if mistakes else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary", nargs="*", help="one or two builds of trireme")
    p.add_argument("--compare", metavar="FILE", help="lines of an earlier call")
    p.add_argument("--only", action="append", metavar="NAME", help="this training; may be given again")
    p.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="of every training; may be given again")
    p.add_argument("--mpiexec", default=shutil.which("mpiexec.mpich") or "mpiexec")
    p.add_argument("--patience", type=float, default=1, metavar="FACTOR", help="for a machine that is busy: longer limits")
    p.add_argument("--self-test", action="store_true")
    options = p.parse_args()
    if options.self_test:
        return self_test()
    if not options.binary or len(options.binary) > 2 or (len(options.binary) == 2 and options.compare):
        p.error("one binary, or two, or one and --compare FILE")
    unknown = set(options.only or []) - {case.name for case in CASES}
    if unknown:
        p.error(f"no training is called {', '.join(sorted(unknown))}")
    old = None
    if options.compare:
        old = read_lines(options.compare)
        if options.only:
            old = {name: fields for name, fields in old.items() if name in options.only or name == "#cpu"}
    elif len(options.binary) == 2:
        old = lines_of(options.binary[0], options, lambda line: None)
    if old is None:
        lines_of(options.binary[0], options, lambda line: print(line, flush=True))
        return 0
    return report(old, lines_of(options.binary[-1], options, lambda line: None))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as e:
        print(f"same_bits: {e}", file=sys.stderr)
        sys.exit(2)
