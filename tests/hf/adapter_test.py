"""Low-rank adapters beside an imported model: trained in f64 as torch trains them by the formula of Hu et al. 2021, and opened by
peft and by transformers, merged."""
import peft
import torch
import transformers

import flavours
import reference
import training_test
from export_test import transformers_logits
from program import GRID, ONE_RANK, weights_of
from reference_test import difference

RANK, ALPHA = 3, 5.0
SECTION = f"""
[adapter]
rank = {RANK}
alpha = {ALPHA}
rank_stabilized = STABLE
"""
AGREES = 1e-5  # of peft's logits in f32

LLAMA = {"projection": [("self_attn.o_proj", 0)], "ffn_in": [("mlp.gate_proj", 0), ("mlp.up_proj", 1)],
         "ffn_out": [("mlp.down_proj", 0)],
         "shared_expert.ffn_in": [("mlp.shared_expert.gate_proj", 0), ("mlp.shared_expert.up_proj", 1)],
         "shared_expert.ffn_out": [("mlp.shared_expert.down_proj", 0)],
         "qkv": [("self_attn.q_proj", 0), ("self_attn.k_proj", 1), ("self_attn.v_proj", 2)]}
GPT2 = {"qkv": [("attn.c_attn", 0)], "projection": [("attn.c_proj", 0)], "ffn_in": [("mlp.c_fc", 0)], "ffn_out": [("mlp.c_proj", 0)]}


def module_of(name, shape, product):
    """Of blocks.2.qkv.lora_a the module that its product's rows stand beside."""
    _, block, rest = name.rsplit(".lora_", 1)[0].split(".", 2)
    modules = GPT2 if shape.gpt2 else LLAMA
    prefix = f"h.{block}." if shape.gpt2 else f"model.layers.{block}."
    return prefix + modules[rest][product][0], len(modules[rest])


def split(weights, shape, w):
    """Trireme's names -> (a, b) of each module: a's rows by product, b's by the module's outputs."""
    adapters = {}
    for name, a in weights.items():
        if not name.endswith(".lora_a"):
            continue
        b, row = weights[name.replace("lora_a", "lora_b")], 0
        for product in range(a.shape[0] // RANK):
            module, count = module_of(name, shape, product)
            assert a.shape[0] == count * RANK, f"{name} has {a.shape}"
            outputs = w[module + ".weight"].shape[1 if shape.gpt2 else 0]
            adapters[module] = (a[product * RANK:(product + 1) * RANK], b[row:row + outputs])
            row += outputs
        assert row == b.shape[0], name
    return adapters


def merged(w, shape, adapters, scale):
    """w + s b a, by which transformers' and the reference's models compute."""
    both = dict(w)
    for module, (a, b) in adapters.items():
        delta = scale * (b @ a)
        both[module + ".weight"] = w[module + ".weight"] + (delta.T if shape.gpt2 else delta)
    return both


def sgd(w, shape, adapters, steps, lr, scale):
    losses = []
    for ids_BT, targets_BT in steps:
        adapters = {m: tuple(x.detach().requires_grad_(True) for x in ab) for m, ab in adapters.items()}
        loss = reference.mean_loss(merged(w, shape, adapters, scale), shape, ids_BT, targets_BT)
        flat = [x for ab in adapters.values() for x in ab]
        gradients = iter(torch.autograd.grad(loss, flat))
        losses.append(loss.item())
        adapters = {m: tuple((x - lr * next(gradients)).detach() for x in ab) for m, ab in adapters.items()}
    return adapters, losses


def trains(name, program, stable=False):
    folder = program.work / "model"
    flavours.make(name, folder)
    shape, w = reference.load(folder, torch.float64)
    n = training_test.STEPS * training_test.BATCH * flavours.CONTEXT + 1
    ids = flavours.random_ids(1, n, seed=3)[0]
    program.write_tokens("random.tokens", ids, flavours.SHAPE["vocab_size"])
    program("import", folder, "imported")
    text = training_test.DECK.replace("CLIP", "0").replace("every_steps = 0", "every_steps = 1\nkeep_last = 0")
    deck = program.write_deck("deck.toml", text + SECTION.replace("STABLE", "true" if stable else "false"))
    scale = ALPHA / (RANK ** 0.5 if stable else RANK)
    steps = training_test.steps_of(ids, flavours.CONTEXT)
    said = []
    for run, (ranks, grid) in {"one": ONE_RANK, "grid": GRID}.items():
        program("train", deck, "--run-dir", run, *grid, ranks=ranks)
        after_one, *_, last = sorted((program.work / run / "checkpoints").glob("step-*"))
        # b is zero at first; after a step both parts have gradients.
        begin, got = (split(weights_of(c), shape, w) for c in (after_one, last))
        want, losses = sgd(w, shape, begin, steps[1:], training_test.LR, scale)
        training_test.expect_near(program.history(run)["loss"][1:], losses, f"{run}: losses")
        moved = min(float((want[m][1] - begin[m][1]).abs().max()) for m in want)
        assert moved > 1e-8, f"a module has not moved: {moved}"
        flat = [{f"{m}.{k}": x for m, ab in adapters.items() for k, x in zip("ab", ab)} for adapters in (got, want)]
        said.append(f"{run} {training_test.expect_weights(*flat):.1e}")
    return f"{len(want)} modules, adapters differ by {', '.join(said)}; {opens(program, shape, w, got, scale)}"


def opens(program, shape, w, adapters, scale):
    """Exported, beside the folder that was imported."""
    ids = flavours.random_ids(2, flavours.CONTEXT)
    with torch.no_grad():
        want = reference.logits(merged(w, shape, adapters, scale), shape, ids)
    f32 = ["parallel.pipe=1", "parallel.seq=1", "zero.stage=0", "precision.compute=f64"]
    own = difference(program.logits("grid", ids, overrides=f32), want)
    assert own <= 1e-10, f"logits of the run differ by {own:.1e}"
    program("export", "grid", "adapters", "--format", "peft", "--base-name", "model")
    assert (program.work / "adapters/README.md").read_text().startswith("---\nbase_model: model\nlibrary_name: peft\n")
    program("export", "grid", "whole", "--dtype", "f32")
    base = program.work / "model"
    if '"phi3"' in (base / "config.json").read_text():  # whose products have other modules: beside its export
        base = program.work / "as-llama"
        program("export", "imported", base)
    base = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(base, program.work / "adapters")
    with torch.no_grad():
        by_peft = difference(model.eval()(ids).logits.double(), want)
    whole = difference(transformers_logits(program.work / "whole", ids).double(), want)
    assert max(by_peft, whole) <= AGREES, f"peft's logits differ by {by_peft:.1e}, those of merged weights by {whole:.1e}"
    # Saved again by peft, and imported: the adapters as they were, in f32.
    model.save_pretrained(program.work / "again")
    program("import", "again", "adapters-again", "--base", "imported")
    want = weights_of(program.newest("grid"))
    back = weights_of(program.work / "adapters-again")
    assert sorted(back) == sorted(want), f"parameters are {sorted(back)}"
    assert all(torch.equal(back[name].float(), x.float()) for name, x in want.items()), "another number came back"
    return f"logits of peft differ by {by_peft:.1e}, of merged weights by {whole:.1e}"


def cases():
    for name in ("gpt2", "llama2", "phi3", "olmo2", "gemma2", "gemma3", "qwen3", "qwen2-moe"):
        yield name, lambda program, name=name: trains(name, program)
    yield "llama3-rank-stabilized", lambda program: trains("llama3", program, stable=True)
