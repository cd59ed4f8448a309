#!/usr/bin/env python3
"""Long runs with run.exactness = "invariant" on every grid of 1 to 8 ranks: their bits are those of one rank.

  tests/grid_bits.py BINARY            five decks; exit code 1 when a grid or a restart has other bits
  tests/grid_bits.py BINARY --seed N   draws the restarts as an earlier call did

Of every grid of a deck without experts a run of all steps, with settings that differ from grid to grid and must not matter;
then runs that change grid, settings and threads at four random steps, with experts over 1, 2, 3 and 4 ranks where there are
some. Compared with one rank's run are loss, gradient norm and learning rate of each step and each byte of the last
checkpoint's arrays, which are read without the program's own code.
"""
import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "program"))
from judging import compare_bits  # noqa: E402
from reading import Failed  # noqa: E402
from trainings import Trainings, add_options  # noqa: E402

# Axes of 1, 2, 3, 4, 6 and 8 divide 24, those of 5 and 7 divide 35. Neither seq = 8 nor 5 or 7 divides the heads, and
# few divide the key/value heads. Neither 2 nor 3 nor 4 divides the experts. Masks are uneven, every step is clipped, a block and the norms freeze and thaw.
DECK = """
[model]
layers = 8
width = 24
context = {context}
dropout = 0.1
{model}
[data]
path = ["text.tokens", "chat.tokens"]

[train]
batch = {batch}
steps = {steps}
{train}
[optimizer]
name = "{optimizer}"
lr = 3e-3
clip = 0.5

[schedule]
warmup_steps = 10
decay_steps = 120

[[freeze]]
pattern = "blocks.2.*"
from_step = {thirds[0]}
to_step = {thirds[1]}

[[freeze]]
pattern = "*norm*"
from_step = {thirds[0]}
to_step = {thirds[1]}
moments = "keep"

[evaluate]
every_steps = 0

[checkpoint]
every_steps = 0

[run]
backend = "host"
threads = 1
exactness = "invariant"
exact_chunk = {chunk}
"""
GPT = "heads = 12\nkv_heads = 3\n"
LLAMA = ('heads = 12\nkv_heads = 4\nffn_width = 40\nnorm = "rms"\nbias = false\nactivation = "swiglu"\npositions = "rotary"\n'
         "tied = true\n")


MIXTURE = LLAMA + ('experts = 5\nexperts_per_token = 2\nexpert_width = 12\nshared_expert_width = 8\nshared_expert_gate = true\n'
                   'dense_layers = [0, 3, 6]\nrouter = "sigmoid"\n')
BALANCE = 'balance = "bias"\nrouter_z = 0.01\n'
SHARERS = (1, 2, 3, 4)  # ranks that share out the experts


class Deck:
    def __init__(self, name, ranks, batch, chunk, model, train="", optimizer="adamw"):
        self.name, self.batch, self.chunk, self.model, self.train = name, batch, chunk, model, train
        self.optimizer = optimizer
        self.grids = [(p, n // (p * s), s) for n in ranks for p in range(1, n + 1) for s in range(1, n + 1) if n % (p * s) == 0]

    def sharers(self, grid):
        """parallel.expert on it."""
        return [e for e in SHARERS if grid[1] * grid[2] % e == 0] if self.train else [1]

    def text(self, steps):
        return DECK.format(context=self.batch * self.chunk, batch=self.batch, chunk=self.chunk, model=self.model, train=self.train, steps=steps, optimizer=self.optimizer,
                           thirds=(steps // 3, 2 * steps // 3))


DECKS = [Deck("24", (1, 2, 3, 4, 6, 8), 24, 2, GPT), Deck("35", (1, 5, 7), 35, 1, LLAMA),
         Deck("experts", (1, 3, 4), 12, 2, MIXTURE, BALANCE),
         # Owners of matrices, whose squares travel with Shampoo.
         Deck("muon", (1, 2, 3, 4), 12, 2, LLAMA, optimizer="muon"),
         Deck("shampoo", (1, 3, 4), 12, 2, MIXTURE, BALANCE, optimizer="shampoo")]


def drawn_settings(draw, deck, grid, expert):
    """Overrides for a grid with experts over so many ranks; the bits must be the same with any."""
    pipe, data, seq = grid
    samples = deck.batch // data
    counts = [m for m in range(1, max(4, pipe) + 1) if samples % m == 0]
    said = [f"parallel.pipe={pipe}", f"parallel.data={data}", f"parallel.seq={seq}",
            f"train.microbatch={samples // draw.choice(counts)}",
            f"model.recompute={draw.choice(['none', 'block'])}", f"model.chunk_tokens={draw.choice((0, 2, 3)) * deck.chunk}"]
    stage = draw.choice((0, 1, 2, 3))
    said.append(f"zero.stage={stage}")
    shards = [s for s in range(1, data * seq + 1) if data * seq % s == 0 and (s % expert == 0 or expert % s == 0)]
    if stage > 0 and draw.random() < 0.5:
        said.append(f"zero.shard={draw.choice(shards)}")
    if stage == 3:
        said += [f"zero.gather={draw.choice(['microbatch', 'step'])}", f"zero.reduce={draw.choice(['microbatch', 'step'])}",
                 f"zero.prefetch={draw.choice((0, 1, 3))}", f"zero.scatters={draw.choice((1, 2))}"]
    if expert > 1:
        said += [f"parallel.expert={expert}", f"parallel.expert_tokens={draw.choice((7, 40, 1000))}"]
    if pipe > 1 and draw.random() < 0.5:
        cuts = sorted(draw.sample(range(1, 8), pipe - 1))
        blocks = [b - a for a, b in zip([0, *cuts], [*cuts, 8])]
        said.append(f"parallel.stage_layers=[{','.join(map(str, blocks))}]")
    return said


class Suite:
    def __init__(self, place, steps):
        self.place, self.steps = place, steps
        self.trainings = self.wrong = 0

    def train(self, what, grid, arguments):
        pipe, data, seq = grid
        self.place.carry_out(what, pipe * data * seq, arguments)

    def judge(self, what, seconds):
        said = compare_bits(self.place / "run", self.place / "one")
        self.trainings += 1
        self.wrong += bool(said)
        print(f"{what}: {'DIFFERS: ' + '; '.join(said) if said else 'the same bits'} [{seconds:.0f} s]", flush=True)

    def start(self, deck):
        self.place.write("deck.toml", deck.text(self.steps))
        shutil.rmtree(self.place / "run", ignore_errors=True)

    def one_rank(self, deck):
        self.start(deck)
        self.train("one rank", (1, 1, 1), [f"train.microbatch={deck.batch // 2}" if deck.batch % 2 == 0 else "train.microbatch=7"])
        losses = self.place.losses("run")
        if len(losses) != self.steps or len(set(losses)) < self.steps // 2:
            raise Failed(f"deck {deck.name}: {len(losses)} steps, {len(set(losses))} losses")
        shutil.rmtree(self.place / "one", ignore_errors=True)
        (self.place / "run").rename(self.place / "one")

    def every_grid(self, deck):
        for i, grid in enumerate(deck.grids):
            begin = time.monotonic()
            settings = drawn_settings(random.Random(f"{deck.name} {i}"), deck, grid, 1)
            self.start(deck)
            self.train("a grid", grid, settings)
            self.judge(f"deck {deck.name}, {' '.join(settings)}", time.monotonic() - begin)

    def restarts(self, deck, draw):
        begin = time.monotonic()
        ends = sorted(draw.sample(range(1, self.steps), 4))
        self.start(deck)
        texts, before = [], None
        # Experts are over each number of ranks once, over one of them again.
        experts = draw.sample(SHARERS, len(SHARERS)) + [draw.choice(SHARERS)] if deck.train else [1] * (len(ends) + 1)
        for end, expert in zip([*ends, self.steps], experts, strict=True):
            grid = draw.choice([g for g in deck.grids if g != before and expert in deck.sharers(g)])
            before = grid
            few = grid[0] * grid[1] * grid[2] <= 4  # threads that outnumber cores wait for turns
            threads = draw.choice((1, 2, 3, 4)) if few else 1
            settings = [*drawn_settings(draw, deck, grid, expert), f"run.threads={threads}", f"train.steps={end}"]
            texts.append(f"{'x'.join(map(str, grid))}{f' experts over {expert}' if expert > 1 else ''} with {threads} thread{'s' if threads > 1 else ''} to {end}")
            self.train("a restart", grid, [*settings, *(["--restart", "latest"] if len(texts) > 1 else [])])
        self.judge(f"deck {deck.name}, {', '.join(texts)}", time.monotonic() - begin)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary", help="a build of trireme")
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="of the restarts")
    p.add_argument("--restarts", type=int, default=2, help="runs that change their grid four times, of each deck")
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--deck", choices=[d.name for d in DECKS], help="this one alone")
    p.add_argument("--no-grids", action="store_true", help="restarts alone")
    add_options(p)
    options = p.parse_args()
    begin = time.monotonic()
    print(f"grid_bits: --seed {options.seed}", flush=True)
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="grid_bits.") as work:
        suite = Suite(Trainings(options.binary, work, options), options.steps)
        for deck in DECKS:
            if options.deck not in (None, deck.name):
                continue
            suite.one_rank(deck)
            if not options.no_grids and not deck.train:
                suite.every_grid(deck)
            for _ in range(options.restarts):
                suite.restarts(deck, draw)
    minutes = (time.monotonic() - begin) / 60
    print(f"grid_bits: {suite.trainings} trainings, {suite.wrong} with other bits, {minutes:.1f} minutes, --seed {options.seed}")
    return 1 if suite.wrong or not suite.trainings else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as e:
        print(f"grid_bits: {e}", file=sys.stderr)
        sys.exit(2)
