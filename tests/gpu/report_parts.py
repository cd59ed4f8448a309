"""The parts of report.py: comparisons of features with the host backend and of grids with one rank, and measured rates."""
import json
from concurrent.futures import ThreadPoolExecutor

from checks import COURSE, F32, F32_BOUND, furthest, losses, relative
from machine import Failed, Skipped, history

STEPS = 10
FP8_BOUND = 0.1  # of the effect of fp8; the sums of ref change the norm by 0.0004 of it
LLAMA = ["model.norm=rms", "model.positions=rotary", "model.kv_heads=2", "model.activation=swiglu", "model.bias=false"]
# Overrides of the quick start's deck.
FEATURES = {
    "documents": ["data.attention=document"],
    "documents in windows": [*LLAMA, "data.attention=document", "model.window=24"],
    "grouped heads": [*LLAMA, "model.qk_norm=true"],
    "windows and sinks": [*LLAMA, "model.window=24", "model.attention_sinks=true"],
    "soft caps": [*LLAMA, "model.attention_softcap=20", "model.logit_softcap=30"],
    "experts": [*LLAMA, "model.experts=4", "model.experts_per_token=2", "model.expert_width=64"],
    "experts with a bias": [*LLAMA, "model.experts=4", "model.experts_per_token=2", "model.router=sigmoid", "train.balance=bias"],
    "offload": ["model.recompute=block", "model.offload=inputs"],
    "chunks of tokens": ["model.chunk_tokens=32", "model.dropout=0.1"],
}
PAIRS = 64

# Options of the command `bench_gpu step`.
RATES = {
    "124M": "--model gpt2-124M --batch 64 --microbatch 64 --steps 10",
    "124M, documents of 512": "--model gpt2-124M --batch 64 --microbatch 64 --steps 4 --timed 1 --documents 512",
    "1.5B": "--model gpt2-1558M --batch 32 --steps 8",
    "1.5B in fp8": "--model gpt2-1558M --batch 32 --steps 8 --products fp8",
    "7B shape, 8 of 32 layers": "--model llama-7B --layers 8 --context 4096 --batch 8 --steps 5",
    "7B shape in fp8, 8 of 32 layers": "--model llama-7B --layers 8 --context 4096 --batch 8 --steps 5 --products fp8",
    "Llama 3 8B, LoRA on bf16": "--model llama-3-8B --context 4096 --batch 4 --steps 4 --adapter 16 --base bf16",
    "Llama 3 8B, LoRA on nf4": "--model llama-3-8B --context 4096 --batch 4 --steps 4 --adapter 16 --base nf4",
    "OLMoE 1B-7B, 6 of 16 layers": "--model olmoe-1B-7B --layers 6 --batch 8 --steps 5",
    "Qwen3 30B-A3B, 3 of 48 layers": "--model qwen3-30B-A3B --layers 3 --context 4096 --batch 8 --steps 5",
}
# Options of the command `bench_gpu decode`. --context is the number of tokens at the end.
DECODES = {
    "124M, 1 sequence": "--model gpt2-124M --context 1024 --batch 1",
    "Llama 3 8B, 1 sequence": "--model llama-3-8B --context 4096 --batch 1",
    "Llama 3 8B, 8 sequences": "--model llama-3-8B --context 4096 --batch 8",
}
TINY = "--layers 2 --width 64 --heads 2 --vocab 256 --context 32 --batch 4 --microbatch 2 --steps 2"

# Number of ranks for each run of tests/parallel. All ranks share the device.
DEVICE_PARTS = {"features on one rank": 1, "features on 2 ranks": 2, "features on 4 ranks": 4}


def parity(machine, ranks):
    cases = "Parity.OfAFewSettingsOnTheChosenBackend" + (":Sequence.PiecesOfKeysOnTheChosenBackend" if ranks > 1 else "")
    draw = "all" if ranks < 4 else "some"  # ranks that share a device wait for each other
    return f"{machine.parallel(ranks, cases, 100, draw)} tests"


def with_files(machine):
    """Returns the overrides of features that need preference pairs or a trained model, after creating these files."""
    pairs = machine.work / "pairs.jsonl"
    with open(pairs, "w") as file:
        for i in range(PAIRS):
            file.write(json.dumps({"prompt": f"{i} + 1 is", "chosen": f" {i + 1}, of course", "rejected": f" {i * 7 % 50} or so"}) + "\n")
    tokens = machine.work / "pairs.tokens"
    machine.run([machine.trireme, "tokenize", str(pairs), "--preference", "-o", str(tokens)], 60)
    trained = machine.train("trained", *F32, "train.steps=5", backend="host")
    adapters = [f"model.init_from={trained}", "adapter.rank=4"]
    return {
        "adapters": adapters,
        "adapters on bf16": [*adapters, "adapter.base=bf16"],
        "adapters on nf4": [*adapters, "adapter.base=nf4", "adapter.dropout=0.1"],
        "preferences": [*adapters, "train.objective=dpo", f"data.path={tokens}", "data.packing=documents", "data.attention=document"],
        "distillation": ["train.objective=distill", f"distill.teacher={trained}"],
    }


def features(machine):
    """Compares the f32 losses of each feature with host. Returns the largest differences in units of the bound of 2e-6."""
    def one(item):
        name, overrides = item
        try:
            want, got = (losses(machine.train(f"{name}, {where}", *F32, f"train.steps={STEPS}", "run.threads=2", *overrides, backend=backend))
                         for where, backend in (("host", "host"), ("device", machine.backend)))
            return name, round(furthest(got, want, relative(want), name), 3)
        except Failed as e:
            return name, str(e)

    with ThreadPoolExecutor(4) as pool:
        results = dict(pool.map(one, {**FEATURES, **with_files(machine)}.items()))
    if bad := {name: text for name, text in results.items() if isinstance(text, str)}:
        raise Failed("\n".join([*bad.values(), f"others, in units of {F32_BOUND:g}: {[r for r in results.items() if r[0] not in bad]}"]))
    return [f"{name} {off}" for name, off in results.items()]


def fp8(machine):
    """Compares the gradient norm of a first step in fp8 with host. The effect of fp8 itself, which is the difference between bf16
    and fp8 on host, is the unit: a device that does not round, or rounds otherwise, is off by about 1."""
    def norm(where, backend, products):
        overrides = ["precision.compute=bf16", f"precision.products={products}", "train.steps=1", "model.context=64"]
        return float(history(machine.train(f"fp8, {where}", *COURSE, *overrides, backend=backend))[0]["grad_norm"])

    try:
        got = norm("device", machine.backend, "fp8")
    except Failed as e:
        if "compute capability 9.0" in str(e):
            raise Skipped("fp8 needs a Hopper GPU") from e
        raise
    plain, want = norm("bf16", "host", "compute"), norm("host", "host", "fp8")
    off = abs(got - want) / abs(plain - want)
    if not off <= FP8_BOUND:
        raise Failed(f"fp8: the gradient norm is {got!r} against {want!r}, off by {off:.3f} of the effect of fp8, may be {FP8_BOUND}")
    return [f"difference from host, in units of the effect of fp8: {off:.3f}"]


def generation(machine):
    """Compares greedy texts of several prompts with host, and with texts that are generated alone or without a key-value cache."""
    prompts = machine.work / "prompts.jsonl"
    lines = [json.dumps({"prompt": text}) + "\n" for text in ("#include ", "template <class T>\n", "return ")]
    prompts.write_text("".join(lines))
    models = {"grouped heads and windows": [*LLAMA, "model.window=24"], "experts": FEATURES["experts"]}
    for name, overrides in models.items():
        run = machine.train(f"generation, {name}", *F32, "train.steps=5", *overrides, backend="host")

        def texts(backend, file, *more):
            out = machine.work / "texts.jsonl"
            machine.run([machine.trireme, "generate", str(run), "precision.compute=f32", f"run.backend={backend}", "--prompts", str(file), "--tokens", "40", "--temperature", "0",
                         "--output", str(out), "--overwrite", *more], 60)
            return [json.loads(line)["text"] for line in out.read_text().splitlines()]

        want = texts("host", prompts)
        if (got := texts(machine.backend, prompts)) != want:
            raise Failed(f"{name}: the texts of {machine.backend} differ from those of host: {got} and {want}")
        if (slow := texts(machine.backend, prompts, "--no-cache")) != want:
            raise Failed(f"{name}: without a key-value cache, {machine.backend} generates other texts: {slow} and {want}")
        one = machine.work / "one.jsonl"
        one.write_text(lines[1])
        if texts(machine.backend, one) != want[1:2]:
            raise Failed(f"{name}: a text depends on the other texts of its batch")
    return [f"{name}: {len(lines)} texts of 40 tokens" for name in models]


def measured(machine, command, options, tiny):
    """Returns the measurements that a command of bench_gpu prints."""
    places = [machine.build / "tests/bench_gpu", machine.build / "bench_gpu"]
    program = next((str(p) for p in places if p.is_file()), None)
    if not program:
        raise Failed(f"bench_gpu is not in {machine.build}: build the target bench_gpu")
    command = [program, command, "--backend", machine.backend, *options.split(), *(TINY.split() if tiny else [])]
    return json.loads(machine.run(command, 100).strip().splitlines()[-1])
