"""Adapters beside an imported model, and what is trained beside them: trained in f64 as torch trains them by the formulas of Hu et al.
2021 (LoRA), Liu et al. 2024 (DoRA) and Hayou et al. 2024 (LoRA+), and opened by peft and by transformers, merged."""
from dataclasses import dataclass

import peft
import safetensors.torch
import torch
import transformers

import flavours
import reference
import training_test
from export_test import transformers_logits
from program import GRID, ONE_RANK, weights_of
from reference_test import difference

RANK, ALPHA = 3, 5.0


@dataclass
class Setting:
    stable: bool = False
    dora: bool = False
    ratio: float = 1.0  # of b's learning rate
    also: tuple = ()  # parameters that are trained, too
    left_out: tuple = ()  # modules of transformers without an adapter
    patterns: tuple = ("*",)
    ranks: tuple = ()  # (end of a module's name, pattern, rank, alpha or None)

    def strength(self, module):
        """Rank and scale."""
        rank, alpha = RANK, ALPHA
        for end, _, other, strength in self.ranks:
            if module.endswith(end):
                rank, alpha = other, strength or ALPHA
        return rank, alpha / (rank ** 0.5 if self.stable else rank)

    def section(self):
        return f"""
[adapter]
rank = {RANK}
alpha = {ALPHA}
rank_stabilized = {str(self.stable).lower()}
method = "{"dora" if self.dora else "lora"}"
b_lr_ratio = {self.ratio}
also_train = {list(self.also)}
patterns = {list(self.patterns)}
""" + "".join(f'[[adapter_rank]]\npattern = "{pattern}"\nrank = {rank}\n' + (f"alpha = {alpha}\n" if alpha else "")
                for _, pattern, rank, alpha in self.ranks)


AGREES = 1e-5  # of peft's logits in f32

LLAMA = {"projection": [("self_attn.o_proj", 0)], "ffn_in": [("mlp.gate_proj", 0), ("mlp.up_proj", 1)],
         "ffn_out": [("mlp.down_proj", 0)],
         "shared_expert.ffn_in": [("mlp.shared_expert.gate_proj", 0), ("mlp.shared_expert.up_proj", 1)],
         "shared_expert.ffn_out": [("mlp.shared_expert.down_proj", 0)],
         "qkv": [("self_attn.q_proj", 0), ("self_attn.k_proj", 1), ("self_attn.v_proj", 2)]}
GPT2 = {"qkv": [("attn.c_attn", 0)], "projection": [("attn.c_proj", 0)], "ffn_in": [("mlp.c_fc", 0)], "ffn_out": [("mlp.c_proj", 0)]}


# Parameters that the tests name in adapter.also_train, with their names in transformers: GPT-2, Llama.
WHOLE = {"embedding.weight": ("wte.weight", "model.embed_tokens.weight"), "positions.weight": ("wpe.weight", ""),
         "final_norm.weight": ("ln_f.weight", "model.norm.weight"), "final_norm.bias": ("ln_f.bias", ""),
         "head.weight": ("", "lm_head.weight")}


def modules_of(name, shape):
    """Of blocks.2.qkv the modules that its products belong to."""
    if name + ".weight" in WHOLE:
        return [WHOLE[name + ".weight"][0 if shape.gpt2 else 1].removesuffix(".weight")]
    _, block, rest = name.split(".", 2)
    prefix = f"h.{block}." if shape.gpt2 else f"model.layers.{block}."
    return [prefix + module for module, _ in (GPT2 if shape.gpt2 else LLAMA)[rest]]


def split(weights, shape, w, setting=Setting()):
    """Of a checkpoint: (module, "a" | "b" | "m") -> its part, and (module, "") -> a tensor of transformers that is trained as a whole."""
    parts = {}
    for name, x in weights.items():
        if name in WHOLE:
            offset = 1 if shape.gemma and name.endswith("norm.weight") else 0
            parts[WHOLE[name][0 if shape.gpt2 else 1], ""] = x - offset
        elif name.endswith(".lora_a"):
            product = name.removesuffix(".lora_a")
            modules = [m for m in modules_of(product, shape) if not m.endswith(setting.left_out or ("-",))]
            b, norms, row = weights[product + ".lora_b"], weights.get(product + ".lora_norms"), 0
            rank = setting.strength(modules[0])[0]
            assert x.shape[0] == len(modules) * rank and b.shape[1] == rank, f"{name} has {x.shape}"
            for i, module in enumerate(modules):
                outputs = w[module + ".weight"].shape[1 if shape.gpt2 else 0]
                parts[module, "a"] = x[i * rank:(i + 1) * rank]
                parts[module, "b"] = b[row:row + outputs]
                if norms is not None:
                    parts[module, "m"] = norms[row:row + outputs]
                row += outputs
            assert row == b.shape[0], name
    return parts


def merged(w, shape, parts, setting=Setting()):
    """w + s b a, or m (w + s b a) / |w + s b a| by rows, by which transformers' and the reference's models compute."""
    both = dict(w)
    for (module, part), x in parts.items():
        if part == "":
            both[module] = x
            continue
        if part != "a":
            continue
        before = w[module + ".weight"]
        after = (before.T if shape.gpt2 else before) + setting.strength(module)[1] * (parts[module, "b"] @ x)
        if setting.dora:  # section 4.3: the norm is a constant for the gradient
            after = after * (parts[module, "m"] / after.detach().norm(dim=1))[:, None]
        both[module + ".weight"] = after.T if shape.gpt2 else after
    return both


def begin_of(first, shape, w):
    """The parts before the first step, which leaves a as it was, as b is zero."""
    return {key: torch.zeros_like(x) if key[1] == "b" else x for key, x in split(weights_of(first), shape, w).items()}


def flat(parts):
    return {".".join(key): x for key, x in parts.items()}


def sgd(w, shape, parts, steps, setting):
    losses = []
    for ids_BT, targets_BT in steps:
        parts = {key: x.detach().requires_grad_(True) for key, x in parts.items()}
        loss = reference.mean_loss(merged(w, shape, parts, setting), shape, ids_BT, targets_BT)
        gradients = torch.autograd.grad(loss, list(parts.values()))
        losses.append(loss.item())
        rate = {key: training_test.LR * (setting.ratio if key[1] == "b" else 1) for key in parts}
        parts = {key: (x - rate[key] * g).detach() for (key, x), g in zip(parts.items(), gradients)}
    return parts, losses


def trains(name, program, setting=Setting()):
    folder = program.work / "model"
    flavours.make(name, folder)
    shape, w = reference.load(folder, torch.float64)
    n = training_test.STEPS * training_test.BATCH * flavours.CONTEXT + 1
    ids = flavours.random_ids(1, n, seed=3)[0]
    program.write_tokens("random.tokens", ids, flavours.SHAPE["vocab_size"])
    program("import", folder, "imported")
    text = training_test.DECK.replace("CLIP", "0").replace("every_steps = 0", "every_steps = 1\nkeep_last = 0")
    deck = program.write_deck("deck.toml", text + setting.section())
    steps = training_test.steps_of(ids, flavours.CONTEXT)
    first_loss = reference.mean_loss(w, shape, *steps[0]).item()
    said = []
    for run, (ranks, grid) in {"one": ONE_RANK, "grid": GRID}.items():
        program("train", deck, "--run-dir", run, *grid, ranks=ranks)
        after_one, *_, last = sorted((program.work / run / "checkpoints").glob("step-*"))
        # b is zero at first; after a step all parts have gradients.
        begin, got = (split(weights_of(c), shape, w, setting) for c in (after_one, last))
        whole = {WHOLE[p][0 if shape.gpt2 else 1] for p in WHOLE if also_names(p, setting)} - {""}
        assert {module for module, part in begin if part == ""} == whole, "other parameters are trained as a whole"
        want, losses = sgd(w, shape, begin, steps[1:], setting)
        history = program.history(run)["loss"]
        # The norms begin as those of the imported weights, so the first loss is that of the base model.
        training_test.expect_near(history, [first_loss, *losses], f"{run}: losses")
        moved = min(float((want[key] - x).abs().max()) for key, x in begin.items() if key[1] != "a")
        assert moved > 1e-8, f"a part has not moved: {moved}"
        said.append(f"{run} {training_test.expect_weights(flat(got), flat(want)):.1e}")
    return f"{len(want)} parts differ by {', '.join(said)}; {opens(program, shape, w, got, setting)}"


def also_names(parameter, setting):
    return parameter in setting.also or parameter.rsplit(".", 1)[0] in setting.also


def opens(program, shape, w, parts, setting):
    """Exported, beside the folder that was imported."""
    ids = flavours.random_ids(2, flavours.CONTEXT)
    with torch.no_grad():
        want = reference.logits(merged(w, shape, parts, setting), shape, ids)
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
    # Gemma's norms are stored less one, which rounds twice.
    twice = {"final_norm.weight"} if shape.gemma else set()
    off = {name: float((back[name].float() - x.float()).abs().max()) for name, x in want.items()}
    assert all(x <= (2 ** -23 if name in twice else 0) for name, x in off.items()), "another number came back"
    return f"logits of peft differ by {by_peft:.1e}, of merged weights by {whole:.1e}"


def ties(program):
    """A folder of peft with one table for embedding and head, of which it saves both tensors."""
    flavours.make("smollm", program.work / "model")
    program("import", program.work / "model", "imported")
    base = transformers.AutoModelForCausalLM.from_pretrained(program.work / "model", dtype=torch.float32)
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True))
    with torch.no_grad():
        for name, x in model.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                x.add_(0.1 * torch.randn(x.shape, generator=torch.Generator().manual_seed(len(name))))
    model.save_pretrained(program.work / "adapters")
    program("import", "adapters", "ours", "--base", "imported")
    ids = flavours.random_ids(2, flavours.CONTEXT)
    with torch.no_grad():
        want = model.eval()(ids).logits.double()
    off = difference(program.logits("ours", ids), want)
    assert off <= AGREES, f"logits differ by {off:.1e}"
    return f"logits differ by {off:.1e}"


def resaved(program):
    """Tables' adapters saved by peft, which stores the base weights of both beside them, and the same beside other base weights."""
    flavours.make("llama2", program.work / "model")
    program("import", program.work / "model", "imported")
    base = transformers.AutoModelForCausalLM.from_pretrained(program.work / "model", dtype=torch.bfloat16)
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["embed_tokens", "lm_head"]))
    with torch.no_grad():
        for name, x in model.named_parameters():
            if "lora_" in name:
                x.add_(0.1 * torch.randn(x.shape, generator=torch.Generator().manual_seed(len(name))))
    model.save_pretrained(program.work / "adapters")
    file = program.work / "adapters/adapter_model.safetensors"
    tensors = safetensors.torch.load_file(file)
    stored = [name for name in tensors if name.endswith(".base_layer.weight")]
    assert len(stored) == 2, f"peft stores {sorted(tensors)}"
    program("import", "adapters", "ours", "--base", "imported")
    ids = flavours.random_ids(2, flavours.CONTEXT)
    whole = transformers.AutoModelForCausalLM.from_pretrained(program.work / "model", dtype=torch.float32)
    whole = peft.PeftModel.from_pretrained(whole, program.work / "adapters")
    # The base weights of the file are rounded to bf16; those of the imported model are not.
    for name, x in whole.named_parameters():
        if "base_layer" in name and ("embed_tokens" in name or "lm_head" in name):
            x.data = weights_of(program.work / "imported")["head.weight" if "lm_head" in name else "embedding.weight"].float()
    with torch.no_grad():
        want = whole.eval()(ids).logits.double()
    off = difference(program.logits("ours", ids), want)
    assert off <= AGREES, f"logits differ by {off:.1e}"
    tensors[stored[0]] = tensors[stored[0]] * 1.5
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
    program.refuses("import", "adapters", "other", "--base", "imported", naming=[stored[0], "is a base weight"])
    return f"logits differ by {off:.1e}"


def refuses(program):
    """What transformers 5 has no module for, which peft would leave out without a message."""
    said = []
    for name, also in (("mixtral", "*.router"), ("mixtral", "*.experts.*"), ("gpt-oss", "*attention_sinks")):
        folder, deck = program.work / name, f"{name}.toml"
        if not folder.exists():
            flavours.make(name, folder)
            program("import", folder, f"{name}.imported")
        n = training_test.STEPS * training_test.BATCH * flavours.CONTEXT + 1
        program.write_tokens("random.tokens", flavours.random_ids(1, n, seed=3)[0], flavours.SHAPE["vocab_size"])
        text = training_test.DECK.replace("CLIP", "0").replace('"imported"', f'"{name}.imported"').replace("from:imported", f"from:{name}.imported")
        program.write_deck(deck, text + Setting(also=(also,), patterns=("*.qkv.q",)).section())
        run = f"{name}{len(said)}"
        program("train", deck, "--run-dir", run, "train.steps=1")
        program.refuses("export", run, f"{run}.peft", "--format", "peft", "--base-name", "model", naming=["peft's format cannot store"])
        program("export", run, f"{run}.whole", "--dtype", "f32")
        said.append(f"{name} {also}")
    return ", ".join(said)


def cases():
    yield "one-table", ties
    yield "tables-saved-by-peft", resaved
    yield "refuses-what-peft-leaves-out", refuses
    for name in ("gpt2", "llama2", "phi3", "olmo2", "gemma2", "gemma3", "qwen3", "qwen2-moe"):
        yield name, lambda program, name=name: trains(name, program)
    some = {"left_out": ("k_proj", "o_proj", "gate_proj"), "patterns": ("*.q", "*.v", "*.up", "*.ffn_out")}
    for title, name, setting in (
            ("llama3-rank-stabilized", "llama3", Setting(stable=True)),
            ("olmo2-ranks", "olmo2", Setting(ranks=(("down_proj", "*.ffn_out", 5, 2.5), ("o_proj", "o_proj", 1, None),
                                                    ("layers.1.mlp.down_proj", "blocks.1.ffn_out", 2, None)))),
            ("llama3-plus", "llama3", Setting(ratio=4.0)),
            ("llama2-tables", "llama2", Setting(patterns=("*", "embed_tokens", "lm_head"), ratio=2.0,
                                                ranks=(("embed_tokens", "embedding", 2, None), ("lm_head", "head", 5, 7.5)))),
            ("llama2-whole", "llama2", Setting(also=("embedding", "head.weight", "final_norm"))),
            ("gpt2-dora-whole", "gpt2", Setting(dora=True, also=("embedding", "positions", "final_norm"))),
            ("gemma2-dora-whole", "gemma2", Setting(dora=True, also=("embedding", "final_norm"))),
            ("qwen2-dora-some", "qwen2", Setting(dora=True, ratio=2.0, **some)),
            ("qwen3-dora", "qwen3", Setting(dora=True, stable=True))):
        yield title, lambda program, name=name, setting=setting: trains(name, program, setting)
