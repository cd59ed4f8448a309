"""Small random models of each flavour, made by transformers: odd sizes, nothing at its default, no weight at zero or one."""
import json
from pathlib import Path

import safetensors.torch
import torch
import transformers

CONTEXT = 40

SHAPE = {
    "vocab_size": 101,
    "hidden_size": 48,
    "intermediate_size": 88,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 2e-6,
    "initializer_range": 0.1,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

GPT2 = {
    "vocab_size": 101,
    "n_embd": 48,
    "n_layer": 3,
    "n_head": 6,
    "n_positions": CONTEXT,
    "n_inner": 88,
    "layer_norm_epsilon": 2e-5,
    "initializer_range": 0.1,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attn_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "resid_pdrop": 0.0,
}


def shaped(kind, **keys):
    """A config's maker, which takes changes."""
    return lambda **changes: kind(**SHAPE | keys | changes)


def rope(theta, **scaling):
    return {"rope_type": "default", "rope_theta": theta} | scaling


def experts(key, count, of_token):
    return {key: count, "num_experts_per_tok": of_token}


# Of the 4 pairs of a head one keeps its frequency, one is between, two are divided.
LLAMA3 = rope(5000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=60)

# One pair keeps its frequency, one is between, two are divided.
YARN = rope(5000.0, rope_type="yarn", factor=4.0, beta_fast=4.0, beta_slow=0.5, original_max_position_embeddings=60)

CONFIGS = {
    "gpt2": lambda **changes: transformers.GPT2Config(**GPT2 | changes),
    "llama2": shaped(transformers.LlamaConfig, rope_parameters=rope(7000.0)),
    "llama3": shaped(transformers.LlamaConfig, rope_parameters=LLAMA3),
    "llama-linear": shaped(transformers.LlamaConfig, rope_parameters=rope(7000.0, rope_type="linear", factor=2.5)),
    "llama-yarn": shaped(transformers.LlamaConfig, rope_parameters=YARN),
    "llama-biases": shaped(transformers.LlamaConfig, rope_parameters=rope(7000.0), attention_bias=True, mlp_bias=True),
    "smollm": shaped(transformers.LlamaConfig, rope_parameters=rope(3000.0), tie_word_embeddings=True),
    "mistral": shaped(transformers.MistralConfig, rope_parameters=rope(7000.0), sliding_window=None),
    "mistral-heads": shaped(transformers.MistralConfig, rope_parameters=rope(7000.0), sliding_window=None, head_dim=10, num_attention_heads=5,
                            num_key_value_heads=5),  # which do not divide the width
    "mistral-window": shaped(transformers.MistralConfig, rope_parameters=rope(7000.0), sliding_window=7),
    # A window that reaches as far as the context changes nothing.
    "mistral-long-window": shaped(transformers.MistralConfig, rope_parameters=rope(7000.0), sliding_window=CONTEXT),
    "phi3": shaped(transformers.Phi3Config, rope_parameters=rope(7000.0), pad_token_id=None),
    "phi3-window": shaped(transformers.Phi3Config, rope_parameters=rope(7000.0), pad_token_id=None, sliding_window=7),
    "olmo2": shaped(transformers.Olmo2Config, rope_parameters=rope(7000.0), pad_token_id=None, head_dim=10),
    "olmo3": shaped(transformers.Olmo3Config, pad_token_id=None, head_dim=10, sliding_window=7, rope_parameters={
        "full_attention": YARN, "sliding_attention": rope(700.0)},
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "smollm3": shaped(transformers.SmolLM3Config, rope_parameters=rope(7000.0), pad_token_id=None, no_rope_layers=[1, 0, 1]),
    "smollm3-window": shaped(transformers.SmolLM3Config, rope_parameters=rope(7000.0), pad_token_id=None, no_rope_layer_interval=2,
                             use_sliding_window=True, sliding_window=7, attention_bias=True, mlp_bias=True),
    "granite": shaped(transformers.GraniteConfig, rope_parameters=rope(7000.0), embedding_multiplier=3, residual_multiplier=0.22,
                      attention_multiplier=0.15, logits_scaling=6.0),
    "glm4": shaped(transformers.Glm4Config, pad_token_id=None, head_dim=12,
                   rope_parameters=rope(7000.0, partial_rotary_factor=0.5)),
    "glm4-yarn": shaped(transformers.Glm4Config, pad_token_id=None, head_dim=16, attention_bias=False,
                        rope_parameters=rope(7000.0, partial_rotary_factor=0.75) | YARN),
    "gemma2": shaped(transformers.Gemma2Config, rope_parameters=rope(7000.0), pad_token_id=None, head_dim=10, query_pre_attn_scalar=7,
                     sliding_window=7, attn_logit_softcapping=0.7, final_logit_softcapping=1.5),
    "gemma2-uncapped": shaped(transformers.Gemma2Config, rope_parameters=rope(7000.0), pad_token_id=None, head_dim=8, query_pre_attn_scalar=8,
                              sliding_window=7, attn_logit_softcapping=None, final_logit_softcapping=None,
                              tie_word_embeddings=False),
    "gemma3": shaped(transformers.Gemma3TextConfig, pad_token_id=None, head_dim=10, query_pre_attn_scalar=7, sliding_window=7, rope_parameters={
        "full_attention": rope(30000.0, rope_type="linear", factor=2.5), "sliding_attention": rope(700.0)},
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "qwen2": shaped(transformers.Qwen2Config, rope_parameters=rope(30000.0)),
    "qwen2-tied": shaped(transformers.Qwen2Config, rope_parameters=rope(30000.0), tie_word_embeddings=True),
    "qwen2-window": shaped(transformers.Qwen2Config, rope_parameters=rope(30000.0), use_sliding_window=True, sliding_window=9,
                           max_window_layers=1),
    "qwen3": shaped(transformers.Qwen3Config, rope_parameters=rope(30000.0), head_dim=10),
    "qwen3-window": shaped(transformers.Qwen3Config, rope_parameters=rope(30000.0), head_dim=10, use_sliding_window=True,
                           sliding_window=7, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "mixtral": shaped(transformers.MixtralConfig, rope_parameters=rope(7000.0), head_dim=10,
                      **experts("num_local_experts", 5, 2)),
    "mixtral-window": shaped(transformers.MixtralConfig, rope_parameters=rope(7000.0), sliding_window=6, head_dim=10,
                             **experts("num_local_experts", 5, 2)),
    "olmoe": shaped(transformers.OlmoeConfig, rope_parameters=rope(7000.0), pad_token_id=None,
                    **experts("num_experts", 6, 3)),
    "qwen2-moe": shaped(transformers.Qwen2MoeConfig, rope_parameters=rope(30000.0), moe_intermediate_size=20,
                        shared_expert_intermediate_size=28, mlp_only_layers=[1], **experts("num_experts", 7, 3)),
    "qwen3-moe": shaped(transformers.Qwen3MoeConfig, rope_parameters=rope(30000.0), head_dim=10, moe_intermediate_size=20,
                        norm_topk_prob=True, decoder_sparse_step=2, **experts("num_local_experts", 6, 4)),
    # Some inputs of clamped gates are beyond their limits: make() draws large biases.
    "gpt-oss": shaped(transformers.GptOssConfig, rope_parameters=YARN | {"truncate": False}, head_dim=10, sliding_window=7,
                      pad_token_id=None, **experts("num_local_experts", 6, 3)),
    "gpt-oss-plain": shaped(transformers.GptOssConfig, rope_parameters=rope(7000.0), head_dim=10, attention_bias=False,
                            pad_token_id=None, layer_types=["full_attention"] * 3, **experts("num_local_experts", 4, 3)),
    "qwen3-moe-window": shaped(transformers.Qwen3MoeConfig, rope_parameters=rope(30000.0), moe_intermediate_size=20,
                               norm_topk_prob=True, use_sliding_window=True, sliding_window=5,
                               **experts("num_local_experts", 6, 4)),
}


def make(name, folder, seed=1, dtype=torch.float32, **changes):
    """Writes a model of this flavour and gives it. Norm weights and biases are random, too, since transformers starts
    them at one and zero, where their mistakes cannot be seen."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name](**changes), attn_implementation="eager").eval()
    with torch.no_grad():
        for key, w in model.named_parameters():
            if w.dim() == 1 and name.startswith("gemma"):  # stored less one; so short that one more is exact
                w.copy_(torch.round(torch.randn_like(w) * 200) / 1024)
            elif key.endswith("experts.gate_up_proj_bias"):
                w.copy_(torch.randn_like(w) * 4)
            elif key.endswith("experts.down_proj_bias"):
                w.copy_(torch.randn_like(w) * 0.2)
            elif w.dim() == 1:
                w.copy_(torch.randn_like(w) * 0.2 + (0 if key.endswith("bias") else 1))
    model = model.to(dtype)
    model.save_pretrained(folder)
    return model


def old_keys(folder):
    """Rewrites config.json with the keys of transformers before version 5, which most published folders have."""
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters", None)
    if rope and "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    if rope:
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    if config["model_type"] == "qwen3_moe":
        config["num_experts"] = config.pop("num_local_experts")
    path.write_text(json.dumps(config, indent=2))


def experts_together(folder):
    """Saved again with the experts of a layer in one tensor, as transformers 5 has them in memory."""
    transformers.AutoModelForCausalLM.from_pretrained(folder).save_pretrained(folder, save_original_format=False)
    with safetensors.safe_open(Path(folder) / "model.safetensors", "pt") as file:
        assert any(name.endswith("mlp.experts.gate_up_proj") for name in file.keys()), sorted(file.keys())


def both_keys(folder):
    """Both objects of rotary settings, that of version 5 without the scaling: transformers takes the old one."""
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text())
    config["rope_scaling"] = config["rope_parameters"]
    config["rope_parameters"] = rope(1e4)
    path.write_text(json.dumps(config, indent=2))
    taken = transformers.AutoConfig.from_pretrained(folder).rope_parameters
    assert taken["rope_type"] == config["rope_scaling"]["rope_type"], taken


def random_ids(samples, tokens, seed=2):
    return torch.randint(0, SHAPE["vocab_size"], (samples, tokens), generator=torch.Generator().manual_seed(seed))


def edit_tensors(folder, edit):
    """edit(name -> tensor) changes what the folder's one file of weights holds."""
    path = Path(folder) / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    edit(tensors)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def as_published_gpt2(folder):
    """The names of the folder that OpenAI's weights are published in: no prefix, and the causal mask of each layer."""
    def edit(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        for i in range(3):
            tensors[f"h.{i}.attn.bias"] = torch.ones(CONTEXT, CONTEXT).tril()[None, None]
    edit_tensors(folder, edit)
