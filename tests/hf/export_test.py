"""What is exported: transformers loads it, its bits are those of the checkpoint, and it comes back in as it went out."""
import json

import safetensors.torch
import torch
import transformers
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import flavours
import reference
import texts
from logits_test import AGREES, F32
from program import GRID, weights_of
from reference_test import difference
from training_test import BATCH, STEPS

DECK = f"""
[model]
preset = "from:imported"
init_from = "imported"

[data]
path = "random.tokens"

[train]
batch = {BATCH}
steps = 2

[optimizer]
lr = 1e-2

[checkpoint]
every_steps = 0
async = false

[run]
backend = "host"
threads = 1
"""

# Of the tokenizer, and how text is made.
COPIED = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "vocab.json",
          "merges.txt", "tokenizer.model", "generation_config.json"]


def tensors_of(folder):
    all_tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        all_tensors |= safetensors.torch.load_file(file)
    return all_tensors


def bits(x):
    return x.contiguous().view({8: torch.int64, 4: torch.int32, 2: torch.int16}[x.element_size()])


def expect_bits(got, want):
    assert sorted(got) == sorted(want), f"tensors are {sorted(got)}, expected {sorted(want)}"
    for name, w in want.items():
        assert got[name].dtype == w.dtype and got[name].shape == w.shape, f"{name}: {got[name].dtype} {got[name].shape}"
        assert torch.equal(bits(got[name]), bits(w)), f"{name} has other bits"


def transformers_logits(folder, ids, dtype=torch.float32):
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    wrong = {what: names for what, names in loading.items() if names}
    assert not wrong, f"transformers says of {folder}: {wrong}"
    with torch.no_grad():
        return model.eval()(ids).logits.float()


def dense_layers(config):
    """Those of a mixture that have one MLP."""
    step, listed = config.get("decoder_sparse_step", 1), config.get("mlp_only_layers", [])
    return [i for i in range(config.get("num_hidden_layers", 0)) if i in listed or (i + 1) % step]


def matters(config):
    """Does its window hide anything?"""
    return (config.get("sliding_window") or flavours.CONTEXT) < flavours.CONTEXT


def same_config(got, want):
    """As transformers understands them. Without a tokenizer a checkpoint knows no special tokens; what has no part in the
    numbers is not kept; layers are listed, not counted; a Mistral whose window does not matter is a Llama, and a Phi-3
    is one of the two."""
    got, want = (transformers.AutoConfig.from_pretrained(folder).to_dict() for folder in (got, want))
    free = {"transformers_version", "_name_or_path", "attn_pdrop", "embd_pdrop", "resid_pdrop", "initializer_range",
            "attention_dropout", "max_window_layers", "mlp_only_layers", "decoder_sparse_step", "no_rope_layer_interval"}
    if not matters(want):
        free |= {"sliding_window", "use_sliding_window"}
    assert dense_layers(got) == dense_layers(want), f"{got} has one MLP in other layers than {want}"
    if want["model_type"] == "phi3":
        free |= {"original_max_position_embeddings"}
        assert want["rope_parameters"].pop("partial_rotary_factor") == 1
        want = want | {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    if want["model_type"] == "mistral" and not matters(want) and want["hidden_size"] % want["num_attention_heads"] == 0:
        free |= {"model_type", "architectures"}
        want = want | {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    # A key that one class alone writes says nothing of the other.
    off = {key: (got[key], want[key]) for key in sorted(set(got) & set(want) - free) if got[key] != want[key]}
    assert not off, f"config.json differs: {off}"
    assert got["architectures"] == want["architectures"], got["architectures"]
    lost = {key: value for key, value in want.items() if key not in got and key not in free}
    assert not lost, f"config.json lacks {lost}"


def as_it_returns(tensors, shape):
    """Norms of Gemma's, stored less one, are read and written with one rounding to f32 each."""
    if not shape.gemma:
        return tensors
    return {name: ((1 + w.double()).float().double() - 1).float() if w.dim() == 1 else w for name, w in tensors.items()}


def comes_back(name, program):
    """import, export: the folder it was. Trained on four ranks, exported, imported: the checkpoint's bits."""
    folder, back, again = (program.work / name for name in ("model", "back", "again"))
    flavours.make(name, folder)
    program("import", folder, "imported")
    program("export", "imported", back, "--format", "safetensors", "--dtype", "f32")
    shape = reference.shape_of(json.loads((folder / "config.json").read_text()))
    expect_bits(reference.unpacked(tensors_of(back), shape), as_it_returns(reference.unpacked(tensors_of(folder), shape), shape))
    same_config(back, folder)

    ids = flavours.random_ids(1, STEPS * BATCH * flavours.CONTEXT + 1, seed=3)[0]
    program.write_tokens("random.tokens", ids, flavours.SHAPE["vocab_size"])
    deck = program.write_deck("deck.toml", DECK)
    program("train", deck, "--run-dir", "run", *GRID[1], ranks=GRID[0])
    trained = program.newest("run")
    program("export", trained, again, "--format", "safetensors", "--dtype", "f32")
    assert not torch.equal(next(iter(tensors_of(again).values())), next(iter(tensors_of(folder).values()))), "not trained"
    ids = flavours.random_ids(2, flavours.CONTEXT)
    off = difference(transformers_logits(again, ids), program.logits(trained, ids, overrides=["parallel.pipe=1",
                     "parallel.seq=1", "zero.stage=0", *F32]))
    assert off <= AGREES["f32"], f"transformers' logits of the export differ by {off:.1e} of their scale"
    program("import", again, "imported-again")
    want = weights_of(trained)
    if shape.gemma:
        want = {name: (1 + (w.double() - 1).float().double()).float() if w.dim() == 1 else w for name, w in want.items()}
    expect_bits(weights_of(program.work / "imported-again"), want)
    return f"bits are equal both ways; after training on four ranks transformers' logits differ by {off:.1e} of their scale"


def halves(name, program):
    """Exported as bf16: torch's own rounding, to the nearest, ties to even."""
    folder, out = program.work / "model", program.work / "out"
    flavours.make(name, folder)
    flavours.edit_tensors(folder, lambda tensors: awkward(next(iter(tensors.values())), torch.float32))
    program("import", folder, "imported")
    program("export", "imported", out, "--format", "safetensors", "--dtype", "bf16")
    want = {key: w.to(torch.bfloat16) for key, w in tensors_of(folder).items()}
    expect_bits(tensors_of(out), want)
    said = json.loads((out / "config.json").read_text())
    assert "bfloat16" in (said.get("dtype"), said.get("torch_dtype")), f"config.json says {said}"
    assert torch.isfinite(transformers_logits(out, flavours.random_ids(1, 8), torch.bfloat16)).all()
    return f"{len(want)} tensors have torch's bits"


def awkward(x, dtype):
    """Numbers where roundings go wrong: ties, subnormals, zeros of both signs, the largest."""
    kind = torch.finfo(dtype)
    edge = [0.0, -0.0, kind.smallest_normal, -kind.smallest_normal, kind.smallest_normal / 4, kind.max / 4,
            1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20, -(1 + 2 ** -8)]
    x.view(-1)[:len(edge)] = torch.tensor(edge, dtype=torch.float64).to(dtype)


def narrow(dtype, program):
    """Weights of 16 bits come in exactly."""
    folder = program.work / "model"
    flavours.make("qwen3", folder, dtype=dtype)
    flavours.edit_tensors(folder, lambda tensors: awkward(next(iter(tensors.values())), dtype))
    stored = tensors_of(folder)
    assert all(w.dtype == dtype for w in stored.values())
    program("import", folder, "imported")
    program("export", "imported", program.work / "out", "--format", "safetensors", "--dtype", "f32")
    expect_bits(tensors_of(program.work / "out"), {key: w.float() for key, w in stored.items()})
    return f"{len(stored)} tensors"


def mxfp4(program):
    """Experts as OpenAI publishes them come in with the numbers that transformers decodes."""
    folder, out = program.work / "model", program.work / "out"
    flavours.make("gpt-oss", folder, hidden_size=64, intermediate_size=96)
    decoded = {}

    def quantize(tensors):
        for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
            count, rows, columns = tensors.pop(name).shape
            blocks = torch.randint(0, 256, (count, columns, rows // 32, 16), dtype=torch.uint8)
            scales = torch.randint(100, 130, (count, columns, rows // 32), dtype=torch.uint8)
            tensors[name + "_blocks"], tensors[name + "_scales"] = blocks, scales
            decoded[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)

    flavours.edit_tensors(folder, quantize)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config))
    program("import", folder, "imported")
    program("export", "imported", out, "--format", "safetensors", "--dtype", "f32")
    want = {name: w for name, w in tensors_of(folder).items() if not name.endswith(("_blocks", "_scales"))} | decoded
    expect_bits(tensors_of(out), want)
    return f"{len(decoded)} tensors have the bits of transformers' decoder"


def in_shards(program):
    """A folder of several files and an index."""
    folder, out = program.work / "model", program.work / "out"
    model = flavours.make("llama3", folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="60KB")
    shards = list(folder.glob("*.safetensors"))
    assert len(shards) > 2, shards
    program("import", folder, "imported")
    program("export", "imported", out, "--format", "safetensors", "--dtype", "f32")
    expect_bits(tensors_of(out), tensors_of(folder))
    return f"{len(shards)} files"


def tokenizer_files(program):
    folder, out = program.work / "model", program.work / "out"
    flavours.make("llama2", folder, vocab_size=400)
    texts.train_tokenizer(folder, 400)
    program("import", folder, "imported")
    program("export", "imported", out, "--format", "safetensors", "--dtype", "f32")
    there = [name for name in COPIED if (folder / name).is_file()]
    assert "tokenizer.json" in there and "tokenizer_config.json" in there, there
    for name in there:
        assert (out / name).is_file(), f"the export has no {name}"
        assert (out / name).read_bytes() == (folder / name).read_bytes(), f"{name} has changed"
    return f"byte for byte: {', '.join(there)}"


def cases():
    for name in flavours.CONFIGS:
        yield name, lambda program, name=name: comes_back(name, program)
    for name in ("gpt2", "qwen2"):
        yield f"bf16-{name}", lambda program, name=name: halves(name, program)
    for dtype in (torch.bfloat16, torch.float16):
        yield f"imports-{str(dtype).removeprefix('torch.')}", lambda program, dtype=dtype: narrow(dtype, program)
    yield "mxfp4", mxfp4
    yield "in-shards", in_shards
    yield "tokenizer-files", tokenizer_files
