"""A decoder in torch that computes in one dtype throughout, and its plain SGD: the oracle of `make test-hf`.

transformers casts norms, rotary positions and softmax to f32, so a comparison in f64 needs another model. Written from
the papers: GPT-2 (Radford et al. 2019), Llama 2 (Touvron et al. 2023), RMS norm (Zhang and Sennrich 2019), rotary
positions (Su et al. 2021), grouped queries (Ainslie et al. 2023), SwiGLU (Shazeer 2020), norms of queries and keys
(Henry et al. 2020), Llama 3's frequencies (its model card), mixtures of experts (Jiang et al. 2024, "Mixtral of
Experts"; a shared expert: Dai et al. 2024, "DeepSeekMoE"), norms behind (OLMo et al. 2024, "2 OLMo 2 Furious"), soft
caps (Gemma Team 2024, "Gemma 2"), GeGLU (Shazeer 2020), layers without positions (Yang et al. 2025, "RNoPE"), attention
sinks, biases of experts and clamped SwiGLU (OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card"). Names and keys are those of transformers' folders.

Letters: B samples, T tokens, C width, H query heads, K key heads, D head dim, V vocabulary.
"""
import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors.torch import load_file


@dataclass
class Shape:
    gpt2: bool
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rope_theta: float = 0.0
    rope: dict = field(default_factory=dict)
    experts_per_token: int = 0
    norm_topk: bool = True
    windows: list = field(default_factory=list)  # by layer; 0: none
    gemma: bool = False  # norms have weights less one, the embedding is scaled, a gate is GELU
    scale: float = 0.0  # of products of queries and keys; 0: 1 / sqrt(head_dim)
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    window_rope: dict = field(default_factory=dict)  # of layers with a window, where it is another
    rotates: list = field(default_factory=list)  # by layer; empty: all layers have positions
    rotary_dim: int = 0  # channels of a head that rotate; 0: all
    neighbors: bool = False  # channels 2 i and 2 i + 1 are a pair, not i and i + D/2
    embedding_factor: float = 1.0
    branch_factor: float = 1.0
    logits_divisor: float = 1.0


def windows_of(config):
    """As a file that transformers 5 wrote says it: some families list the layers, some have one window for all."""
    window = config.get("sliding_window") or 0
    if config["model_type"] in ("qwen2", "qwen3", "gemma2", "gemma3_text", "olmo3", "smollm3", "gpt_oss"):
        return [window if kind == "sliding_attention" else 0 for kind in config["layer_types"]]
    every = config["model_type"] in ("mistral", "mixtral", "phi3") or config.get("use_sliding_window")
    return [window if every else 0] * config["num_hidden_layers"]


def shape_of(config):
    """From the keys of a config.json."""
    if config["model_type"] == "gpt2":
        heads = config["n_head"]
        return Shape(True, config["n_layer"], heads, heads, config["n_embd"] // heads, config["layer_norm_epsilon"])
    heads = config["num_attention_heads"]
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    in_window = rope.get("sliding_attention", {})
    rope = rope.get("full_attention", rope)
    gemma = config["model_type"] in ("gemma2", "gemma3_text")
    dim = config.get("head_dim") or config["hidden_size"] // heads
    more = {}
    if config["model_type"] == "smollm3":
        more = {"rotates": [bool(x) for x in config["no_rope_layers"]]}
    if config["model_type"] == "granite":
        more = {"embedding_factor": config["embedding_multiplier"], "branch_factor": config["residual_multiplier"],
                "scale": config["attention_multiplier"], "logits_divisor": config["logits_scaling"]}
    if config["model_type"] == "glm4":
        more = {"rotary_dim": int(dim * rope["partial_rotary_factor"]), "neighbors": True}
    return replace(Shape(False, config["num_hidden_layers"], heads, config.get("num_key_value_heads") or heads,
                 dim, config["rms_norm_eps"],
                 rope.get("rope_theta") or config["rope_theta"], rope, config.get("num_experts_per_tok", 0),
                 config.get("norm_topk_prob", True), windows_of(config), gemma,
                 config["query_pre_attn_scalar"] ** -0.5 if gemma else 0.0,
                 config.get("attn_logit_softcapping") or 0.0, config.get("final_logit_softcapping") or 0.0, in_window), **more)


def unpacked(weights, shape):
    """With packed products, as Phi-3 and GLM-4 have them, in the tensors that a Llama has."""
    q, k = (heads * shape.head_dim for heads in (shape.heads, shape.kv_heads))
    apart = {}
    for name, w in weights.items():
        if name.endswith("qkv_proj.weight"):
            parts = zip("qkv", (w[:q], w[q:q + k], w[q + k:]))
            apart |= {name.replace("qkv_proj", f"{part}_proj"): rows.clone() for part, rows in parts}
        elif name.endswith("gate_up_proj.weight"):
            parts = zip(("gate", "up"), w.chunk(2))
            apart |= {name.replace("gate_up", part): rows.clone() for part, rows in parts}
        else:
            apart[name] = w
    return apart


def load(folder, dtype):
    """Shape and weights of a folder that transformers wrote, each tied table once."""
    folder = Path(folder)
    weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        weights |= load_file(file)
    shape = shape_of(json.loads((folder / "config.json").read_text()))
    weights = unpacked(weights, shape)
    return (shape,
            {name.removeprefix("transformer."): w.to(dtype) for name, w in weights.items()
             if not name.endswith(".attn.bias")})  # GPT-2's masks


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + eps) * weight + bias


def rms_norm(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def silu(x):
    return x / (1 + torch.exp(-x))


def frequencies(shape, dtype):
    """Radians a position, of each pair of a head."""
    dim = shape.rotary_dim or shape.head_dim
    f = shape.rope_theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    kind = shape.rope.get("rope_type") or shape.rope.get("type") or "default"
    if kind == "linear":
        f = f / shape.rope["factor"]
    elif kind == "llama3":
        low, high = shape.rope["low_freq_factor"], shape.rope["high_freq_factor"]
        turns = shape.rope["original_max_position_embeddings"] * f / (2 * math.pi)
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        f = kept * f + (1 - kept) * f / shape.rope["factor"]
    elif kind == "yarn":
        pairs = len(f)
        low, high = (pairs * math.log(shape.rope["original_max_position_embeddings"] / (2 * math.pi * shape.rope[turns]))
                     / math.log(shape.rope_theta) for turns in ("beta_fast", "beta_slow"))
        if shape.rope.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * pairs - 1)
        divided = ((torch.arange(pairs, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
        f = (1 - divided) * f + divided * f / shape.rope["factor"]
    else:
        assert kind == "default", kind
    return f.to(dtype)


def rotate(x_BHTD, shape):
    """Of the channels that rotate, d and d + D/2 are a pair, or neighbors are; the others stay."""
    t = torch.arange(x_BHTD.shape[2], dtype=x_BHTD.dtype)
    angle = t[:, None] * frequencies(shape, x_BHTD.dtype)
    yarn = shape.rope.get("rope_type") == "yarn"
    size = 0.1 * math.log(shape.rope["factor"]) + 1 if yarn else 1
    turning, rest = x_BHTD.split([2 * angle.shape[1], x_BHTD.shape[3] - 2 * angle.shape[1]], -1)
    a, b = (turning[..., 0::2], turning[..., 1::2]) if shape.neighbors else turning.chunk(2, -1)
    turned = [size * (a * angle.cos() - b * angle.sin()), size * (b * angle.cos() + a * angle.sin())]
    turned = torch.stack(turned, -1).flatten(-2) if shape.neighbors else torch.cat(turned, -1)
    return torch.cat([turned, rest], -1)


def capped(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def attention(q_BHTD, k_BKTD, v_BKTD, window=0, scale=0.0, cap=0.0, sink_H=None):
    """A sink is a score of a head that has no value."""
    group = q_BHTD.shape[1] // k_BKTD.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k_BKTD, v_BKTD))
    scores = capped(q_BHTD @ k.transpose(2, 3) * (scale or 1 / math.sqrt(q_BHTD.shape[3])), cap)
    later = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
    scores = scores.masked_fill(later, -math.inf)
    if window:
        scores = scores.masked_fill(torch.ones_like(later).tril(-window), -math.inf)
    most = scores.amax(-1, keepdim=True)
    e = torch.exp(scores - most)
    total = e.sum(-1, keepdim=True)
    if sink_H is not None:
        total = total + torch.exp(sink_H[:, None, None] - most)
    y_BTHD = (e / total @ v).transpose(1, 2)
    return y_BTHD.reshape(*y_BTHD.shape[:2], -1)


def heads_of(x_BTC, count):
    return x_BTC.view(*x_BTC.shape[:2], count, -1).transpose(1, 2)


def gpt2(w, shape, ids_BT):
    def conv(x, name):  # stored [in, out]
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        return layer_norm(x, w[name + ".weight"], w[name + ".bias"], shape.eps)

    x = w["wte.weight"][ids_BT] + w["wpe.weight"][: ids_BT.shape[1]]
    for i in range(shape.layers):
        h = f"h.{i}."
        q, k, v = (heads_of(y, shape.heads) for y in conv(norm(x, h + "ln_1"), h + "attn.c_attn").chunk(3, -1))
        x = x + conv(attention(q, k, v), h + "attn.c_proj")
        x = x + conv(gelu_tanh(conv(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def swiglu(x, gate, up, down):
    return silu(x @ gate.T) * (x @ up.T) @ down.T


def clamped_swiglu(gate, up):
    gate, up = gate.clamp(max=7), up.clamp(-7, 7)
    return gate / (1 + torch.exp(-1.702 * gate)) * (up + 1)


def biased_mixture(w, shape, block, x):
    """gpt-oss: a softmax over the largest logits. Weights of experts are [in, out], and channels of gate and up alternate."""
    logits, chosen = torch.topk(x @ w[block + "router.weight"].T + w[block + "router.bias"], shape.experts_per_token, -1)
    weight = torch.exp(torch.log_softmax(logits, -1))
    y = torch.zeros_like(x)
    for e in range(len(w[block + "router.bias"])):
        in_, in_bias, out, out_bias = (w[f"{block}experts.{name}"][e] for name in
                                       ("gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias"))
        both = x @ in_ + in_bias
        of_expert = clamped_swiglu(both[..., 0::2], both[..., 1::2]) @ out + out_bias
        y = y + (weight * (chosen == e)).sum(-1, keepdim=True) * of_expert
    return y


def mixture(w, shape, block, x):
    """The sum of all experts, each times the weight that a token gives it, which is 0 but for the largest few."""
    names = ("w1", "w3", "w2") if "block_sparse_moe" in block else ("gate_proj", "up_proj", "down_proj")
    scores = torch.exp(torch.log_softmax(x @ w[block + "gate.weight"].T, -1))
    weight, chosen = torch.topk(scores, shape.experts_per_token, -1)
    if shape.norm_topk:
        weight = weight / weight.sum(-1, keepdim=True)
    y = torch.zeros_like(x)
    for e in range(scores.shape[-1]):
        of_expert = (weight * (chosen == e)).sum(-1, keepdim=True)
        y = y + of_expert * swiglu(x, *(w[f"{block}experts.{e}.{name}.weight"] for name in names))
    if block + "shared_expert_gate.weight" in w:
        shared = swiglu(x, *(w[f"{block}shared_expert.{name}.weight"] for name in names))
        y = y + shared / (1 + torch.exp(-x @ w[block + "shared_expert_gate.weight"].T))
    return y


def llama(w, shape, ids_BT):
    """Also those of all other families with rotary positions: what a model has beyond Llama shows in its weights' names."""
    def linear(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    def norm(x, name):
        return rms_norm(x, w[name + ".weight"] + (1 if shape.gemma else 0), shape.eps)

    def normed_heads(y, name, count):
        """Qwen3 norms each head, OLMoE all of them together."""
        if name + ".weight" not in w:
            return heads_of(y, count)
        if w[name + ".weight"].numel() == y.shape[-1]:
            return heads_of(norm(y, name), count)
        return norm(heads_of(y, count), name)

    def norm_where(x, *names):
        """The first of these norms that the block has, or none."""
        return next((norm(x, name) for name in names if name + ".weight" in w), x)

    x = w["model.embed_tokens.weight"][ids_BT] * shape.embedding_factor
    if shape.gemma:
        x = x * math.sqrt(x.shape[-1])
    for i in range(shape.layers):
        h = f"model.layers.{i}."
        # post_attention_layernorm stands behind attention where the MLP has a norm of its own in front or behind, as
        # in OLMo's and Gemma's blocks; in GLM-4's it stands before the MLP, as in Llama's.
        behind = [h + "post_attention_layernorm"] if h + "post_feedforward_layernorm.weight" in w else []
        before_mlp = [h + "pre_feedforward_layernorm"] if behind else [h + "post_attention_layernorm"]
        y = norm_where(x, h + "input_layernorm")
        q = normed_heads(linear(y, h + "self_attn.q_proj"), h + "self_attn.q_norm", shape.heads)
        k = normed_heads(linear(y, h + "self_attn.k_proj"), h + "self_attn.k_norm", shape.kv_heads)
        v = heads_of(linear(y, h + "self_attn.v_proj"), shape.kv_heads)
        turns = shape
        if shape.windows[i] and shape.window_rope:
            turns = replace(shape, rope=shape.window_rope, rope_theta=shape.window_rope["rope_theta"])
        if not shape.rotates or shape.rotates[i]:
            q, k = rotate(q, turns), rotate(k, turns)
        y = attention(q, k, v, shape.windows[i], shape.scale, shape.attention_cap, w.get(h + "self_attn.sinks"))
        y = norm_where(linear(y, h + "self_attn.o_proj"), *behind, h + "post_self_attn_layernorm")
        x = x + shape.branch_factor * y
        y = norm_where(x, *before_mlp)
        if h + "mlp.router.weight" in w:
            x = x + biased_mixture(w, shape, h + "mlp.", y)
            continue
        mixtures = [block for name in ("mlp.", "block_sparse_moe.") if (block := h + name) + "gate.weight" in w]
        if mixtures:
            x = x + mixture(w, shape, mixtures[0], y)
            continue
        gate = linear(y, h + "mlp.gate_proj")
        gated = (gelu_tanh(gate) if shape.gemma else silu(gate)) * linear(y, h + "mlp.up_proj")
        y = norm_where(linear(gated, h + "mlp.down_proj"), h + "post_feedforward_layernorm", h + "post_mlp_layernorm")
        x = x + shape.branch_factor * y
    x = norm(x, "model.norm")
    head = w["lm_head.weight" if "lm_head.weight" in w else "model.embed_tokens.weight"]
    return capped(x @ head.T / shape.logits_divisor, shape.logit_cap)


def logits(w, shape, ids_BT):
    return (gpt2 if shape.gpt2 else llama)(w, shape, ids_BT)


def mean_loss(w, shape, ids_BT, targets_BT):
    z = logits(w, shape, ids_BT)
    picked = z.gather(-1, targets_BT[..., None])[..., 0]
    return (torch.logsumexp(z, -1) - picked).mean()


def sgd(w, shape, steps, lr, clip=0.0):
    """w - lr * gradient for each of the (ids_BT, targets_BT) in `steps`, the gradient shortened to a norm of `clip`
    as torch.nn.utils.clip_grad_norm_ does, where that is set. Gives weights, losses and norms before clipping."""
    w = {name: x.clone() for name, x in w.items()}
    losses, norms = [], []
    for ids_BT, targets_BT in steps:
        for x in w.values():
            x.requires_grad_(True)
        loss = mean_loss(w, shape, ids_BT, targets_BT)
        gradients = torch.autograd.grad(loss, list(w.values()))
        norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
        factor = lr * (min(1.0, clip / (norm + 1e-6)) if clip else 1.0)
        w = {name: (x - factor * g).detach() for (name, x), g in zip(w.items(), gradients)}
        losses.append(float(loss.detach()))
        norms.append(norm)
    return w, losses, norms
