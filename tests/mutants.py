#!/usr/bin/env python3
"""Applies small wrong edits, one at a time, and sees each found by the suite that it names.

  tests/mutants.py BUILD [NAME...]   one line a mutant; exit code 1 when one survives or cannot be tried

The tree is copied and built in BUILD/mutants, so that nothing here is touched. A suite runs with
random delays in all messages and freed memory poisoned; one that hangs counts as having found it.
Those of the cuda backend run on a simulated device, and need the toolkit to build.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HANG_S = 10  # without progress in a case; a clean case takes a second or two


def ranks(n, cases):
    return ("parallel_test", n, cases)


def simulated(cases):
    return (SIMULATED, 0, cases)


SIMULATED = "simulated_gpu_test"
FEW = "Parity.OfAFewSettings"

# name, file, right, wrong, suite
MUTANTS = [
    ("checkpoint written from the state itself", "lib/train/state_saver.cpp", "write(snapshot_.elements())",
     "write(elements_of(store_, mine_))", ranks(2, "StateSaver*")),
    ("a failed writer is not asked", "lib/train/state_saver.cpp", "together(world, [&] { work_.join(); });\n      collect();",
     "collect();", ranks(2, "StateSaver*")),
    # factors
    ("loss scaled by seq", "lib/train/trainer.cpp", "const double scale = 1.0 / ",
     "const double scale = 1.0 * axes_.grid.seq / ", ranks(4, FEW)),
    ("loss scaled by data", "lib/train/trainer.cpp", "const double scale = 1.0 / ",
     "const double scale = 1.0 / axes_.grid.data / ", ranks(4, FEW)),
    ("loss scaled by microbatches", "lib/train/trainer.cpp", "const double scale = 1.0 / ",
     "const double scale = 1.0 / static_cast<double>(microbatches.size()) / ", ranks(1, FEW)),
    ("targets counted on this rank alone", "lib/train/trainer.cpp",
     "static_cast<std::int64_t>(agree(static_cast<double>(valid)))",
     "static_cast<std::int64_t>(agree(0) + 1 + static_cast<double>(valid))", ranks(2, FEW)),
    # norm and update
    ("norm of this rank alone", "lib/train/trainer.cpp", "  axes_.world.all_reduce(sums);\n  result.loss",
     "  auto loss_alone = sums.back();\n  axes_.world.all_reduce({&loss_alone, 1});\n  sums.back() = loss_alone;\n"
     "  result.loss", ranks(2, FEW)),
    ("norm counts every replica", "lib/shard/sharding.hpp", "return replicas.rank() == 0 && sums_here(s);",
     "return sums_here(s);", ranks(2, FEW)),
    ("norm counts a tied table twice", "lib/shard/sharding.hpp",
     "return replicas.rank() == 0 && sums_here(s);", "return replicas.rank() == 0;", ranks(2, FEW)),
    ("update of the wrong part of a shard", "lib/shard/shards.cpp",
     "return t.slice(begin, {r.count()}).view();", "return t.slice(0 * begin, {r.count()}).view();", ranks(2, FEW)),
    ("initial weights count from the shard's begin", "lib/shard/shards.cpp",
     "upload_normal(backend_, v, mine.begin, hash64", "upload_normal(backend_, v, 0, hash64", ranks(2, FEW)),
    # gradients
    ("a microbatch's reduce-scatter overwrites", "lib/shard/gradients.cpp",
     "begun ? Accumulate::add : Accumulate::overwrite", "Accumulate::overwrite", ranks(2, FEW)),
    ("sums go on from the last step", "lib/shard/gradients.cpp", "    s.begun = {};\n", "", ranks(2, FEW)),
    ("a tied use is dropped", "lib/shard/gradients.cpp",
     "    backend_.put(\n        Queue::compute,\n        kernel::Copy{.dst = g[0]->flat.view(), .src = g[1]->flat.view(), "
     ".how = Accumulate::add});\n", "",
     ("train_test", 0, "*ModelGradient*")),
    ("replicas are not summed", "lib/shard/gradients.cpp", "if (r.size() == 1) return;", "return;",
     ranks(2, FEW)),
    ("replicas send gradients unrounded", "lib/shard/gradients.cpp",
     "Accumulate::overwrite, sharding_.policy.reduce, label);", "Accumulate::overwrite, master_, label);",
     ranks(2, "Precision.Replicas*")),
    ("both stages of a tied table sum it", "lib/shard/gradients.cpp", "  share_tied_sums();\n", "", ranks(4, "TiedTable.*")),
    # sessions
    ("a gather is not waited for", "lib/shard/session.cpp", "  for (const auto& g : lease.held_) arrive(*g);\n",
     "", ranks(2, FEW)),
    ("a gradient buffer is given back early", "lib/shard/gradients.cpp",
     "  leaving.keep(std::move(whole.flat));\n", "  whole.flat = {};\n", ranks(2, FEW)),
    ("a lease of the unit's first segment", "lib/shard/session.cpp",
     "const auto k = std::ranges::find(segments, where.segment) - segments.begin();",
     "const auto k = std::ranges::find(segments, segments[0]) - segments.begin();", ranks(2, "Freeze.*")),
    ("weights are given back while they are leased", "lib/shard/session.cpp",
     "  for (const auto& g : lease.held_) arrive(*g);\n",
     "  for (const auto& g : lease.held_) arrive(*g);\n"
     "  for (const auto& g : lease.held_) if (g->step.uses == 0) g->flat.clear();\n", ranks(2, FEW)),
    ("bf16 weights stay those of the step before", "lib/shard/shards.cpp",
     "compute_ == master() ? View{} : cut(s.copy)", "View{}",
     ranks(2, "Precision.GridsAgreeInBf16AsFarAsOrdersDo")),
    ("frozen segments are still sent", "lib/shard/session.cpp",
     "      if (!store_.trainability().trains(layout_.segments[i])) continue;\n",
     "      if (!store_.trainability().trains(layout_.segments[i])) store_.gradients().hold(i);\n",
     ranks(2, "FrozenStep.*")),
    ("a frozen prefix runs backward", "lib/train/stage.cpp", "flows = flows || b.trains.back();",
     "flows = true;", ("train_test", 0, "StageParts.*")),
    ("of rules that overlap the last one decides", "lib/shard/freeze.cpp", "std::max(spans.back().end, end_of(r));",
     "std::max(spans.back().end, end_of(r)), spans.back().moments = r.moments;", ("shard_test", 0, "Freeze.*")),
    ("moments that a rule drops come back with a restart", "lib/train/state.cpp", "&& standings[i].resumes)", ")",
     ranks(2, "Restart.*")),
    ("what thaws is not planned", "lib/plan/plan.cpp",
     "  for (const auto border : borders_of(in, freeze)) steps.all.push_back(border);\n", "",
     ("plan_test", 0, "*PlanAccount*")),
    # positions and heads
    ("positions off by the shard", "lib/train/stage.cpp", "seq_.rank() * boundary().shape[1]",
     "(0 * seq_.rank())", ranks(2, FEW)),
    ("rotary angles off by the shard", "lib/ops/attention.cpp", "slice(0, run.place.rows.t0, qkv.shape()[1])",
     "slice(0, 0, qkv.shape()[1])", ranks(2, FEW)),
    ("learned positions off by the shard", "lib/ops/embedding.cpp", "table.slice(0, run.place.rows.t0, tokens)",
     "table.slice(0, 0 * run.place.rows.t0, tokens)", ranks(4, FEW)),
    ("key and value gradients are not summed", "lib/ops/collective.cpp",
     "before ? Accumulate::add : Accumulate::overwrite", "Accumulate::overwrite",
     ranks(4, FEW + ":*Adjoint*")),
    ("positions arrive in another order", "lib/ops/collective.cpp",
     "const View here_BthD = y_BThD.slice(1, d * t, t);",
     "const View here_BthD = y_BThD.slice(1, (size - 1 - d) * t, t);", ranks(2, FEW)),
    ("uneven heads read the wrong keys", "lib/ops/heads.cpp", "  if (even) return", "  if (even || h.kv > 1) return",
     ranks(2, FEW)),
    # pipeline
    ("one input fewer in flight", "lib/pipe/schedule.cpp", "stages - stage - 1", "stages - stage - 2",
     ("pipe_test", 0, "*")),
    ("gradients down the activations' way", "lib/pipe/executor.cpp", "up.send(gradient.take(m), me - 1, m);",
     "down.send(gradient.take(m), me - 1, m);", ranks(2, FEW)),
    ("the last message is not waited for", "lib/pipe/executor.cpp", "  up.settle();\n", "", ranks(2, FEW)),
    ("another microbatch's activation", "lib/pipe/executor.cpp",
     "activation.put(m, stage.forward(m, activation.take(m)));",
     "activation.put(m, stage.forward(m > 0 ? m - 1 : m, activation.take(m)));",
     ranks(2, FEW)),
    # device kernels
    ("a column is added up before its parts are there", "kernels/cuda/kernels/reduce.cu",
     "  of_strip[strip][lane] = sum;\n  __syncthreads();\n", "  of_strip[strip][lane] = sum;\n",
     simulated("*UpdateContract.ColumnSum/cuda*")),
    ("sums of a block's teams meet too early", "kernels/cuda/kernels/norm.cu", "if constexpr (Team::teams > 1) __syncthreads();", "",
     simulated("*NormContract.LayerNormGradient/cuda_f32")),
    ("a sum of squares misses its last part", "kernels/cuda/kernels/squares.cu", "part < arrays.first[i + 1];",
     "part < arrays.first[i + 1] - 1;", simulated("*UpdateContract.SumsOfSquares*/cuda_f32")),
    ("a step leaves out what fills no pack", "kernels/cuda/kernels/optimizer.cu",
     "  for (auto at = packed + threadIdx.x; at < end;", "  for (auto at = packed + threadIdx.x; at < packed;",
     simulated("*UpdateContract.ManyShardsAtATime/cuda_f32")),
    ("a tile is overwritten while it is read", "kernels/cuda/kernels/attention.cu",
     "    __syncthreads();  // the last tile was read\n", "", simulated("*AttentionContract.Forward/cuda_f32")),
    ("a key forgets its first query", "kernels/cuda/kernels/attention_grad.cu", "max(j - begin, std::int64_t{0})",
     "max(j - begin + 1, std::int64_t{0})", simulated("*AttentionContract.Gradient/cuda_f32")),
    ("a target's logit is read too late", "kernels/cuda/kernels/loss.cu",
     "  __syncthreads();  // the target's logit was read\n", "", simulated("*CrossEntropy*/cuda*")),
    ("attention sees what comes later", "kernels/cuda/attention/cudnn/sdpa.cpp",
     ".set_diagonal_band_right_bound(0);\n    const auto [o, lse]", ";\n    const auto [o, lse]",
     simulated("*AttentionContract.Forward/cuda_bf16")),
    ("each row of an id adds all of them", "kernels/cuda/kernels/embedding.cu",
     "  if (i > 0 && sorted_ids_T[i - 1] == id) return;\n", "", simulated("*EmbeddingGradient/cuda*")),
    ("sums in a product overwrite", "kernels/cuda/products/product.cpp",
     "return p.adds() ? p.workspace.data + sums_at : p.epilogue.row_sum_M.data;",
     "return p.epilogue.row_sum_M.data;", simulated("*MatmulContract*/cuda_epilogues*")),
]


def run(*command, cwd=None, timeout=None, env=None):
    """Exit code and output; None when it took too long."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True, env={**os.environ, **(env or {})})
    try:
        out, _ = process.communicate(timeout=timeout)
        return process.returncode, out
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return None, ""


class Tree:
    """A copy of the sources with a build of its own."""

    def __init__(self, build):
        self.root = build / "mutants" / "tree"
        self.build = build / "mutants" / "build"
        self.mpiexec = os.environ.get("MPIEXEC") or shutil.which("mpiexec.mpich") or "mpiexec"
        for folder in ("app", "cmake", "kernels", "lib", "tests"):
            self.sync(folder)
        for file in ("CMakeLists.txt", "VERSION"):
            shutil.copy2(ROOT / file, self.root / file)
        code, out = run("cmake", "-S", str(self.root), "-B", str(self.build), "-G", "Ninja", "-DTRIREME_CUDA=AUTO",
                        "-DCMAKE_CUDA_ARCHITECTURES=90",
                        *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []))
        if code:
            sys.exit(out)
        self.cuda = (self.build / "tests/cuda/simulated").is_dir()

    def sync(self, folder):
        """Copies what differs, so that a second run builds little."""
        here, there = ROOT / folder, self.root / folder
        wanted = {p.relative_to(here) for p in here.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
        if there.exists():
            for p in [p for p in there.rglob("*") if p.is_file() and p.relative_to(there) not in wanted]:
                p.unlink()
        for path in wanted:
            target = there / path
            target.parent.mkdir(parents=True, exist_ok=True)
            text = (here / path).read_bytes()
            if not target.exists() or target.read_bytes() != text:
                target.write_bytes(text)
                shutil.copymode(here / path, target)

    def make(self, program):
        return run("cmake", "--build", str(self.build), "-j", str(os.cpu_count()), "--target", program)

    def test(self, suite):
        """Exit code (None: hung) and output of a suite."""
        program, n, cases = suite
        file = "simulated/tests/gpu_test" if program == SIMULATED else f"tests/{program}"
        command = [str(self.build / file), f"--gtest_filter={cases}"]
        if n:
            command = [self.mpiexec, "-n", str(n), *command]
        env = {"TRIREME_HANG_LIMIT": str(HANG_S * self.slow), "TRIREME_RANDOM_DELAYS": "5"}
        return run(*command, cwd=self.root, timeout=2 * HANG_S * self.slow + 20, env=env)

    slow = 1


def clean_run(tree, suites):
    """Every suite passes on the sources as they are; how slow this machine is decides what a hang is."""
    for program in sorted({s[0] for s in suites}):
        code, out = tree.make(program)
        if code:
            sys.exit(f"the sources do not build:\n{out[-3000:]}")
    tree.slow = 12
    for suite in sorted(set(suites)):
        begin = time.monotonic()
        code, out = tree.test(suite)
        if code != 0:
            sys.exit(f"suite {suite} fails without a mutant:\n{out[-3000:]}")
        yield suite, time.monotonic() - begin


def verdict(tree, mutant):
    name, file, right, wrong, suite = mutant
    path = tree.root / file
    text = path.read_text()
    if text.count(right) != 1:
        return f"NOT TRIED: {file} holds {text.count(right)} times {right!r}"
    path.write_text(text.replace(right, wrong))
    try:
        code, out = tree.make(suite[0])
        if code:
            return f"NOT TRIED: does not compile: {out[-600:]}"
        code, out = tree.test(suite)
    finally:
        path.write_text(text)
    if code is None:
        return "found (hung)"
    if code == 0:
        return "SURVIVED"
    return "found (hung)" if "hang" in out.lower() and "FAILED" not in out else "found"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=Path, metavar="BUILD")
    p.add_argument("names", nargs="*", metavar="NAME")
    a = p.parse_args()
    build = a.build.resolve()
    if not (build / "CMakeCache.txt").is_file():
        sys.exit(f"{build} is no build folder: run `make build`")
    unknown = set(a.names) - {m[0] for m in MUTANTS}
    if unknown:
        sys.exit(f"no mutant is named {sorted(unknown)[0]!r}")
    chosen = [m for m in MUTANTS if not a.names or m[0] in a.names]
    begin = time.monotonic()
    tree = Tree(build)
    if not tree.cuda and any(m[4][0] == SIMULATED for m in chosen):
        print("without the CUDA toolkit: no mutants of device kernels", flush=True)
        chosen = [m for m in chosen if m[4][0] != SIMULATED]
    slowest = max(t for _, t in clean_run(tree, [m[4] for m in chosen]))
    tree.slow = max(1, -(-slowest // HANG_S))
    print(f"{len(chosen)} mutants; the suites pass without them, the slowest in {slowest:.1f} s", flush=True)
    lost = 0
    for i, mutant in enumerate(chosen):
        started = time.monotonic()
        said = verdict(tree, mutant)
        lost += not said.startswith("found")
        print(f"{i + 1:3} {mutant[0]:<48} {mutant[1]:<26} {said} [{time.monotonic() - started:.0f} s]", flush=True)
    print(f"{len(chosen) - lost} of {len(chosen)} found in {(time.monotonic() - begin) / 60:.1f} minutes")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
