#!/usr/bin/env python3
"""Prints the tables of `make gpu-bench`: training on one GPU against what the GPU can do.

  gpu.py DIR                        DIR is a build folder or an unpacked bundle; 8 minutes at most on one H200
  gpu.py DIR --only 124M --no-torch fewer tables, sooner
  gpu.py DIR --backend host --tiny  the same with tiny shapes on the CPU: a trial of this script, no measurement
  gpu.py DIR --record FILE          keeps all that was measured
  gpu.py --replay FILE              the tables of what --record kept, on any machine

Where there is no GPU it says so in a line and exits with 0; one that does not answer is an error. Ceilings are measured in the same run on
random data: the fastest product that cuBLASLt made, and a copy of 1 GiB. What is expected of a kernel
class is the time that its products need at the one or its bytes at the other, whichever is longer.
"""
import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gpu"))
import presence  # noqa: E402

HERE = Path(__file__).resolve().parent

# Options of bench_gpu, what torch_gpt.py gets for a microbatch, and what is to be reached on an H200.
MODELS = {
    "124M": {"step": "--model gpt2-124M --batch 64 --steps 30", "torch": 64,
             "goal": {"tokens_per_s": 580e3, "times_torch": 1.25}},
    "1558M": {"step": "--model gpt2-1558M --batch 64 --steps 6", "torch": 16, "goal": {"tokens_per_s": 58e3}},
    # All 32 layers leave room for one sample at a time; half of them have the same products.
    "7B": {"step": "--model llama-7B --layers 16 --batch 8 --steps 6", "torch": 0,
           "goal": {"tflops": 640, "percent": 80}},
}
TINY = {
    "124M": {"step": "--layers 2 --width 64 --heads 2 --vocab 256 --context 32 --batch 4 --steps 3", "torch": 4},
    "7B": {"step": "--model llama-7B --layers 2 --width 64 --heads 2 --vocab 256 --context 32 --batch 4 --steps 3 "
                   "--microbatch 2", "torch": 0},
}
TINY_RATES = "--square 64 --copy 0.001 --flops 1e6"
GOAL_OF_COPY = 85  # percent of the copy's rate, for classes that only move memory
GOAL_OF_EXACT = 10  # percent that it may cost
SMALL = 0.002  # of a step: classes below this are not held to a goal


def places(folder, name):
    return [p for p in (folder / "tests" / name, folder / name, folder / "bin" / name) if p.is_file()]


class Recorded:
    """What an earlier run measured, in place of programs."""

    def __init__(self, file, args):
        self.answers = json.loads(Path(file).read_text())
        self.args = args

    def answer(self, what):
        return self.answers.get(what, {"error": f"{what}: not in the recording"})

    def measure(self, what, options):
        return self.answer(f"{what} {options}".strip())

    def torch(self, step, microbatch):
        return self.answer(f"torch {step['model']}")


class Bench:
    def __init__(self, folder, args):
        found = places(folder, "bench_gpu")
        if not found:
            sys.exit(f"bench_gpu is in neither {folder}/tests nor {folder}: run `make gpu-bench`")
        self.program = str(found[0])
        self.args = args
        self.until = time.monotonic() + args.limit
        self.answers = {}

    def left(self):
        return self.until - time.monotonic()

    def said(self, command, what):
        """The JSON of the last line, or an error in words."""
        if self.left() < 5:
            return {"error": f"{what}: left out, the {self.args.limit:.0f} s of --limit are over"}
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=self.left())
        except subprocess.TimeoutExpired:
            return {"error": f"{what}: not done within --limit"}
        if run.returncode != 0:
            lines = [line for line in (run.stderr + run.stdout).splitlines() if line and not line.startswith("Run with")]
            return {"error": f"{what}: {lines[-1] if lines else f'exit code {run.returncode}'}"}
        return json.loads(run.stdout.strip().splitlines()[-1])

    def record(self, file):
        Path(file).write_text(json.dumps(self.answers, indent=1) + "\n")

    def measure(self, what, options):
        backend = ["--backend", self.args.backend]
        name = f"{what} {options}".strip()
        self.answers[name] = self.said([self.program, what, *backend, *options.split()], f"bench_gpu {name}")
        return self.answers[name]

    def torch(self, step, microbatch):
        options = ["--model", step["model"], "--batch", str(step["tokens"] // step["context"]),
                   "--microbatch", str(microbatch)]
        if self.args.tiny:
            options += "--layers 2 --width 64 --heads 2 --vocab 256 --context 32 --device cpu --steps 2 --eager".split()
        name = f"torch {step['model']}"
        self.answers[name] = self.said([sys.executable, str(HERE / "torch_gpt.py"), *options], "torch")
        return self.answers[name]


def expected(kernel, rates):
    """Milliseconds that a class needs at the ceilings, and whether products are what it needs them for."""
    compute = kernel["flops"] / (rates["gemm_tflops"] * 1e9)
    memory = kernel["bytes"] / (rates["copy_GBs"] * 1e6)
    return max(compute, memory), compute > memory


class Row(NamedTuple):
    """A kernel class in one step."""

    name: str
    calls: float
    gigabytes: float
    teraflops: float
    expected: float  # ms at the ceilings
    seen: float  # ms
    rate: str
    missed: bool

    @property
    def percent(self):
        return 100 * self.expected / self.seen if self.seen > 0 else 0

    @property
    def lost(self):
        return self.seen - self.expected


def class_rows(step, rates):
    """Longest first."""
    rows = []
    for k in sorted(step["classes"], key=lambda k: -k["ms"]):
        least, computes = expected(k, rates)
        rate = "" if k["ms"] <= 0 else \
            f"{k['flops'] / k['ms'] * 1e-9:.0f} TFLOP/s" if computes else f"{k['bytes'] / k['ms'] * 1e-6:.0f} GB/s"
        counts = not computes and k["ms"] > SMALL * step["step_ms"] and k["name"] != "upload"
        row = Row(k["name"], k["calls"], k["bytes"] * 1e-9, k["flops"] * 1e-12, least, k["ms"], rate, False)
        rows.append(row._replace(missed=counts and row.percent < GOAL_OF_COPY))
    return rows


def sum_row(rows):
    return Row("all kernels", sum(r.calls for r in rows), sum(r.gigabytes for r in rows), sum(r.teraflops for r in rows),
               sum(r.expected for r in rows), sum(r.seen for r in rows), "", False)


def between_kernels(step, rows):
    """ms of a step in which no kernel ran."""
    return max(0, step["step_ms"] - sum_row(rows).seen)


def losses_of(step, rows):
    """(where, ms above what is expected), the most first."""
    lost = [(r.name, r.lost) for r in rows] + [("between kernels", between_kernels(step, rows))]
    return sorted(((where, ms) for where, ms in lost if ms > 0), key=lambda pair: -pair[1])


def ms_of_products_alone(rows, rates):
    """The products of a step, were each as fast as by itself in this run."""
    return sum(1e3 * r.teraflops / rates["model_tflops"] for r in rows if r.name == "matmul")


def print_classes(name, step, rates):
    if "classes" not in step:
        print(f"\n{name}: the {step['backend']} backend has no times of its kernels")
        return
    rows = class_rows(step, rates)
    total = sum_row(rows)
    print(f"\n{name}, a step by kernel class (of {step['timed_step_ms']:.2f} ms while they are timed); expected: at the ceilings")
    print(f"{'class':<18}{'calls':>7}{'GB':>9}{'TFLOP':>9}{'expected ms':>13}{'seen ms':>10}{'share':>8}{'rate':>14}"
          f"{'% of ceiling':>14}{'lost ms':>10}")
    for r in [*rows, total]:
        print(f"{r.name:<18}{r.calls:>7.0f}{r.gigabytes:>9.3f}{r.teraflops:>9.3f}{r.expected:>13.3f}{r.seen:>10.3f}"
              f"{100 * r.seen / step['step_ms']:>7.1f}%{r.rate:>14}{r.percent:>14.0f}{r.lost:>10.3f}"
              f"{f'  MISSED (at least {GOAL_OF_COPY}%)' if r.missed else ''}")
    idle = between_kernels(step, rows)
    print(f"{'between kernels':<47}{0:>9.3f}{idle:>10.3f}{100 * idle / step['step_ms']:>7.1f}%{'':>28}{idle:>10.3f}")
    print(f"{'a step':<47}{total.expected:>9.3f}{step['step_ms']:>10.3f}{100:>7.1f}%{'':>14}"
          f"{100 * total.expected / step['step_ms']:>14.0f}{step['step_ms'] - total.expected:>10.3f}")
    print("most is lost in: " + ", ".join(f"{where} {ms:.2f} ms" for where, ms in losses_of(step, rows)[:4]))
    if alone := ms_of_products_alone(rows, rates):
        print(f"products by themselves, in these shapes, would take {alone:.2f} ms of it")


def missed(step, rates, torch, goal):
    """What a model was to reach and did not, as text."""
    found = []
    percent = 100 * step["tflops"] / rates["gemm_tflops"]
    for value, key, unit in ((step["tokens_per_s"], "tokens_per_s", "tokens/s"), (step["tflops"], "tflops", "TFLOP/s"),
                             (percent, "percent", "% of ceiling")):
        if key in goal and value < goal[key]:
            found.append(f"at least {goal[key]:.0f} {unit}")
    if torch and "times_torch" in goal and step["tokens_per_s"] < goal["times_torch"] * torch["tokens_per_s"]:
        found.append(f"at least {goal['times_torch']} x torch")
    return f"  MISSED ({', '.join(found)})" if found else ""


HEAD = (f"{'model':<22}{'':<12}{'microbatch':>11}{'ms':>10}{'tokens/s':>11}{'TFLOP/s':>9}{'% of ceiling':>14}"
        f"{'x torch':>9}{'GiB':>8}")


def step_line(name, kind, step, rates, torch, memory, note=""):
    times = f"{step['tokens_per_s'] / torch['tokens_per_s']:.2f}" if torch else ""
    print(f"{name:<22}{kind:<12}{step['microbatch']:>11}{step['step_ms']:>10.2f}{step['tokens_per_s']:>11.0f}"
          f"{step['tflops']:>9.1f}{100 * step['tflops'] / rates['gemm_tflops']:>14.1f}{times:>9}{memory:>8.1f}{note}",
          flush=True)


def name_of(model, step):
    if step["layers"] == step["layers_of_preset"]:
        return model
    return f"{model} ({step['layers']}/{step['layers_of_preset']} layers)"


def report(bench, model, how, goals):
    """Measures one model and prints its table; false if its training could not be measured."""
    fast = bench.measure("step", how["step"])
    if "error" in fast:
        print(f"\n{model}: {fast['error']}", flush=True)
        return False
    microbatch = f" --microbatch {fast['microbatch']}"
    rates = bench.measure("rates", how["step"] + microbatch + (f" {TINY_RATES}" if bench.args.tiny else ""))
    if "error" in rates:
        print(f"\n{model}: {rates['error']}", flush=True)
        return False
    # As the fast one chose, or the memory that exact attention needs would change what is compared.
    exact = bench.measure("step", how["step"] + " --exactness repeatable --timed 0 --recompute " + fast["recompute"])
    torch = bench.torch(fast, how["torch"]) if how["torch"] and bench.args.torch else None
    known = torch if torch and "error" not in torch else None

    name = name_of(model, fast)
    print(f"\n{name}: {fast['tokens']} tokens a step of {fast['context']} each, {fast['dtype']}, recompute "
          f"{fast['recompute']}; ceilings: {rates['gemm_tflops']:.0f} TFLOP/s (its own products in their shares "
          f"{rates['model_tflops']:.0f}), copies {rates['copy_GBs']:.0f} GB/s")
    print(HEAD)
    step_line(name, "fast", fast, rates, known, fast["reserved_GiB"],
              missed(fast, rates, known, how["goal"]) if goals else "")
    if "error" in exact:
        print(exact["error"])
    else:
        cost = 100 * (exact["step_ms"] / fast["step_ms"] - 1)
        step_line(name, "repeatable", exact, rates, known, exact["reserved_GiB"],
                  f"  {cost:+.1f}%" + (f"  MISSED (at most {GOAL_OF_EXACT}%)" if goals and cost > GOAL_OF_EXACT else ""))
    if known:
        step_line(name, f"torch {known['torch'].split('+')[0]}", known, rates, None, known["memory_GiB"],
                  "  without torch.compile, which failed" if known["eager"] else f"  compiled in {known['compile_s']:.0f} s")
    elif torch:
        print(torch["error"])
    print("products, TFLOP/s: " + "; ".join(
        f"{p['name']} [{p['R']}x{p['N']}x{p['K']}] {p['y']:.3g}, gradients {p['dx']:.3g} {p['dw']:.3g}"
        for p in rates["products"]))
    print_classes(name, fast, rates)
    return True


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--backend", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", choices=MODELS, action="append")
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    parser.add_argument("--limit", type=float, default=480, help="seconds for all")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--replay", type=Path)
    args = parser.parse_args()
    if not args.folder and not args.replay:
        parser.error("which build folder or bundle?")
    bench = Recorded(args.replay, args) if args.replay else Bench(args.folder, args)
    device = bench.measure("device", "")
    if "error" in device:
        sys.exit(device["error"])
    if device["device"] is None:
        if signs := presence.signs_of_a_gpu():
            sys.exit(f"gpu-bench: {presence.why_it_does_not_answer(device['why'], signs)}")
        print(f"gpu-bench: skipped, no GPU answers: {device['why']}")
        return None
    print("; ".join(filter(None, (device["device"], device["libraries"]))))
    models = TINY if args.tiny else MODELS
    goals = "H200" in device["device"] and not args.tiny
    fine = [report(bench, m, how, goals) for m, how in models.items() if not args.only or m in args.only]
    if args.record and not args.replay:
        bench.record(args.record)
    return None if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
