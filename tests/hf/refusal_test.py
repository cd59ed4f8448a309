"""Folders that are not taken: `trireme import` fails, leaves nothing behind, and names what stands against it."""
import json

import torch

import flavours
from program import weights_of


def edit_config(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not REMOVED}))


REMOVED = object()


def rope(kind, **keys):
    return {"rope_type": kind, "rope_theta": 7000.0, "factor": 4.0, "original_max_position_embeddings": 24} | keys


def with_tensor(name, shape=(48,)):
    return lambda folder: flavours.edit_tensors(folder, lambda tensors: tensors.update({name: torch.ones(shape)}))


def without(name):
    return lambda folder: flavours.edit_tensors(folder, lambda tensors: tensors.pop(name))


def as_type(name, dtype):
    return lambda folder: flavours.edit_tensors(
        folder, lambda tensors: tensors.update({name: torch.ones(tensors[name].shape, dtype=dtype)}))


def config(**changes):
    return lambda folder: edit_config(folder, **changes)


def as_bin(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def garbage(folder):
    path = folder / "model.safetensors"
    path.write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{\"a\": 1" + path.read_bytes()[16:])


def huge_header(folder):
    path = folder / "model.safetensors"
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])


def shard_missing(folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    names = ["model.norm.weight"]
    index = {"metadata": {}, "weight_map": {name: "model-00002-of-00002.safetensors" for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def shard_outside(folder):
    """A file's name in the index leads out of the folder."""
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    index = {"weight_map": {"model.norm.weight": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


UP = "model.layers.1.mlp.up_proj.weight"
EXPERT_DOWN = "model.layers.2.block_sparse_moe.experts.4.w2.weight"

# flavour, what is done to its folder, words of the message
CASES = {
    "qwen2-moe-with-a-short-window": ("qwen2-moe", config(use_sliding_window=True, sliding_window=16), ["sliding_window", "16"]),
    "qwen2-with-sliding-layers-and-no-window": (
        "qwen2", config(use_sliding_window=False, sliding_window=16, max_window_layers=1,
                        layer_types=["full_attention", "sliding_attention", "sliding_attention"]), ["use_sliding_window"]),
    "an-unknown-tensor": ("llama2", with_tensor("model.layers.0.extra.weight"), ["model.layers.0.extra.weight"]),
    "a-bias-that-llama-lacks": ("llama2", with_tensor("model.layers.0.self_attn.q_proj.bias"),
                                ["model.layers.0.self_attn.q_proj.bias"]),
    "a-layer-too-many": ("llama2", with_tensor("model.layers.3.input_layernorm.weight"),
                         ["model.layers.3.input_layernorm.weight"]),
    "a-missing-tensor": ("llama2", without(UP), [UP]),
    "a-missing-head": ("llama2", without("lm_head.weight"), ["lm_head.weight"]),
    "a-missing-norm-of-queries": ("qwen3", without("model.layers.2.self_attn.q_norm.weight"),
                                  ["model.layers.2.self_attn.q_norm.weight"]),
    "another-shape": ("llama2", with_tensor(UP, (87, 48)), [UP, "87", "88"]),
    "a-transposed-product": ("gpt2", with_tensor("transformer.h.1.mlp.c_fc.weight", (88, 48)),
                             ["h.1.mlp.c_fc.weight", "88", "48"]),
    "a-missing-expert": ("mixtral", without(EXPERT_DOWN), [EXPERT_DOWN]),
    "an-expert-of-another-shape": ("mixtral", with_tensor(EXPERT_DOWN, (48, 87)), [EXPERT_DOWN, "87", "88"]),
    "an-expert-too-many": ("mixtral", config(num_local_experts=4), ["model.layers.0.block_sparse_moe.experts.4.w1.weight"]),
    "more-experts-a-token-than-experts": ("qwen3-moe", config(num_experts_per_tok=7), ["num_experts_per_tok", "7", "6"]),
    "two-numbers-of-experts": ("qwen3-moe", config(num_experts=5), ["num_local_experts", "num_experts", "5", "6"]),
    "an-mlp-for-a-mixture": ("qwen2-moe", config(mlp_only_layers=[0, 1]), ["model.layers.0.mlp.gate_proj.weight"]),
    "a-mixture-with-groups-of-experts": ("qwen2-moe", config(n_group=2), ["n_group", "2"]),
    "olmoe-clipped": ("olmoe", config(clip_qkv=8.0), ["clip_qkv", "8"]),
    "latent-attention": ("qwen3-moe", config(model_type="deepseek_v3"), ["deepseek_v3"]),
    "whole-numbers": ("llama2", as_type(UP, torch.int8), [UP, "I8"]),
    "quantised": ("llama2", config(quantization_config={"quant_method": "gptq"}), ["quantization_config"]),
    "another-kind-of-model": ("llama2", config(model_type="gpt_neox"), ["gpt_neox"]),
    "products-that-are-not-packed": ("llama2", config(model_type="phi3"), ["model.layers.0.self_attn.qkv_proj.weight"]),
    "products-that-are-packed": ("phi3", config(model_type="llama", original_max_position_embeddings=REMOVED),
                               ["model.layers.0.self_attn.q_proj.weight"]),
    "phi3-longrope": ("phi3", config(rope_parameters=rope("longrope", short_factor=[1.0] * 4, long_factor=[2.0] * 4)),
                      ["longrope"]),
    "phi3-longrope-in-old-keys": ("phi3", config(rope_parameters=REMOVED, rope_theta=7000.0, rope_scaling={
        "type": "su", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}), ["su", "longrope"]),
    "phi3-of-half-a-head": ("phi3", config(rope_parameters=rope("default", partial_rotary_factor=0.5)),
                            ["partial_rotary_factor"]),
    "olmo2-without-a-norm-behind": ("olmo2", without("model.layers.1.post_feedforward_layernorm.weight"),
                                    ["model.layers.1.post_feedforward_layernorm.weight"]),
    "another-activation": ("llama2", config(hidden_act="gelu"), ["hidden_act", "gelu"]),
    "another-activation-of-gpt2": ("gpt2", config(activation_function="relu"), ["activation_function", "relu"]),
    "gpt2-scaled-by-layer": ("gpt2", config(scale_attn_by_inverse_layer_idx=True), ["scale_attn_by_inverse_layer_idx"]),
    "gpt2-unscaled": ("gpt2", config(scale_attn_weights=False), ["scale_attn_weights"]),
    "rope-of-yarn-without-factor": ("llama2", config(rope_parameters={"rope_type": "yarn", "rope_theta": 7000.0}), ["factor"]),
    "longrope-in-old-keys": ("llama2", config(rope_parameters=REMOVED, rope_theta=7000.0,
                                              rope_scaling={"type": "longrope", "factor": 4.0}), ["longrope"]),
    "rope-dynamic": ("llama2", config(rope_parameters=rope("dynamic")), ["dynamic"]),
    "rope-of-half-a-head": ("llama2", config(rope_parameters=rope("default", partial_rotary_factor=0.5)),
                            ["partial_rotary_factor"]),
    "a-member-that-nobody-knows": ("llama2", config(logit_scale=0.5), ["logit_scale", "0.5"]),
    "pytorch-files": ("llama2", as_bin, ["pytorch_model.bin", "save_pretrained"]),
    "a-truncated-file": ("llama2", truncated, ["model.safetensors"]),
    "a-damaged-header": ("llama2", garbage, ["model.safetensors"]),
    "a-header-beyond-the-file": ("llama2", huge_header, ["model.safetensors"]),
    "a-missing-shard": ("llama2", shard_missing, ["model-00002-of-00002.safetensors"]),
    "a-shard-outside": ("llama2", shard_outside, ["../elsewhere.safetensors"]),
    "no-config": ("llama2", lambda folder: (folder / "config.json").unlink(), ["config.json"]),
    "a-damaged-config": ("llama2", lambda folder: (folder / "config.json").write_text("{"), ["config.json"]),
    "a-config-without-layers": ("llama2", config(num_hidden_layers=REMOVED), ["num_hidden_layers"]),
    "a-config-with-text-for-a-number": ("llama2", config(hidden_size="48"), ["hidden_size"]),
}


def refused(program, flavour, prepare, naming):
    folder = program.work / "model"
    flavours.make(flavour, folder)
    prepare(folder)
    said = program.refuses("import", folder, "imported", naming=naming)
    assert not (program.work / "imported").exists(), "it left something behind"
    left = sorted(p.name for p in program.work.iterdir() if p.name not in ("model", "elsewhere.safetensors"))
    assert not left, f"it left {left}"
    return said.splitlines()[-1][-160:]


def nothing_is_replaced(program):
    """Where something is already, it stays as it is."""
    flavours.make("llama2", program.work / "model")
    program("import", "model", "imported")
    before = weights_of(program.work / "imported")
    flavours.make("llama2", program.work / "other", seed=5)
    program.refuses("import", "other", "imported", naming=["imported"])
    after = weights_of(program.work / "imported")
    assert all(torch.equal(w, after[name]) for name, w in before.items())
    program("export", "imported", "out", "--format", "safetensors")
    program.refuses("export", "imported", "out", "--format", "safetensors", naming=["out"])
    return "neither a checkpoint nor a folder"


def cases():
    for name, (flavour, prepare, naming) in CASES.items():
        yield name, lambda program, case=(flavour, prepare, naming): refused(program, *case)
    yield "nothing-is-replaced", nothing_is_replaced
