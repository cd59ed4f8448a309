"""Trireme's parameters from those of a Hugging Face folder, in Python and apart from `trireme import`."""
import re

import torch


def from_gpt2(w, layers):
    """Conv1D keeps [in, out]."""
    named = {"embedding.weight": w["wte.weight"], "positions.weight": w["wpe.weight"]}
    pairs = {"attention_norm": "ln_1", "qkv": "attn.c_attn", "projection": "attn.c_proj", "ffn_norm": "ln_2",
             "ffn_in": "mlp.c_fc", "ffn_out": "mlp.c_proj"}
    for i in range(layers):
        for ours, theirs in pairs.items():
            x = w[f"h.{i}.{theirs}.weight"]
            named[f"blocks.{i}.{ours}.weight"] = x.T if x.dim() == 2 else x
            named[f"blocks.{i}.{ours}.bias"] = w[f"h.{i}.{theirs}.bias"]
    for kind in ("weight", "bias"):
        named[f"final_norm.{kind}"] = w[f"ln_f.{kind}"]
    return named


def from_llama(w, layers):
    """Also all other families with rotary positions: q, k, v and gate, up lie side by side, each with all its rows."""
    named = {"embedding.weight": w["model.embed_tokens.weight"], "final_norm.weight": w["model.norm.weight"]}
    if "lm_head.weight" in w:
        named["head.weight"] = w["lm_head.weight"]
    groups = {
        "attention_norm": ["input_layernorm"],
        "qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "q_norm": ["self_attn.q_norm"],
        "k_norm": ["self_attn.k_norm"],
        "projection": ["self_attn.o_proj"],
        "ffn_norm": ["post_attention_layernorm"],
        "ffn_in": ["mlp.gate_proj", "mlp.up_proj"],
        "ffn_out": ["mlp.down_proj"],
        "router": ["mlp.gate", "block_sparse_moe.gate", "mlp.router"],
        "shared_expert.gate": ["mlp.shared_expert_gate"],
        "shared_expert.ffn_in": ["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"],
        "shared_expert.ffn_out": ["mlp.shared_expert.down_proj"],
    }
    if "model.layers.0.post_feedforward_layernorm.weight" in w:  # norms stand behind, of Gemma's in front, too
        groups["ffn_norm"] = ["pre_feedforward_layernorm"]
        groups["attention_out_norm"], groups["ffn_out_norm"] = ["post_attention_layernorm"], ["post_feedforward_layernorm"]
    if "model.layers.0.post_mlp_layernorm.weight" in w:  # GLM-4
        groups["attention_out_norm"], groups["ffn_out_norm"] = ["post_self_attn_layernorm"], ["post_mlp_layernorm"]
    for e in {int(found[1]) for name in w if (found := re.search(r"\.experts\.(\d+)\.", name))}:
        ours, mixtral, others = f"experts.{e}.", f"block_sparse_moe.experts.{e}.", f"mlp.experts.{e}."
        groups[ours + "ffn_in"] = [mixtral + "w1", mixtral + "w3", others + "gate_proj", others + "up_proj"]
        groups[ours + "ffn_out"] = [mixtral + "w2", others + "down_proj"]
    for i in range(layers):
        for ours, theirs in groups.items():
            for kind in ("weight", "bias"):
                parts = [w[key] for name in theirs if (key := f"model.layers.{i}.{name}.{kind}") in w]
                if parts:
                    named[f"blocks.{i}.{ours}.{kind}"] = torch.cat(parts)
        if f"model.layers.{i}.mlp.experts.gate_up_proj_bias" in w:
            named |= from_gpt_oss(w, i)
    return named


def from_gpt_oss(w, i):
    """Weights of experts are [in, out], and channels of gate and up alternate."""
    layer, experts = f"model.layers.{i}.", f"model.layers.{i}.mlp.experts."
    named = {f"blocks.{i}.attention_sinks.weight": w[layer + "self_attn.sinks"]}
    for e in range(len(w[experts + "down_proj"])):
        ours = f"blocks.{i}.experts.{e}."
        both, bias = w[experts + "gate_up_proj"][e].T, w[experts + "gate_up_proj_bias"][e]
        named |= {ours + "ffn_in.weight": torch.cat([both[0::2], both[1::2]]),
                  ours + "ffn_in.bias": torch.cat([bias[0::2], bias[1::2]]),
                  ours + "ffn_out.weight": w[experts + "down_proj"][e].T,
                  ours + "ffn_out.bias": w[experts + "down_proj_bias"][e]}
    return named


def pairs_apart(x, heads, shape):
    """Neighbors that rotate together lie half a head apart; of the channels that stay, either half has its half."""
    d = shape.rotary_dim or shape.head_dim
    x = x.reshape(heads, shape.head_dim, -1)
    stays = (x[:, d:(d + shape.head_dim) // 2], x[:, (d + shape.head_dim) // 2:])
    return torch.cat([x[:, 0:d:2], stays[0], x[:, 1:d:2], stays[1]], 1).flatten(0, 1)


def from_hf(w, shape):
    if shape.neighbors:
        w = dict(w)
        for name, x in w.items():
            if re.search(r"\.(q|k)_proj\.", name):
                w[name] = pairs_apart(x, shape.heads if ".q_proj" in name else shape.kv_heads, shape).view(x.shape)
    named = (from_gpt2 if shape.gpt2 else from_llama)(w, shape.layers)
    if shape.gemma:  # norms are stored less one
        named |= {name: 1 + x for name, x in named.items() if name.endswith("norm.weight")}
    return named
