"""Adapters beside weights that are kept in less (adapter.base), against weights that a formula makes of the model's: NF4 of Dettmers
et al. 2023, in numpy's words, and bf16. Training in f64 is torch's beside those, and bit for bit Trireme's own."""
import shutil

import torch

import adapter_test
import flavours
import reference
import training_test
from adapter_test import Setting, flat, merged, sgd, split
from export_test import transformers_logits
from program import GRID, ONE_RANK, weights_of
from reference_test import difference

# As bitsandbytes prints them.
CODES = torch.tensor([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                      -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                      0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                      0.7229568362236023, 1.0])
BOUNDS = ((CODES[1:].double() + CODES[:-1].double()) / 2).float()
BLOCK, BLOCKS = 64, 256
CHANGES = {"gpt2": {"n_embd": 96, "n_inner": 352}, "llama2": {"hidden_size": 96, "intermediate_size": 200},
           "qwen2-moe": {"hidden_size": 96, "moe_intermediate_size": 180}}


def codes_of(x):
    """Codes, and of each block the largest magnitude."""
    flat = torch.nn.functional.pad(x.flatten(), (0, -x.numel() % BLOCK)).view(-1, BLOCK)
    scales = flat.abs().amax(1)
    at = flat / torch.where(scales == 0, 1.0, scales)[:, None]
    return torch.bucketize(at, BOUNDS), scales


def nf4(x):
    """What x, in f32, comes to: 256 scales at a time are bytes, sixteenths of a power of two below the largest; codes of blocks below the
    smallest of these are of that one."""
    codes, scales = codes_of(x)
    kept, small = [], []
    for s in scales.split(BLOCKS):
        q = torch.round(16 * torch.log2(s.max().double() / s.double().clamp(min=1e-300)))
        small.append((s > 0) & (q > 254))
        q = q.clamp(max=254)
        sixteenths = torch.exp2(-(q % 16) / 16).float()
        kept.append(torch.where(s > 0, s.max() * sixteenths * torch.exp2(-(q // 16)).float(), torch.zeros_like(s)))
    kept, small = torch.cat(kept)[:, None], torch.cat(small)[:, None]
    flat = torch.nn.functional.pad(x.flatten(), (0, -x.numel() % BLOCK)).view(-1, BLOCK)
    codes = torch.where(small, torch.bucketize(flat / torch.where(small, kept, 1.0), BOUNDS), codes)
    values = CODES[codes] * kept
    return values.flatten()[:x.numel()].view(x.shape)


def products(shape, w):
    """Names of what Trireme has in one matrix, in its order."""
    groups = []
    for name in w:
        head, _, last = name.removesuffix(".weight").rpartition(".")
        if name.endswith("norm.weight") or not name.endswith(".weight"):
            continue
        if last == "q_proj":
            groups.append([f"{head}.{p}_proj.weight" for p in "qkv"])
        elif last == "gate_proj":
            groups.append([f"{head}.{p}_proj.weight" for p in ("gate", "up")])
        elif last in ("o_proj", "down_proj", "c_attn", "c_proj", "c_fc"):
            groups.append([name])
    return groups


def kept_weights(shape, w, keep):
    """All weights, those of products as `keep` leaves them."""
    both = dict(w)
    for names in products(shape, w):
        together = torch.cat([w[n].T if shape.gpt2 else w[n] for n in names]).float().contiguous()
        parts = keep(together).double().split([w[n].shape[1 if shape.gpt2 else 0] for n in names])
        for n, part in zip(names, parts, strict=True):
            both[n] = (part.T if shape.gpt2 else part).contiguous()
    return both


def agrees_with_bitsandbytes():
    """Codes, their table and scales are those of bitsandbytes on a CPU, where that is installed."""
    try:
        from bitsandbytes import functional
    except ImportError:
        return "bitsandbytes is not installed"
    x = torch.randn(384, 256, generator=torch.Generator().manual_seed(4)) * 0.02
    packed, state = functional.quantize_4bit(x, blocksize=BLOCK, quant_type="nf4", compress_statistics=False)
    codes, scales = codes_of(x)
    assert torch.equal(state.code, CODES), "another table"
    assert torch.equal(state.absmax, scales), "other scales"
    pairs = codes.view(-1, 2)
    differ = int((packed.flatten() != (pairs[:, 0] << 4 | pairs[:, 1]).to(torch.uint8)).sum())
    assert differ == 0, f"{differ} of {packed.numel()} bytes differ"
    back = functional.dequantize_4bit(packed, state)
    assert torch.equal(back.flatten(), (CODES[codes] * scales[:, None]).flatten()), "other numbers"
    doubled = functional.dequantize_4bit(*functional.quantize_4bit(x, blocksize=BLOCK, quant_type="nf4", compress_statistics=True))
    ours, theirs = (float((y - x).norm() / x.norm()) for y in (nf4(x), doubled))
    assert abs(ours - theirs) < 2e-3, f"quantised scales add another error: {ours} and {theirs}"
    return f"the {packed.numel()} bytes of bitsandbytes; relative error {ours:.5f}, bitsandbytes' with its scales quantised {theirs:.5f}"


def trains(name, program, base, keep):
    folder = program.work / "model"
    flavours.make(name, folder, **CHANGES[name])
    shape, w = reference.load(folder, torch.float64)
    program("import", folder, "imported")
    w = kept_weights(shape, w, keep)
    # The model whose weights are what was kept.
    same = program.work / "same"
    shutil.copytree(folder, same)
    prefix = "transformer." if shape.gpt2 else ""

    def replace(tensors):
        for names in products(shape, w):
            for n in names:
                assert tensors[prefix + n].shape == w[n].shape and not torch.equal(tensors[prefix + n].double(), w[n])
                tensors[prefix + n] = w[n].float()

    flavours.edit_tensors(same, replace)
    program("import", same, "imported-same")

    n = training_test.STEPS * training_test.BATCH * flavours.CONTEXT + 1
    ids = flavours.random_ids(1, n, seed=3)[0]
    program.write_tokens("random.tokens", ids, flavours.SHAPE["vocab_size"])
    text = training_test.DECK.replace("CLIP", "0").replace("every_steps = 0", "every_steps = 1\nkeep_last = 0")
    deck = program.write_deck("deck.toml", text + Setting().section())
    steps = training_test.steps_of(ids, flavours.CONTEXT)
    said = []
    runs = {"one": (*ONE_RANK, base), "grid": (*GRID, base), "plain": (*ONE_RANK, "compute")}
    for run, (ranks, grid, kept) in runs.items():
        beside = ["model.init_from=imported-same"] if run == "plain" else []
        program("train", deck, "--run-dir", run, *grid, *beside, f"adapter.base={kept}", ranks=ranks)
        after_one, *_, last = sorted((program.work / run / "checkpoints").glob("step-*"))
        begin, got = (split(weights_of(c), shape, w) for c in (after_one, last))
        want, losses = sgd(w, shape, begin, steps[1:], Setting())
        training_test.expect_near(program.history(run)["loss"][1:], losses, f"{run}: losses")
        said.append(f"{run} {training_test.expect_weights(flat(got), flat(want)):.1e}")
    one, plain = (weights_of(program.newest(run)) for run in ("one", "plain"))
    assert all(torch.equal(x, plain[n]) for n, x in one.items()), "other bits than beside those weights themselves"
    assert program.history("one")["loss"] == program.history("plain")["loss"]
    logits = flavours.random_ids(2, flavours.CONTEXT)
    f64 = ["parallel.pipe=1", "parallel.seq=1", "zero.stage=0", "precision.compute=f64"]
    off = difference(program.logits("grid", logits, overrides=f64), reference.logits(merged(w, shape, got_of(program, shape, w)), shape, logits))
    assert off <= 1e-10, f"logits of the run differ by {off:.1e}"
    # Merged, the adapters stand on the weights that the base has, not on those that were kept.
    program("export", "grid", "whole", "--dtype", "f32")
    whole = merged(reference.load(folder, torch.float64)[1], shape, got_of(program, shape, w))
    by_export = difference(transformers_logits(program.work / "whole", logits).double(), reference.logits(whole, shape, logits))
    assert by_export <= adapter_test.AGREES, f"logits of the export differ by {by_export:.1e}"
    return f"adapters differ by {', '.join(said)}, one and plain by nothing; logits by {off:.1e}"


def got_of(program, shape, w):
    return split(weights_of(program.newest("grid")), shape, w)


def cases():
    yield "nf4-is-bitsandbytes", lambda program: agrees_with_bitsandbytes()
    for name in CHANGES:
        yield f"{name}-nf4", lambda program, name=name: trains(name, program, "nf4", nf4)
    yield "llama2-bf16", lambda program: trains("llama2", program, "bf16", lambda x: x.bfloat16().float())
