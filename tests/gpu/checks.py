"""The checks of `make gpu-test`. A check takes a Machine and returns one line of results. It raises Failed or Skipped.

The training runs use the quick start's deck, with the peak learning rate and gradient accumulation of the rule for comparing grids.
"""
import os
import re

from machine import Failed, Skipped, history

STEPS = 50
COURSE = ["train.microbatch=4", "optimizer.lr=1e-3", "schedule.warmup_steps=100", "optimizer.clip=1", "data.validation=0",
          "checkpoint.every_steps=0", "precision.tf32=false", "precision.reduce=f32", "run.exactness=repeatable"]
F32 = [*COURSE, "precision.compute=f32"]
BF16 = [*COURSE, "precision.compute=bf16"]

# Relative bound on the difference of losses at each step. Another backend, like another grid, adds the same terms in another
# order, and functions such as GELU and exp have the same source on all backends. Backends therefore have the same bound as grids.
# `ref`, which adds in f64, differs from `host` by at most 6e-8 over these steps. One more rounding in each product cannot
# multiply this difference by 30.
F32_BOUND = 2e-6


def losses(run):
    return [row["loss"] for row in history(run)]


def furthest(got, want, bounds, what):
    """Returns the largest difference in units of its bound. Raises Failed if it exceeds 1 or if the numbers of steps differ."""
    if len(got) != len(want) or not got:
        raise Failed(f"{what}: {len(got)} steps where {len(want)} are expected")
    most = 0
    for i, (x, y, bound) in enumerate(zip(got, want, bounds)):
        off = abs(x - y)
        if not off <= bound:
            raise Failed(f"{what}: row {i + 1} has loss {x!r} against {y!r}, off by {off:.2g}, may be {bound:.2g}")
        most = max(most, off / bound)
    return most


def relative(want, bound=F32_BOUND):
    return [bound * y for y in want]


# -- operations


def contract(m):
    return f"Backends/*Contract.*/{m.backend}_*:Backends/AttentionPieces.*/{m.backend}_*"


def shards():
    return max(1, min(4, (os.cpu_count() or 1) // 2))


def said(counts):
    passed, skipped = counts
    return f"{passed} cases" + (f", {skipped} skipped" if skipped else "")


def kernels(m):
    """compares every backend operation with ref on odd sizes, in f32 and bf16"""
    return said(m.gtest(contract(m), 150, shards()))


def operations(m):
    """compares the forward and backward pass of every op with ref"""
    return said(m.gtest(f"*OpsOnBackends.*/{m.backend}_*", 100, shards()))


def device(m):
    """tests streams, events, memory, uploads and cuDNN plans"""
    # The NVTX tests need a listener inside the program, which a shared library cannot see.
    return said(m.gtest("Cuda*:Sdpa*:-CudaNvtx*", 60))


def gradients(m):
    """compares every gradient of a tiny model with ref"""
    return said(m.gtest(f"*ModelGradients*/{m.backend}_*", 60))


def nccl(m):
    """tests NCCL with one rank"""
    passed, skipped = m.gtest("Nccl*", 60)
    steps = [*F32, "train.steps=5", "zero.stage=3"]
    staged = losses(m.train("staged", *steps))
    if losses(m.train("nccl", *steps, "run.share_gpu=false")) != staged:
        raise Failed("a training has other losses than where messages go through host memory")
    if passed == 0:
        raise Skipped(f"its {skipped} cases find no device or no NCCL")
    return said((passed, skipped)) + ", and a training with the bits of one without it"


# -- trainings


def training(m):
    """compares 50 training steps in f32 with host"""
    want = losses(m.train("host-f32", *F32, f"train.steps={STEPS}", backend="host"))
    run = m.train("device-f32", *F32, f"train.steps={STEPS}")
    got = losses(run)
    if m.backend == "cuda" and (run / "log").read_text().count("tensor cores idle") != 1:
        raise Failed("the log does not say once that f32 leaves tensor cores idle")
    most = furthest(got, want, relative(want), "f32")
    again = losses(m.train("device-f32-again", *F32, f"train.steps={STEPS}"))
    if again != got:
        raise Failed('the same run again has other losses, although run.exactness = "repeatable"')
    return f"{STEPS} steps, at most {most:.3f} of the bound of {F32_BOUND:g}; the same bits again"


def bf16_elsewhere(m, steps):
    """Returns the bf16 losses on host (on ref if the CPU cannot multiply bf16) and their largest difference from f32."""
    exact = losses(m.train(f"host-f32-for-bf16-{steps}", *F32, f"train.steps={steps}", backend="host"))
    run = m.train(f"host-bf16-{steps}", *BF16, f"train.steps={steps}", backend="host")
    if "cannot multiply bf16" in (run / "log").read_text():
        if m.backend != "cuda":
            raise Skipped("this processor cannot multiply bf16")
        run = m.train(f"ref-bf16-{steps}", *BF16, f"train.steps={steps}", backend="ref")
    want = losses(run)
    rounding = max(abs(x - y) for x, y in zip(want, exact))
    if not 0 < rounding < 0.02 * want[0]:
        raise Failed(f"bf16 is {rounding:.2g} off f32: no measure for anything")
    return want, rounding


def bf16_against_another(m, steps, name, *overrides):
    # Both bf16 runs are roundings of the same f32 training. They therefore differ by at most the sum of their differences from
    # the f32 run. One of these differences is measured, and the bound is three times this difference.
    want, rounding = bf16_elsewhere(m, steps)
    got = losses(m.train(name, *BF16, f"train.steps={steps}", *overrides))
    most = furthest(got, want, [3 * rounding] * len(want), name)
    return f"{steps} steps, at most {most:.3f} of the bound of {3 * rounding:.2g}"


def training_bf16(m):
    """compares 50 training steps in bf16 with host or ref"""
    return bf16_against_another(m, STEPS, "device-bf16")


def fastest(m):
    """compares 20 training steps in bf16 with host or ref, using the fastest algorithms and fused epilogues"""
    return bf16_against_another(m, 20, "device-fast", "run.exactness=fast")


# ranks, grid, zero.stage
GRIDS = [
    (2, "pipe=2", 0), (2, "data=2", 3), (2, "seq=2", 3),
    (4, "pipe=4", 0), (4, "data=4", 3), (4, "seq=4", 3), (4, "pipe=2 seq=2", 3),
]
GRID_STEPS = 20


def grid_overrides(grid, zero):
    return [f"parallel.{axis}" for axis in grid.split()] + [f"zero.stage={zero}"]


def microbatch(grid):
    return f"train.microbatch={1 if 'data=4' in grid else 2 if 'data=2' in grid else 4}"  # 4 micro-batches per rank


def against_one_rank(m, ranks_at_most, name, *overrides):
    steps = f"train.steps={GRID_STEPS}"
    want = losses(m.train(f"{name}-1", *F32, steps))
    worst = tried = 0
    for ranks, grid, zero in GRIDS:
        if ranks > ranks_at_most:
            continue
        run = m.train(f"{name} {grid}", *F32, steps, *grid_overrides(grid, zero), microbatch(grid), *overrides, ranks=ranks)
        most = furthest(losses(run), want, relative(want), f"{grid}, zero.stage = {zero}")
        if grid.startswith("pipe") and "seq" not in grid and most > 0:
            raise Failed(f"{grid}: losses are within the bound, but a pipeline's are bit-identical")
        worst = max(worst, most)
        tried += 1
    return f"{tried} grids, {GRID_STEPS} steps, at most {worst:.3f} of the bound of {F32_BOUND:g}; pipelines bit-identical"


def grids(m):
    """compares 2 and 4 ranks on one device, on every axis of the grid, with one rank"""
    return against_one_rank(m, 4, "grid")


def own_devices(m):
    """compares 2 and 4 ranks with one device each, through NCCL, with one rank"""
    devices, _ = m.devices()
    if m.backend != "cuda" or devices < 2:
        raise Skipped("there is one device" if m.backend == "cuda" else "nothing runs on a device")
    ranks = 4 if devices >= 4 else 2
    cases = m.parallel(ranks, "Parity.BetweenDevicesWithDelays", 120)
    return against_one_rank(m, ranks, "own", "run.share_gpu=false") + f"; every weight of {cases} case"


def parity_one_rank(m):
    """compares every weight, in f32, on one rank"""
    return f"{m.parallel(1, 'Parity.OnFencedMemoryWithDelays:Precision.*InF32', 60)} cases"


def parity_two_ranks(m):
    """compares every weight, in f32 and bf16, on grids of 2 ranks with one rank; memory and traffic with the plan"""
    return f"{m.parallel(2, 'Parity.OnFencedMemoryWithDelays:Sequence.Pieces*:Precision.GridsAgree*:Precision.Pipelines*', 120)} cases"


def parity_four_ranks(m):
    """compares every weight, in f32, on grids of 4 ranks with one rank; compares memory and traffic with the plan"""
    return f"{m.parallel(4, 'Parity.OnFencedMemoryWithDelays:Sequence.Pieces*:Precision.PipelinesAreBitIdenticalInF32', 120)} cases"


# -- checkpoints, and commands that read them


def checkpoints(m):
    """restarts a run on host from a checkpoint of this backend, and the reverse"""
    steps = [*F32, "train.steps=20", "checkpoint.keep_last=0"]
    seen = []
    for writer, reader in ((m.backend, "host"), ("host", m.backend)):
        name = f"checkpoint-{len(seen)}"
        whole = m.train(name, *steps, "checkpoint.every_steps=10", backend=writer)
        rest = m.train(name + "-restarted", *steps, backend=reader, restart=whole / "checkpoints/step-00000010")
        want = losses(whole)[10:]
        seen.append(furthest(losses(rest), want, relative(want), f"written on {writer}, restarted on {reader}"))
    same = m.train("checkpoint-same", *steps, restart=m.work / "checkpoint-0/checkpoints/step-00000010")
    if losses(same) != losses(m.work / "checkpoint-0")[10:]:
        raise Failed("restarted where it was written, its losses have other bits")
    return f"10 steps each, at most {max(seen):.3f} of the bound of {F32_BOUND:g}; same bits on the same backend"


def readers(m):
    """compares the results of evaluate and generate with host"""
    run = str(m.train("readers", *F32, "train.steps=20"))
    values = {}
    for backend in ("host", m.backend):
        said = m.run([m.trireme, "evaluate", run, "--backend", backend, "--data", m.tokens, "--samples", "64"], 60)
        values[backend] = float(re.search(r"loss ([\d.]+)", said)[1])
    # evaluate prints six digits after the decimal point.
    furthest([values[m.backend]], [values["host"]], [F32_BOUND * values["host"] + 1e-6], "evaluate")
    texts = {b: m.run([m.trireme, "generate", run, "--backend", b, "--prompt", "#include ", "--tokens", "40",
                       "--temperature", "0"], 60) for b in ("host", m.backend)}
    if texts["host"] != texts[m.backend] or len(texts["host"]) < 20:
        raise Failed(f"generate says {texts[m.backend]!r}, on host {texts['host']!r}")
    return f"held-out loss {values[m.backend]:.6f}, the same 40 likeliest tokens"


def plans(m):
    """compares memory and traffic with the prediction of plan, to the byte"""
    cases = [(1, "", 0, F32), (1, "", 0, BF16), (2, "seq=2", 3, BF16), (2, "pipe=2", 0, F32), (4, "pipe=2 seq=2", 3, F32)]
    for ranks, grid, zero, course in cases:
        overrides = [*course, "train.steps=3", *grid_overrides(grid, zero), microbatch(grid)]
        run = m.train(f"plan {grid} {course[-1]}", *overrides, ranks=ranks)
        log = (run / "log").read_text()
        if "cannot multiply bf16" in log:
            continue
        reserved = [int(n) for n in re.search(r"bytes by rank: ([\d ]+)", log)[1].split()]
        last = history(run)[-1]
        for rank in m.plan(ranks, *overrides)["ranks"]:
            expect(f"{grid or 'one rank'}, rank {rank['rank']}: bytes reserved", reserved[rank["rank"]], rank["reserved_bytes"])
            if rank["rank"] == 0:
                expect(f"{grid}: peak bytes", last["bytes_peak"], rank["peak_bytes"])
                expect(f"{grid}: bytes sent a step", last["bytes_sent"], sum(rank["sent_bytes_a_step"].values()))
    return f"{len(cases)} runs"


def expect(what, got, predicted):
    if got != predicted:
        raise Failed(f"{what}: {got:.0f}, predicted {predicted}")


# -- under compute-sanitizer


# Additional options of each compute-sanitizer tool. Only memcheck checks the kernels of libraries, because they access memory of
# this program. The other tools are slow, so they check only kernels of this project.
OWN = ["--kernel-name", "kns=7trireme"]  # substring of mangled names
SANITIZERS = {
    "memcheck": [],
    "racecheck": ["--racecheck-report", "analysis", *OWN],
    "synccheck": OWN,
    "initcheck": OWN,
}


def sanitized(m, tool):
    return [m.sanitizer(), "--tool", tool, *SANITIZERS[tool], "--error-exitcode", "9", "--print-limit", "20"]


def sanitizer(m):
    """runs all backend operations under memcheck of compute-sanitizer"""
    if m.backend != "cuda":
        raise Skipped("nothing runs on a device")
    if not m.sanitizer():
        raise Skipped("compute-sanitizer is not here")
    return said(m.gtest(contract(m), 240, shards(), before=sanitized(m, "memcheck")))


def sanitized_kernels(m):
    """runs every backend operation on odd sizes, in f32 and bf16"""
    env = {"TRIREME_TEST_GUARDS": "1"} if m.tool == "memcheck" else None
    return said(m.gtest(contract(m), 3000, shards(), before=sanitized(m, m.tool), env=env))


def sanitized_gradients(m):
    """runs the forward and backward pass of a tiny model"""
    return said(m.gtest(f"*ModelGradients*/{m.backend}_*", 600, before=sanitized(m, m.tool)))


def sanitized_training(m):
    """trains a small model for 3 steps, in f32 and bf16"""
    # Guards make single blocks visible to memcheck. Guarded blocks are filled when they are allocated, so initcheck, which
    # searches for reads of uninitialized memory, would find nothing.
    guards = "run.guards=" + ("false" if m.tool == "initcheck" else "true")
    small = ["model.width=64", "model.context=64", "train.steps=3", guards]
    for name, course in (("f32", F32), ("bf16", BF16)):
        run = m.train(name, *course, *small, limit=1200, before=sanitized(m, m.tool))
        if len(losses(run)) != 3:
            raise Failed(f"a training in {name} made {len(losses(run))} of 3 steps")
    return "3 steps each"


SANITIZED = [sanitized_kernels, sanitized_gradients, sanitized_training]

# The most informative checks are first, because the time limit may skip the last ones.
CHECKS = [device, kernels, operations, gradients, training, fastest, grids, plans, checkpoints, readers, training_bf16,
          nccl, own_devices, parity_one_rank, parity_two_ranks, parity_four_ranks, sanitizer]
