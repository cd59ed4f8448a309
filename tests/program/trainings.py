"""Trainings whose bits are compared: the table of same_bits.py, a deck and overrides of it; and where they are carried out."""
import json
import os
import shlex
import shutil
from pathlib import Path

from engine import CaseFolder, Workshop
from fixture import GQA, LLAMA, MIXTURE, SIGMOID
from reading import Failed

ROOT = Path(__file__).resolve().parents[2]

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

F64 = "run.backend=ref precision.compute=f64"
BF16 = "precision.compute=bf16"
EXACT = "run.exactness=invariant run.exact_chunk=4"
EVALUATE = "data.validation=0.2 evaluate.every_steps=2 evaluate.batches=2"
FIRST_BLOCKS = [{"pattern": p} for p in ("embedding.*", "positions.*", "blocks.0.*", "blocks.1.*")]
THAWED = [{"pattern": "blocks.1.*", "from_step": 1, "to_step": 2, "moments": "keep"},
          {"pattern": "*_norm.*", "from_step": 1, "to_step": 3, "moments": "fresh"}]


def rule_text(rule):
    return "\n[[freeze]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in rule.items())


def add_options(parser):
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="of every training; may be given again")
    parser.add_argument("--mpiexec", default=shutil.which("mpiexec.mpich") or "mpiexec")
    parser.add_argument("--patience", type=float, default=1, metavar="FACTOR", help="for a machine that is busy: longer limits")


class Trainings(CaseFolder):
    """A folder with tokens that have a loss everywhere, and some with masks and documents."""

    def __init__(self, binary, work, options):
        if not os.access(binary, os.X_OK):
            raise Failed(f"{binary}: no program")
        super().__init__(Workshop(binary, options.mpiexec, work, options.patience), Path(work))
        self.overrides = options.override
        lines = [line.strip() for line in (ROOT / "LICENSE").read_text().splitlines() if line.strip()]
        self.write("chat.jsonl", "".join(json.dumps({"p": a, "c": b}) + "\n" for a, b in zip(lines[::2], lines[1::2])))
        self.run_or_fail("tokenize", f"tokenize {shlex.quote(str(ROOT / 'LICENSE'))} -o text.tokens")
        self.run_or_fail("tokenize", "tokenize chat.jsonl --prompt p --completion c -o chat.tokens")

    def run_or_fail(self, what, command, ranks=0):
        try:
            self(command, ranks, limit=120)
        except Failed as e:
            raise Failed(f"{what}: {e}\n" + "\n".join(e.said.splitlines()[-15:])) from e

    def carry_out(self, what, ranks, arguments):
        self.run_or_fail(what, f"train deck.toml --run-dir run {shlex.join([*arguments, *self.overrides])}", ranks)


class Case:
    """A training; with `then`, another one of two more steps that restarts from its checkpoint with those overrides."""

    def __init__(self, name, ranks, overrides="", freeze=(), then=None):
        self.name, self.ranks, self.freeze = name, ranks, freeze
        self.overrides = overrides.split()
        self.then = None if then is None else (then[0], then[1].split())

    def text(self):
        return DECK + "".join(rule_text(rule) for rule in self.freeze)

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
    # Mixtures of experts.
    Case("mixture", 1, MIXTURE),
    Case("mixture-dropout-recompute", 1, MIXTURE + " model.dropout=0.1 model.recompute=block train.microbatch=1"),
    Case("mixture-plain", 1, MIXTURE + " model.norm_topk=false model.shared_expert_gate=false train.balance=none train.router_z=0 optimizer.name=sgd"),
    Case("sigmoid", 1, SIGMOID + " train.steps=4"),
    Case("sigmoid-bf16-documents", 1, f"{SIGMOID} {BF16} data.path=chat.tokens data.attention=document"),
    Case("mixture-bf16", 1, f"{MIXTURE} {BF16} model.recompute=block"),
    Case("mixture-ref", 1, f"run.backend=ref {MIXTURE} train.steps=2"),
    Case("mixture-fenced", 1, f"run.backend=fenced {MIXTURE} {EVALUATE}"),
    Case("mixture-exact", 1, f"{EXACT} {MIXTURE}"),
    Case("sigmoid-freeze-restart", 1, SIGMOID + " train.steps=4", [{"pattern": "blocks.*.router.*"}, *THAWED], then=(1, "")),
    # Batches and memory.
    Case("one-microbatch", 1, "train.microbatch=8"),
    Case("eight-microbatches", 1, "train.microbatch=1"),
    Case("recompute-dropout", 1, "model.recompute=block model.dropout=0.1"),
    Case("llama-recompute", 1, GQA + " model.recompute=block"),
    Case("masks", 1, "data.path=chat.tokens"),
    Case("separator-masks", 1, "data.path=chat.tokens data.separator_masks=true data.order=sequential"),
    Case("documents", 1, "data.path=chat.tokens data.attention=document"),
    Case("documents-llama", 1, f"data.path=chat.tokens data.attention=document {GQA} model.recompute=block"),
    Case("two-files", 1, 'data.path=["text.tokens","chat.tokens"] data.weights=[1,3]'),
    Case("evaluation", 1, EVALUATE),
    Case("two-threads", 1, "run.threads=2 model.width=128 model.context=64"),
    # Optimizers and schedules.
    Case("adamw-no-clip", 1, "optimizer.clip=0 optimizer.betas=[0.8,0.99] optimizer.eps=1e-6"),
    Case("adamw-clip", 1, "optimizer.clip=0.01 optimizer.no_decay=[\"embedding.*\"]"),
    Case("sgd", 1, "optimizer.name=sgd"),
    Case("sgd-no-clip", 1, "optimizer.name=sgd optimizer.clip=0 optimizer.weight_decay=0 optimizer.lr=0.1"),
    Case("muon", 1, "optimizer.name=muon"),
    Case("muon-llama-heads", 1, GQA + " optimizer.name=muon optimizer.matrix_heads=each optimizer.muon_polynomials=polar-express optimizer.adamw_lr=1e-3"),
    Case("shampoo", 1, "optimizer.name=shampoo optimizer.shampoo_every=2"),
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
    Case("pipe2-halves", 2, "parallel.pipe=2 parallel.schedule=zero-bubble train.microbatch=1"),
    *(Case(f"pipe2-{s}", 2, f"parallel.pipe=2 parallel.schedule={s} parallel.chunks=2 model.layers=4 train.microbatch=1")
      for s in ("interleaved", "zbv")),
    Case("pipe2-bf16", 2, f"parallel.pipe=2 {BF16}"),
    Case("data2", 2, ""),
    Case("data2-zero1", 2, "zero.stage=1"),
    Case("data2-zero1-sgd", 2, "zero.stage=1 optimizer.name=sgd"),
    Case("data2-zero2", 2, "zero.stage=2 model.dropout=0.1"),
    Case("data2-zero3", 2, "zero.stage=3"),
    Case("data2-zero3-muon-bf16", 2, f"zero.stage=3 optimizer.name=muon {BF16}"),
    Case("data2-mixture-experts-shampoo", 2, f"parallel.expert=2 zero.stage=2 optimizer.name=shampoo {MIXTURE}"),
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
    Case("data2-mixture", 2, f"zero.stage=3 {MIXTURE}"),
    Case("data2-mixture-experts", 2, f"parallel.expert=2 zero.stage=3 parallel.expert_tokens=20 {MIXTURE}"),
    Case("data2-mixture-experts-bf16-recompute", 2, f"parallel.expert=2 zero.stage=1 {BF16} {MIXTURE} model.recompute=block"),
    Case("data2-sigmoid-experts-fenced", 2, f"parallel.expert=2 run.backend=fenced {SIGMOID}"),
    Case("data2-mixture-experts-exact", 2, f"parallel.expert=2 zero.stage=2 parallel.expert_tokens=20 {EXACT} {MIXTURE}"),
    Case("seq2-mixture-experts", 2, f"parallel.seq=2 parallel.expert=2 zero.stage=2 {MIXTURE} {EVALUATE}"),
    Case("pipe2-sigmoid-halves", 2, f"parallel.pipe=2 parallel.schedule=zero-bubble train.microbatch=1 {SIGMOID}"),
    # Four and eight.
    Case("pipe4", 4, "parallel.pipe=4 model.layers=4 train.microbatch=1"),
    Case("data4-zero3-shard2", 4, "zero.stage=3 zero.shard=2"),
    Case("data4-zero1-shard2", 4, "zero.stage=1 zero.shard=2 optimizer.name=sgd"),
    Case("pipe2-data2-zero1", 4, "parallel.pipe=2 zero.stage=1 model.dropout=0.1"),
    Case("pipe2-seq2-zero3", 4, f"parallel.pipe=2 parallel.seq=2 zero.stage=3 {GQA}"),
    Case("data2-seq2-zero2", 4, "parallel.seq=2 zero.stage=2"),
    Case("pipe2-mixture-experts-halves", 4,
         f"parallel.pipe=2 parallel.expert=2 parallel.schedule=zero-bubble zero.stage=3 parallel.expert_tokens=9 train.microbatch=1 {MIXTURE}"),
    Case("data2-seq2-mixture-experts-shard2", 4, f"parallel.seq=2 parallel.expert=4 zero.stage=3 zero.shard=2 {MIXTURE} {GQA}"),
    Case("restart-of-experts-on-another-grid", 4, f"parallel.pipe=2 parallel.expert=2 zero.stage=1 train.steps=4 {SIGMOID}", then=(3, "parallel.expert=3 zero.stage=2 train.batch=9 train.microbatch=1")),
    Case("restart-on-another-grid", 4, "parallel.pipe=2 parallel.seq=2 zero.stage=3 train.steps=4",
         then=(2, "zero.stage=2")),
    Case("pipe2-data2-seq2-zero3", 8, f"parallel.pipe=2 parallel.seq=2 zero.stage=3 {BF16} model.dropout=0.1"),
    Case("pipe2-data2-seq2-zero3-f32", 8, "parallel.pipe=2 parallel.seq=2 zero.stage=3 model.recompute=block"),
]
