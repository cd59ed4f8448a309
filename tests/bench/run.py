#!/usr/bin/env python3
"""Prints the tables of `make bench`: run.py BUILD [--quick]

Steps are compared with their floor (all matrix products of the step and one AdamW pass, nothing
else) as ratios in one run: five fresh processes of each, in turns, the best median counts.
TRIREME_BENCH_TEXT names a text to train the small model of inputs/shakespeare.toml on.
"""
import csv
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import word_tokenizer

SHAPES = {  # tokens a step, and the most that a step may cost in floors
    "quick": (12 * 64, {"f32": 1.45, "bf16": 2.7}),
    "124M": (4 * 64, {"f32": 1.2, "bf16": 1.35}),
    "124M-256": (4 * 256, {"f32": 1.2, "bf16": 1.4}),
}

# ranks, threads, pipe, data, seq, zero.stage, and how many times the first line's step it may take
GRIDS = {
    "124M": [(1, 2, 1, 1, 1, 0, 1), (2, 1, 1, 2, 1, 3, 1.25), (2, 1, 1, 1, 2, 3, 9), (2, 1, 2, 1, 1, 0, 9)],
    "tiny": [(1, 1, 1, 1, 1, 0, 1), (2, 1, 1, 2, 1, 3, 10), (4, 1, 2, 1, 2, 3, 10), (8, 1, 2, 2, 2, 3, 10),
             (8, 1, 8, 1, 1, 0, 10), (8, 1, 1, 8, 1, 3, 10)],
}

# schedule and chunks of 8 blocks on 2 stages with 8 microbatches; the first is what the others compare with
SCHEDULES = [("1f1b", 1), ("zero-bubble", 1), ("interleaved", 2), ("interleaved", 4), ("zbv", 2)]

# model, dtype, ranks, what bench_exactness compares, and how many times the fast step it may take. Digests are made after
# each step there: a tenth of their cost is that of run.digest_every = 10, which is to be 1% at most.
EXACTNESS = [("124M", "f32", 1, "invariant", 1.4), ("124M-256", "f32", 1, "invariant", 1.1),
             ("124M-256", "bf16", 1, "invariant", 1.5), ("124M", "f32", 2, "invariant", 1.5),
             ("124M", "f32", 1, "repeatable", 1.02), ("124M", "f32", 1, "digests", 1.1), ("124M", "f32", 1, "checked", 9)]


def cpu():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


class Bench:
    def __init__(self, build, rounds):
        self.build = build
        self.rounds = rounds

    def program(self, name):
        for place in (self.build, self.build / "tests"):
            if (place / name).exists():
                return str(place / name)
        sys.exit(f"{name} is not built: run `make bench`")

    def output(self, name, *args, **env):
        run = subprocess.run([self.program(name), *args], capture_output=True, text=True,
                             env={**os.environ, **env})
        if run.returncode != 0:
            sys.exit(f"{name} {' '.join(args)} failed:\n{run.stdout}{run.stderr}")
        return run.stdout

    def on_ranks(self, ranks, name, *args):
        cache = (self.build / "CMakeCache.txt").read_text()
        mpiexec = re.search(r"^MPIEXEC_EXECUTABLE:[^=]*=(.*)$", cache, re.M)[1]
        run = subprocess.run([mpiexec, "-n", str(ranks), self.program(name), *args],
                             capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            sys.exit(f"{name} on {ranks} ranks failed:\n{run.stdout}{run.stderr}")
        return run.stdout

    def floor(self, shape, dtype):
        found = re.search(r"^floor \S+ \S+ ([\d.]+) ms.* ([\d.]+) GFLOP/s",
                          self.output("bench_floor", shape, dtype), re.M)
        return float(found[1]), float(found[2])

    def step(self, shape, dtype, **env):
        found = re.search(r"step_ms ([\d.]+) reserved_MiB ([\d.]+) peak_over_reserved ([\d.]+)",
                          self.output("bench_step", shape, dtype, **env))
        return float(found[1]), float(found[2]), float(found[3])

    def steps(self):
        print(f"{'step':<10}{'dtype':<6}{'ms':>9}{'tokens/s':>10}{'GFLOP/s':>9}{'floor ms':>10}"
              f"{'ratio':>7}{'most':>6}{'reserved MiB':>14}{'resident/reserved':>19}")
        for shape, (tokens, most) in SHAPES.items():
            for dtype in ("f32", "bf16"):
                floors, steps = [], []
                for _ in range(self.rounds):
                    floors.append(self.floor(shape, dtype))
                    steps.append(self.step(shape, dtype))
                floor, step = min(floors), min(steps)
                ratio = step[0] / floor[0]
                flops = floor[0] * floor[1] / step[0]
                print(f"{shape:<10}{dtype:<6}{step[0]:>9.2f}{tokens / step[0] * 1e3:>10.0f}"
                      f"{flops:>9.0f}{floor[0]:>10.2f}{ratio:>7.2f}{most[dtype]:>6.2f}"
                      f"{step[1]:>14.1f}{step[2]:>19.3f}{'' if ratio <= most[dtype] else '  MISSED'}",
                      flush=True)

    def waiting(self):
        print("\nquick f32 step in ms by how idle threads wait (the program chooses "
              "GOMP_SPINCOUNT=2000)")
        print(f"{'':<28}{'idle':>8}{'one core busy':>16}")
        for name, env in (("libgomp's default", {"GOMP_SPINCOUNT": "300000"}),
                          ("GOMP_SPINCOUNT=2000", {"GOMP_SPINCOUNT": "2000"}),
                          ("OMP_WAIT_POLICY=passive", {"OMP_WAIT_POLICY": "passive"})):
            idle = min(self.step("quick", "f32", **env)[0] for _ in range(2))
            spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            try:
                busy = min(self.step("quick", "f32", **env)[0] for _ in range(2))
            finally:
                spinner.kill()
                spinner.wait()
            print(f"{name:<28}{idle:>8.1f}{busy:>16.1f}", flush=True)

    def scattering(self):
        print("\nreduce-scatter of f32 on 2 ranks, one thread each")
        print(f"{'MiB':>5}{'ms':>9}{'MPI ms':>9}{'as bf16':>9}{'GB/s':>7}{'ratio':>7}")
        for mib in ("4", "64"):
            row = [float(x) for x in self.on_ranks(2, "reduce_scatter_bench", mib).split()]
            missed = "  MISSED (at least 2)" if mib == "64" and row[5] < 2 else ""
            print(f"{row[0]:>5.0f}" + "".join(f"{x:>9.2f}" for x in row[1:4]) +
                  f"{row[4]:>7.1f}{row[5]:>7.2f}{missed}", flush=True)

    def grids(self):
        """Whole steps of one batch on 2 cores; the first line of each model is what the others compare with."""
        print(f"\n{'grid':<6}{'ranks x threads':>16}{'pipe data seq zero':>20}{'ms':>9}{'sent MiB':>10}{'times':>7}")
        for model, lines in GRIDS.items():
            least = {}
            for _ in range(min(self.rounds, 3)):  # in turns, so that a busy moment meets all
                for line in lines:
                    ranks, grid = line[0], line[2:6]
                    said = self.on_ranks(ranks, "bench_grid", model, *map(str, grid), str(line[1]))
                    ms, sent = map(float, re.search(r"step_ms ([\d.]+) sent_MiB ([\d.]+)", said).groups())
                    least[line] = min(least.get(line, (ms, sent)), (ms, sent))
            first = least[lines[0]][0]
            for line in lines:
                ms, sent = least[line]
                times, most = ms / first, line[6]
                print(f"{model:<6}{f'{line[0]} x {line[1]}':>16}{' '.join(map(str, line[2:6])):>20}{ms:>9.2f}{sent:>10.2f}"
                      f"{times:>7.2f}{f'  MISSED (at most {most})' if times > most else ''}", flush=True)

    def schedules(self):
        """Steps of one pipeline, a rank and a thread each of two stages; predicted: the plan's, as if all work ran at one rate."""
        print(f"\n{'schedule':<14}{'chunks':>7}{'ms':>9}{'sent MiB':>10}{'times':>7}{'predicted':>11}")
        least = {}
        for _ in range(min(self.rounds, 3)):
            for line in SCHEDULES:
                said = self.on_ranks(2, "bench_grid", "deep", "2", "1", "1", "0", "1", line[0], str(line[1]), "8")
                now = tuple(map(float, re.search(r"step_ms (\S+) sent_MiB (\S+) plan_GFLOP (\S+)", said).groups()))
                least[line] = min(least.get(line, now), now)
        first = least[SCHEDULES[0]]
        for line in SCHEDULES:
            ms, sent, planned = least[line]
            print(f"{line[0]:<14}{line[1]:>7}{ms:>9.2f}{sent:>10.2f}{ms / first[0]:>7.3f}{planned / first[2]:>11.3f}", flush=True)

    def ranks(self):
        """What more ranks cost on the same cores: messages and memory of each may grow with its groups, not with the job."""
        print(f"\n{'ranks':>6}{'shard':>7}{'splits ms':>11}{'opening ms':>12}{'step ms':>9}{'messages':>10}{'peak MiB':>10}")
        for ranks in (8, 16, 32, 64, 128):
            for shard in (0, 8) if ranks > 16 else (0,):
                said = self.on_ranks(ranks, "bench_ranks", str(ranks // 4), str(shard))
                splits, opening, step, messages, mib = map(float, re.findall(r"\w+ ([\d.]+)", said))
                print(f"{ranks:>6}{shard or ranks // 2:>7}{splits:>11.0f}{opening:>12.0f}{step:>9.0f}{messages:>10.0f}{mib:>10.1f}", flush=True)

    def exactness(self):
        """Steps in turns with those of a fast training, within one process; the median of several processes."""
        print(f"\n{'exactness':<12}{'step':<10}{'dtype':<6}{'ranks':>6}{'fast ms':>9}{'ms':>9}{'times':>7}{'of CPU':>8}{'most':>6}")
        with open("/proc/cpuinfo") as f:
            multiplies_bf16 = "avx512bw" in f.read()
        for model, dtype, ranks, exactness, most in EXACTNESS:
            if dtype == "bf16" and not multiplies_bf16:
                print(f"{exactness:<12}{model:<10}{dtype:<6}  skipped: this processor cannot multiply bf16")
                continue
            lines = []
            for _ in range(min(self.rounds, 3)):
                said = self.on_ranks(ranks, "bench_exactness", model, dtype, exactness)
                lines.append([float(x) for x in re.search(r"fast_ms (\S+) other_ms (\S+) times (\S+) of_cpu (\S+)", said).groups()])
            fast, ms, times, of_cpu = sorted(lines, key=lambda line: line[2])[len(lines) // 2]
            print(f"{exactness:<12}{model:<10}{dtype:<6}{ranks:>6}{fast:>9.1f}{ms:>9.1f}{times:>7.3f}{of_cpu:>8.3f}{most:>6.2f}"
                  f"{'' if times <= most else '  MISSED'}", flush=True)

    def matrices(self):
        """An update of Muon, and the matrix products of its steps alone, in turns within one process."""
        print(f"\n{'Muon, 124M':<12}{'dtype':<6}{'ranks':>6}{'s':>9}{'products':>10}{'times':>7}{'most':>6}")
        for dtype, ranks in (("f32", 1), ("f32", 2), ("bf16", 1), ("bf16", 2)):
            said = self.on_ranks(ranks, "bench_matrices", dtype, str(2 // ranks))
            update, products, times = re.search(r"update_s (\S+) products_s (\S+) ratio (\S+)", said).groups()
            print(f"{'':<12}{dtype:<6}{ranks:>6}{update:>9}{products:>10}{times:>7}{1.3:>6}{'' if float(times) <= 1.3 else '  MISSED'}", flush=True)

    def checkpoints(self, folder):
        """Shares of what the disk gives, and what training waits for."""
        said = self.on_ranks(2, "bench_checkpoint", str(folder), str(self.rounds))
        v = {name: float(x) for name, x in re.findall(r"(\w+) ([\d.]+)", said)}
        print(f"\ncheckpoints of {v['bytes'] * 1e-9:.2f} GB on 2 ranks, from and to the disk")
        print(f"{'':<24}{'s':>8}{'GB/s':>8}{'share':>8}")
        for what, plain in (("save", "write"), ("load", "read")):
            share = v[plain] / v[what]
            for name, t in ((plain + (" + fsync" if what == "save" else ""), v[plain]), (what, v[what])):
                shown = f"{share:>8.2f}{'' if share >= 0.9 else '  MISSED (at least 0.90)'}" if name == what else ""
                print(f"{name:<24}{t:>8.2f}{v['bytes'] * 1e-9 / t:>8.2f}{shown}")
        print(f"in memory: a step takes {v['alone']:.2f} s, and {v['copied']:.2f} s if the state is copied into the memory of two nodes in each "
              f"step; training waits {v['pause']:.3f} s of it", flush=True)
        most = v["copy"] + 0.02 * v["step"]
        print(f"behind training: a step takes {v['step']:.2f} s, {v['disturbed']:.2f} s while a checkpoint is written; training "
              f"waits {v['stall']:.3f} s, a copy alone takes {v['copy']:.3f} s"
              f"{'' if v['stall'] <= most else f'  MISSED (at most {most:.3f} s)'}", flush=True)

    def text(self, folder):
        print()
        text = os.environ.get("TRIREME_BENCH_TEXT")
        if not text:
            print("training on a text: skipped, TRIREME_BENCH_TEXT names none")
            return
        tokens, run = folder / "text.tokens", folder / "run"
        self.output("trireme", "tokenize", text, "--output", str(tokens))
        self.output("trireme", "train", "inputs/shakespeare.toml", f"data.path={tokens}",
                    "--run-dir", str(run))
        with open(run / "history.csv", newline="") as rows:
            losses = [float(row["loss"]) for row in csv.DictReader(rows)]
        print(f"inputs/shakespeare.toml on {Path(text).name}: mean loss of the last 20 of "
              f"{len(losses)} steps {sum(losses[-20:]) / 20:.3f} (most 1.80 on Shakespeare)"
              f"{'' if sum(losses[-20:]) / 20 < 1.80 else '  MISSED'}")

    def experts(self, folder):
        """8 experts of which a token has 2, beside one MLP of as many FLOPs a token; and over 2 ranks beside gathered ones."""
        shape = ("layers = 6\nwidth = 768\nheads = 12\nvocab = 8192\ncontext = 64\nactivation = 'swiglu'\nbias = false\n"
                 "norm = 'rms'\npositions = 'rotary'\n")
        for name, mlp in (("dense", "ffn_width = 2048\n"), ("mixture", "experts = 8\nexperts_per_token = 2\nexpert_width = 1024\n")):
            (folder / f"{name}.toml").write_text(f"[model]\n{shape}{mlp}[data]\npath = 'x'\n[train]\nbatch = 32\nmicrobatch = 4\nsteps = 9\n")

        def ms(ranks, name, *more):
            said = self.on_ranks(ranks, "bench_deck_step", "4", str(folder / f"{name}.toml"), f"run.threads={2 // ranks}", *more)
            return float(re.search(r"median_ms (\S+)", said)[1])

        def middle(one, other):
            pairs = [(one(), other()) for _ in range(min(self.rounds, 3))]
            return sorted(pairs, key=lambda p: p[0] / p[1])[len(pairs) // 2]

        print(f"\n{'mixtures, median step in ms':<44}{'':>10}{'mixture':>10}{'ratio':>7}")
        for dtype in ("f32", "bf16"):
            for context, rows in ((64, 64), (256, 256)):
                sizes = (f"precision.compute={dtype}", f"model.context={context}", f"train.batch={2048 // context}")
                dense, mixture = middle(lambda: ms(1, "dense", *sizes), lambda: ms(1, "mixture", *sizes))
                print(f"{dtype + f', {rows} rows an expert, beside a dense model':<44}{dense:>10.1f}{mixture:>10.1f}{dense / mixture:>7.2f}"
                      f"{'' if dense / mixture >= 0.85 else '  MISSED (at least 0.85)'}", flush=True)
        over = ("zero.stage=3", "train.batch=16")
        here, there = middle(lambda: ms(2, "mixture", *over), lambda: ms(2, "mixture", *over, "parallel.expert=2"))
        print(f"{'2 ranks, zero.stage=3, parallel.expert 1 and 2':<44}{here:>10.1f}{there:>10.1f}{here / there:>7.2f}"
              f"{'' if here / there >= 1.2 else '  MISSED (at least 1.2)'}", flush=True)

    def tokenizing(self, folder):
        line = "It is a truth universally acknowledged, that a single man wants a wife.\n"
        text = folder / "long.txt"
        text.write_text(line * (200_000_000 // len(line)))
        said = self.output("trireme", "tokenize", str(text), "--output", str(folder / "long.tokens"),
                           "--threads", "1")
        print(f"\ntokenize, bytes, one core: {said.strip().rsplit(', ', 1)[-1]}")
        code = folder / "code.txt"
        code.write_text("".join(p.read_text(errors="replace") for p in sorted(Path(".").glob("[kla]*/**/*.?pp"))) * 10)
        (folder / "tokenizer.json").write_text(word_tokenizer.tokenizer_of(code.read_text(), 32_000))
        rates = []
        for _ in range(self.rounds):
            said = self.output("trireme", "tokenize", str(code), "--tokenizer", str(folder / "tokenizer.json"), "--output",
                               str(folder / "code.tokens"), "--overwrite", "--threads", "1", "--separator", "none")
            rates.append(float(re.search(r"([\d.]+) MB/s", said)[1]))
        print(f"tokenize, byte-level tokenizer.json of 32,000 tokens with Llama 3's split, one core: {max(rates):.1f} MB/s"
              f"{'' if max(rates) >= 5 else '  MISSED (at least 5)'}", flush=True)

    def decoding(self):
        """A generated token beside a read of all weights at the bandwidth of a copy, measured in turns."""
        print(f"\n{'generate, 124M f32':<20}{'context':>8}{'token ms':>10}{'token / read of weights':>25}")
        of_context = {}
        for _ in range(min(self.rounds, 3)):
            for context, ms, ratio in re.findall(r"^ *(\d+) +[\d.]+ +([\d.]+) +([\d.]+)$", self.output("bench_decode"), re.M):
                of_context.setdefault(context, []).append((float(ratio), float(ms)))
        for context, all_of_it in of_context.items():
            ratio, ms = sorted(all_of_it)[len(all_of_it) // 2]
            print(f"{'':<20}{context:>8}{ms:>10.1f}{ratio:>25.2f}{'' if ratio <= 1.5 else '  MISSED (at most 1.5)'}", flush=True)


def main():
    quick = "--quick" in sys.argv
    build = Path(sys.argv[1])
    bench = Bench(build, 1 if quick else 5)
    print(f"{cpu()}, {os.cpu_count()} cores\n")
    bench.steps()
    bench.waiting()
    bench.scattering()
    bench.grids()
    bench.schedules()
    bench.ranks()
    bench.exactness()
    bench.matrices()
    with tempfile.TemporaryDirectory(dir=build) as folder:
        bench.checkpoints(Path(folder))
        bench.text(Path(folder))
        bench.experts(Path(folder))
        bench.tokenizing(Path(folder))
    bench.decoding()


if __name__ == "__main__":
    main()
