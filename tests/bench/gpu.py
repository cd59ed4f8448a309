#!/usr/bin/env python3
"""Prints the tables of `make gpu-bench`: training on one GPU against what the GPU can do.

  gpu.py DIR                        DIR is a build folder or an unpacked bundle; 8 minutes at most on one H200
  gpu.py DIR --only 124M --no-torch fewer tables, sooner
  gpu.py DIR --backend host --tiny  the same with tiny shapes on the CPU: a trial of this script, no measurement
  gpu.py --self-test                checks the arithmetic of the tables

Where there is no GPU it says so in a line and exits with 0; one that does not answer is an error. Ceilings are measured in the same run on
random data: the fastest product that cuBLASLt made, and a copy of 1 GiB. The roofline of a kernel
class is the time that its products need at the one or its bytes at the other, whichever is longer.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

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


class Bench:
    def __init__(self, folder, args):
        found = places(folder, "bench_gpu")
        if not found:
            sys.exit(f"bench_gpu is in neither {folder}/tests nor {folder}: run `make gpu-bench`")
        self.program = str(found[0])
        self.args = args
        self.until = time.monotonic() + args.limit

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

    def measure(self, what, options):
        backend = ["--backend", self.args.backend]
        return self.said([self.program, what, *backend, *options.split()], f"bench_gpu {what} {options}")

    def torch(self, step, microbatch):
        options = ["--model", step["model"], "--batch", str(step["tokens"] // step["context"]),
                   "--microbatch", str(microbatch)]
        if self.args.tiny:
            options += "--layers 2 --width 64 --heads 2 --vocab 256 --context 32 --device cpu --steps 2 --eager".split()
        return self.said([sys.executable, str(HERE / "torch_gpt.py"), *options], "torch")


def roofline(kernel, rates):
    """Milliseconds that a class needs at the ceilings, and whether products are what it needs them for."""
    compute = kernel["flops"] / (rates["gemm_tflops"] * 1e9)
    memory = kernel["bytes"] / (rates["copy_GBs"] * 1e6)
    return max(compute, memory), compute > memory


def class_rows(step, rates):
    """By kernel class, longest first: name, calls, ms, its rate as text, percent, ms above the roofline, goal missed."""
    rows = []
    for k in sorted(step["classes"], key=lambda k: -k["ms"]):
        least, computes = roofline(k, rates)
        percent = 100 * least / k["ms"] if k["ms"] > 0 else 0
        rate = f"{k['flops'] / k['ms'] * 1e-9:.0f} TFLOP/s" if computes else f"{k['bytes'] / k['ms'] * 1e-6:.0f} GB/s"
        counts = not computes and k["ms"] > SMALL * step["step_ms"] and k["name"] != "upload"
        rows.append((k["name"], k["calls"], k["ms"], rate, percent, k["ms"] - least, counts and percent < GOAL_OF_COPY))
    return rows


def print_classes(name, step, rates):
    if "classes" not in step:
        print(f"\n{name}: the {step['backend']} backend has no times of its kernels")
        return
    total = sum(k["ms"] for k in step["classes"])
    print(f"\n{name}, time by kernel class (steps of {step['timed_step_ms']:.2f} ms while they are timed)")
    print(f"{'class':<18}{'calls':>7}{'ms':>10}{'share':>8}{'rate':>15}{'% of ceiling':>14}{'above roofline ms':>19}")
    for kernel, calls, ms, rate, percent, above, missed in class_rows(step, rates):
        print(f"{kernel:<18}{calls:>7.0f}{ms:>10.3f}{100 * ms / step['step_ms']:>7.1f}%{rate:>15}{percent:>14.0f}"
              f"{above:>19.3f}{f'  MISSED (at least {GOAL_OF_COPY}%)' if missed else ''}")
    print(f"{'all':<18}{'':>7}{total:>10.3f}{100 * total / step['step_ms']:>7.1f}%   the rest of a step, "
          f"{max(0, step['step_ms'] - total):.3f} ms, is between kernels")


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


def self_test():
    rates = {"gemm_tflops": 500.0, "copy_GBs": 4000.0, "model_tflops": 400.0}
    classes = [{"name": "gelu", "calls": 2, "ms": 2.0, "bytes": 4e9, "flops": 0},
               {"name": "matmul", "calls": 4, "ms": 10.0, "bytes": 1e9, "flops": 4e12},
               {"name": "fill", "calls": 1, "ms": 0.001, "bytes": 1e3, "flops": 0}]
    step = {"step_ms": 15.0, "timed_step_ms": 15.5, "classes": classes, "tokens_per_s": 100.0, "tflops": 300.0}
    rows = class_rows(step, rates)
    wanted = [("matmul", 4, 10.0, "400 TFLOP/s", 80.0, 2.0, False), ("gelu", 2, 2.0, "2000 GB/s", 50.0, 1.0, True),
              ("fill", 1, 0.001, "1 GB/s", 0.025, 0.00099975, False)]
    same = all(a[:4] == b[:4] and a[6] == b[6] and abs(a[4] - b[4]) < 1e-9 and abs(a[5] - b[5]) < 1e-12
               for a, b in zip(rows, wanted)) and len(rows) == len(wanted)
    said = missed(step, rates, {"tokens_per_s": 90.0},
                  {"tokens_per_s": 100, "tflops": 301, "percent": 60, "times_torch": 1.2})
    if not same or said != "  MISSED (at least 301 TFLOP/s, at least 1.2 x torch)":
        sys.exit(f"gpu.py: wrong arithmetic:\n{rows}\n{wanted}\n{said}")
    print_classes("self-test", step, rates)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--backend", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", choices=MODELS, action="append")
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    parser.add_argument("--limit", type=float, default=480, help="seconds for all")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    if not args.folder:
        parser.error("which build folder or bundle?")
    bench = Bench(args.folder, args)
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
    return None if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
