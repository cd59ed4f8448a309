"""The small training that all cases are about, and the grids and settings that it is run with."""
from pathlib import Path

DECK = Path(__file__).with_name("deck.toml").read_text()
LLAMA = "model.norm=rms model.positions=rotary model.activation=swiglu model.bias=false model.tied=false"
GQA = LLAMA + " model.kv_heads=2"
EXPERTS = LLAMA + " model.experts=5 model.experts_per_token=2 model.expert_width=12"
MIXTURE = EXPERTS + " model.shared_expert_width=8 model.shared_expert_gate=true train.balance=sample train.router_z=0.01"
SIGMOID = EXPERTS + " model.dense_layers=[0] model.router=sigmoid train.balance=bias"
EXACT = "run.exactness=invariant run.exact_chunk=4 run.digest_every=2"
EXACT_MIXTURE = f"{EXACT} {MIXTURE} train.batch=12"  # for data ranks of 1 to 4
F64 = "run.backend=ref precision.compute=f64 model.dropout=0"

# Round numbers: each FLOP, byte and message takes a known time.
MACHINE = """
[machine]
name = "plain"
source = "a test"
backend = "host"
ranks_of_node = 4
measured = true
[peak]
f32 = 1e9
bf16 = 1e9
[memory]
bandwidth = 1e9
[host]
launch = 1e-7
agreement = 1e-6
[near]
latency = 1e-6
bandwidth = 1e9
[far]
latency = 1e-5
bandwidth = 1e8
[disk]
write = 1e6
""" + "".join(f"""
[[product]]
dtype = "{t}"
m = [1]
n = [1]
k = [1]
flops = [1e9]
""" + "".join(f"""
[[attention]]
dtype = "{t}"
direction = "{d}"
head_dim = 4
tokens = [1]
flops = [1e9]
""" for d in ("forward", "backward")) for t in ("f32", "bf16"))

# Larger, for grids of all axes. 38 samples are held out: with microbatches of 3, of four data ranks two have one less.
GRID = ("model.layers=4 model.width=32 model.heads=4 model.context=16 data.validation=0.23 train.batch=12 train.microbatch=3 evaluate.batches=0 "
        "run.log_every=0 ")
AXES = "parallel.pipe=2 parallel.seq=2 zero.stage=3"

# How the runs of a case are set up: overrides and ranks. The uninterrupted run of each is made once. The deck of those
# whose name begins with a word of SECTIONS has these sections, too.
CONFIGS = {
    "one": ("", 0),
    "at-once": ("checkpoint.async=false", 0),
    "sgd": ("optimizer.name=sgd optimizer.momentum=0.9", 0),
    "digests": ("run.digest_every=1 run.replay_every=2", 0),
    "lion": ("optimizer.name=lion", 0),
    "llama": (GQA + " model.recompute=block", 0),
    "two-files": ('data.path=["text.tokens","more.tokens"] data.weights=[1,3]', 0),
    "untied": ("model.tied=false", 0),
    "spm": ("data.path=spm.tokens", 0),
    "ema": ("train.ema=0.7", 0),
    "pruned": ("checkpoint.keep_last=1", 0),
    "pruned-at-once": ("checkpoint.keep_last=1 checkpoint.async=false", 0),
    "freeze": ("", 0),
    "sets": ("evaluate.every_steps=3", 0),
    "data2": ("zero.stage=1", 2),
    "data2-zero3": ("zero.stage=3", 2),
    "data2-at-once": ("zero.stage=3 checkpoint.async=false", 2),
    "pipe2": ("parallel.pipe=2 train.microbatch=1", 2),
    "seq2": ("parallel.seq=2 zero.stage=2", 2),
    "pipe2-data2": ("parallel.pipe=2 zero.stage=3 train.microbatch=1", 4),
    "bf16": ("precision.compute=bf16", 0),
    "recompute": ("model.recompute=block", 0),
    "evaluated": ("evaluate.every_steps=4", 0),
    "sequential": ("data.order=sequential", 0),
    "evaluated-whole": ("evaluate.batches=0", 0),
    "wide": ("model.width=256 train.batch=300 train.microbatch=1 train.steps=2", 0),
    "exact": (EXACT, 0),
    "exact-seq2": (EXACT + " run.replay_every=3 parallel.seq=2 zero.stage=1 train.microbatch=4", 2),
    "exact-axes": (EXACT + " train.microbatch=1 " + AXES, 4),
    "exact-data2": (EXACT + " zero.stage=2", 2),
    "freeze-sgd": ("optimizer.name=sgd optimizer.lr=0.1", 0),
    "freeze-long-pipe2": ("parallel.pipe=2 train.batch=96 train.microbatch=1", 2),
    "freeze-long-data2": ("zero.stage=3 train.batch=96 train.microbatch=1", 2),
    "data2-seq2": ("parallel.seq=2 zero.stage=1", 4),
    "pipe2-data2-bf16": ("parallel.pipe=2 zero.stage=2 train.microbatch=1 precision.compute=bf16", 4),
    "seq2-reduce-bf16": ("parallel.seq=2 zero.stage=3 precision.reduce=bf16", 2),
    "grid-axes": (GRID + AXES, 4),
    "grid-data4": (GRID + "zero.stage=3", 4),
    "grid-pipe2": (GRID + "parallel.pipe=2 zero.stage=1", 2),
    "grid-chunks": (GRID + "parallel.pipe=2 parallel.schedule=interleaved parallel.chunks=2", 2),
    "grid-experts": (f"{GRID}{MIXTURE} parallel.pipe=2 parallel.expert=2 zero.stage=3", 4),
    "grid-halves": (GRID + "parallel.pipe=2 parallel.schedule=zero-bubble", 2),
    "mixture": (MIXTURE, 0),
    "mixture-expert2": (f"{MIXTURE} parallel.expert=2 parallel.expert_tokens=4 zero.stage=3", 2),
    "sigmoid": (SIGMOID, 0),
    "sigmoid-expert2": (f"{SIGMOID} parallel.expert=2 parallel.seq=2 zero.stage=1", 2),
    "exact-mixture": (EXACT_MIXTURE, 0),
    "exact-mixture-expert4": (f"{EXACT_MIXTURE} parallel.seq=2 parallel.expert=4 zero.stage=3", 4),
    "exact-mixture-expert3": (f"{EXACT_MIXTURE} parallel.expert=3 parallel.expert_tokens=5 zero.stage=1", 3),
    "exact-mixture-expert2": (f"{EXACT_MIXTURE} parallel.pipe=2 parallel.expert=2 zero.stage=2 train.microbatch=1", 4),
    "f64-mixture": (f"{F64} {MIXTURE}", 0),
    "f64-mixture-expert2": (f"{F64} {MIXTURE} parallel.expert=2 zero.stage=3 train.microbatch=1", 2),
    "f64": (F64, 0),
    "f64-pipe2": (F64 + " parallel.pipe=2 train.microbatch=1", 2),
    "f64-data2": (F64 + " zero.stage=3 train.microbatch=1", 2),
    "f64-seq2": (F64 + " parallel.seq=2 zero.stage=1", 2),
    "f64-data4": (F64 + " zero.stage=2 train.microbatch=1", 4),
    "f64-pipe2-seq2": (F64 + " parallel.pipe=2 parallel.seq=2 zero.stage=3 train.microbatch=1", 4),
}
SECTIONS = {"freeze": """
[[freeze]]
pattern = "blocks.0.*"
from_step = 4
to_step = 8

[[freeze]]
pattern = "*_norm.*"
from_step = 2
to_step = 10
moments = "keep"

[[freeze]]
pattern = "*.qkv.*"
from_step = 3
to_step = 7

[[freeze]]
pattern = "positions.*"
to_step = 6
moments = "keep"
""", "sets": """
[[validation]]
name = "more"
path = "more.tokens"

[[validation]]
name = "both-2"
path = ["late.tokens", "more.tokens"]
"""}
DOCUMENTS = "data.packing=documents data.attention=document"


def freeze_rule(pattern, begin, end, moments):
    return f'[[freeze]]\npattern = "{pattern}"\nfrom_step = {begin}\nto_step = {end}\nmoments = "{moments}"\n'
