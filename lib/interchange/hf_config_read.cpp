// Conversion of config.json to the [model] section.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/log.hpp"
#include "lib/interchange/config_fields.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_gemma.hpp"
#include "lib/interchange/hf_windows.hpp"

namespace trireme {

namespace {

struct Mixture {
  std::int64_t experts_per_token = 0;   // 0: one MLP per layer, without experts
  const char* experts = "num_experts";  // the key
  bool normalizes = false;              // whatever the file's norm_topk_prob is
  bool dense_layers = false;            // an MLP's width may differ from an expert's
  bool shared_expert = false;
};
constexpr Mixture mixtral{
    .experts_per_token = 2, .experts = "num_local_experts", .normalizes = true};
constexpr Mixture olmoe{.experts_per_token = 8};
constexpr Mixture qwen2_moe{.experts_per_token = 4, .dense_layers = true, .shared_expert = true};
constexpr Mixture qwen3_moe{.experts_per_token = 8, .dense_layers = true};

// Values of keys that a file may leave out, as in the classes of transformers.
struct Family {
  std::string_view model_type;
  std::int64_t kv_heads, head_dim, context, window;  // 0: heads; width / heads; never; none
  Windows windows;
  bool qkv_bias, qk_norm;
  double norm_eps = 1e-6, rope_theta = 10000;
  Mixture mixture = {};
};
constexpr std::array families = {
    Family{"llama", 0, 0, 2048, 0, Windows::none, false, false},
    Family{"mistral", 8, 0, 131072, 4096, Windows::all, false, false},
    Family{"phi3", 0, 0, 4096, 0, Windows::all, false, false, 1e-5},
    Family{"olmo2", 0, 0, 2048, 0, Windows::none, false, true, 1e-5},
    Family{"gemma2", 4, 256, 8192, 4096, Windows::but_second, false, false},
    Family{"gemma3_text", 4, 256, 131072, 4096, Windows::but_sixth, false, true, 1e-6, 1e6},
    Family{"qwen2", 32, 0, 32768, 4096, Windows::by_layer, true, false},
    Family{"qwen3", 32, 128, 32768, 4096, Windows::by_layer, false, true},
    Family{"mixtral", 8, 0, 131072, 0, Windows::all, false, false, 1e-5, 1e6, mixtral},
    Family{"olmoe", 0, 0, 4096, 0, Windows::none, false, true, 1e-5, 1e4, olmoe},
    Family{"qwen2_moe", 16, 0, 32768, 4096, Windows::by_version, true, false, 1e-6, 1e4, qwen2_moe},
    Family{"qwen3_moe", 4, 0, 32768, 4096, Windows::if_used, false, true, 1e-6, 1e4, qwen3_moe},
};

bool is_code_of_phi3(const ConfigFields& f, const Json& map) {
  return f.text("model_type", "") == "phi3" && map.is_object() &&
         std::ranges::all_of(map, [](const Json& name) {
           return name.is_string() && (name == "configuration_phi3.Phi3Config" ||
                                       name == "modeling_phi3.Phi3ForCausalLM");
         });
}

void refuse_common(const ConfigFields& f) {
  f.refuse_if(f.find("quantization_config"), "quantization_config",
              "quantized weights cannot be imported. Use the model in bf16 or f32");
  // Phi-3's own code is older than its class in transformers, and that code is not used.
  const auto* const own = f.find("auto_map");
  f.refuse_if(own && !is_code_of_phi3(f, *own), "auto_map",
              "this model needs its own Python code, which may compute something different");
  f.refuse_if(f.flag("is_encoder_decoder", false), "is_encoder_decoder",
              "only decoder models can be imported");
  f.refuse_if(f.flag("add_cross_attention", false), "add_cross_attention",
              "cross-attention is not supported");
  for (const auto* key : {"pruned_heads", "per_layer_config"}) {
    const auto* v = f.find(key);
    f.refuse_if(v && !v->empty(), key, "blocks that differ from each other are not supported");
  }
}

ModelConfig gpt2(const ConfigFields& f) {
  const auto activation = f.text("activation_function", "gelu_new");
  f.refuse_if(activation != "gelu_new" && activation != "gelu_pytorch_tanh", "activation_function",
              "only the tanh approximation of GELU (\"gelu_new\") is supported");
  f.refuse_if(!f.flag("scale_attn_weights", true), "scale_attn_weights",
              "only attention that is scaled by 1/sqrt(head dimension) is supported");
  f.refuse_if(f.flag("scale_attn_by_inverse_layer_idx", false), "scale_attn_by_inverse_layer_idx",
              "only attention with the same scale in all blocks is supported");
  ModelConfig c;
  c.layers = f.integer("n_layer");
  c.width = f.integer("n_embd");
  c.heads = f.integer("n_head");
  c.ffn_width = f.integer("n_inner", 4 * c.width);
  c.vocab = f.integer("vocab_size");
  c.context = f.integer("n_positions", f.integer("n_ctx", 1024));
  c.norm_eps = f.real("layer_norm_epsilon", 1e-5);
  c.tied = f.flag("tie_word_embeddings", true);
  return c;
}

// Returns the magnitude of YaRN by DeepSeek's formula, linear in the logarithm of the factor.
double magnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

void read_yarn(const ConfigFields& f, const ConfigFields& rope, ModelConfig& c) {
  c.rope_original_context =
      rope.integer("original_max_position_embeddings", f.integer("max_position_embeddings", 0));
  c.rope_beta_fast = rope.positive("beta_fast", 32);
  c.rope_beta_slow = rope.positive("beta_slow", 1);
  c.rope_truncate = rope.flag("truncate", true);
  const double scale = rope.real("mscale", 0), of_all = rope.real("mscale_all_dim", 0);
  c.rope_attention_factor = rope.positive(
      "attention_factor", scale != 0 && of_all != 0
                              ? magnitude(c.rope_factor, scale) / magnitude(c.rope_factor, of_all)
                              : 0);
}

// Reads the settings of rotary positions. Version 4 of transformers has rope_theta beside
// rope_scaling. Version 5 has all settings in rope_parameters. If a file has both objects, both
// versions use rope_scaling and ignore the other.
void read_rope(const ConfigFields& f, const Family& family, ModelConfig& c) {
  static const Json nothing = Json::object();
  const auto* scaling = f.find("rope_scaling");
  const auto* parameters =
      family.model_type == "gemma3_text" ? full_rope_of_gemma3(f, c) : f.find("rope_parameters");
  const bool first = scaling && !scaling->empty();
  const auto* const given = first ? scaling : parameters;
  const ConfigFields rope(given ? *given : nothing, first ? "rope_scaling" : "rope_parameters");
  c.rope_theta = rope.real("rope_theta", f.real("rope_theta", family.rope_theta));
  for (const auto* fields : {&f, &rope})
    fields->refuse_if(fields->real("partial_rotary_factor", 1) != 1, "partial_rotary_factor",
                      "only rotary positions that rotate all channels of a head are supported");
  const auto type = rope.text("rope_type", rope.text("type", "default").c_str());
  rope.refuse_if(family.model_type == "gemma3_text" && type != "default" && !rope.find("rope_type"),
                 "type", "the Gemma 3 class of transformers reads only 'rope_type'");
  if (family.model_type == "phi3") {
    f.unused("original_max_position_embeddings");  // without longrope
    // Phi-3's class reads "su" and "yarn" as "longrope", too.
    require(
        type == "default",
        "'rope_type' = \"{}\" in a model of type \"phi3\" means \"longrope\", which scales each "
        "channel differently and is not supported. Only Phi-3 models without it can be imported",
        escaped(type));
  }
  const auto scaling_of = [&] {
    if (type == "default") return RopeScaling::none;
    if (const auto known = value_named<RopeScaling>(type); known) return *known;
    fail(
        "'rope_type' = \"{}\" is not supported. The supported types are \"default\", \"linear\", "
        "\"llama3\" and \"yarn\"",
        escaped(type));
  };
  c.rope_scaling = scaling_of();
  if (c.rope_scaling != RopeScaling::none) c.rope_factor = rope.real("factor");
  if (type == "llama3") {
    c.rope_low_freq_factor = rope.real("low_freq_factor");
    c.rope_high_freq_factor = rope.real("high_freq_factor");
    c.rope_original_context = rope.integer("original_max_position_embeddings");
  } else if (type == "yarn") {
    read_yarn(f, rope, c);
  } else {
    rope.unused("original_max_position_embeddings");
  }
  for (const auto& [name, value] : rope.json().items())
    require(!value.is_object(),
            "its rotary parameters differ between layers ('{}'), which is not supported",
            escaped(name));
  rope.refuse_rest(type);
}

// Returns the number of experts. Families and versions use different keys; `usual` is the family's
// key.
std::int64_t experts_of(const ConfigFields& f, const char* usual) {
  const auto *local = f.find("num_local_experts"), *plain = f.find("num_experts");
  require(!local || !plain || *local == *plain,
          "'num_local_experts' = {} and 'num_experts' = {} must be equal",
          local ? shown(*local) : "", plain ? shown(*plain) : "");
  return f.integer(local ? "num_local_experts" : plain ? "num_experts" : usual);
}

// Returns the blocks that have one MLP: the listed blocks, and all blocks except every
// decoder_sparse_step-th.
std::vector<std::int64_t> dense_layers_of(const ConfigFields& f, std::int64_t layers) {
  const auto step = f.integer("decoder_sparse_step", 1);
  const auto* listed = f.find("mlp_only_layers");
  require(!listed || listed->is_array(), "'mlp_only_layers' is not an array");
  std::set<std::int64_t> dense;
  if (listed)
    for (const auto& layer : *listed) dense.insert(integer(layer, "mlp_only_layers"));
  std::vector<std::int64_t> all;
  for (std::int64_t l = 0; l < countable(layers); ++l)
    if (dense.contains(l) || (l + 1) % step != 0) all.push_back(l);
  return all;
}

void read_mixture(const ConfigFields& f, const Mixture& m, ModelConfig& c) {
  c.experts = experts_of(f, m.experts);
  c.experts_per_token = f.integer("num_experts_per_tok", m.experts_per_token);
  f.refuse_if(c.experts_per_token > c.experts, "num_experts_per_tok",
              fmt::format("a layer has {}", counted(c.experts, "expert")));
  c.norm_topk = m.normalizes || f.flag("norm_topk_prob", false);
  c.expert_width = m.dense_layers ? f.integer("moe_intermediate_size") : c.ffn_width;
  if (m.dense_layers) c.dense_layers = dense_layers_of(f, c.layers);
  c.shared_expert_gate = m.shared_expert;
  if (!m.shared_expert) return;
  c.shared_expert_width = f.integer("shared_expert_intermediate_size");
  c.qkv_bias = f.flag("qkv_bias", true);
}

ModelConfig llama(const ConfigFields& f, const Family& family) {
  ModelConfig c;
  c.norm = NormKind::rms;
  const bool gemma = is_gemma(family.model_type);
  if (!gemma) {
    const auto activation = f.text("hidden_act", "silu");
    f.refuse_if(activation != "silu" && activation != "swish", "hidden_act",
                "only SiLU is supported for this type of model");
    c.activation = ActivationKind::swiglu;
  }
  c.positions = Positions::rotary;
  c.layers = f.integer("num_hidden_layers");
  c.width = f.integer("hidden_size");
  c.heads = f.integer("num_attention_heads");
  c.kv_heads =
      f.integer("num_key_value_heads", f.names("num_key_value_heads") ? c.heads : family.kv_heads);
  c.head_dim = f.integer("head_dim", f.names("head_dim") ? 0 : family.head_dim);
  c.ffn_width = f.integer("intermediate_size");
  c.vocab = f.integer("vocab_size");
  c.context = f.integer("max_position_embeddings", family.context);
  c.norm_eps = f.real("rms_norm_eps", family.norm_eps);
  c.tied = f.flag("tie_word_embeddings", gemma);
  c.bias = f.flag("attention_bias", false);
  c.qkv_bias = family.qkv_bias;
  c.qk_norm = family.qk_norm;
  if (family.model_type == "olmoe" || family.model_type == "olmo2")
    c.qk_norm_over = QkNormOver::width;
  if (family.model_type == "olmo2") c.norm_place = NormPlace::after;
  if (family.model_type == "olmoe")
    f.refuse_if(f.find("clip_qkv"), "clip_qkv",
                "clipping of queries, keys and values is not supported");
  const bool mlp_bias = f.flag("mlp_bias", false);
  require(c.bias == mlp_bias && (!c.bias || family.model_type == "llama"),
          "'attention_bias' = {} and 'mlp_bias' = {} in a model of type \"{}\": the two values "
          "must be equal, and they can be true only for type \"llama\"",
          c.bias, mlp_bias, family.model_type);
  for (const auto* key : {"rope_interleaved", "use_mrope"})
    f.refuse_if(f.flag(key, false), key,
                "only rotary positions that rotate the two halves of a head are supported");
  read_rope(f, family, c);
  read_window(f, family.windows, family.window, c);
  if (gemma) read_gemma(f, family.model_type, c);
  if (family.mixture.experts_per_token > 0) read_mixture(f, family.mixture, c);
  return c;
}

const Family* family_of(std::string_view type) {
  const auto* const found = std::ranges::find(families, type, &Family::model_type);
  require(found != families.end() || type == "gpt2",
          "'model_type' = \"{}\" cannot be imported. The supported types are gpt2, llama, mistral, "
          "phi3, olmo2, gemma2, gemma3_text, qwen2, qwen3, mixtral, olmoe, qwen2_moe and qwen3_moe",
          escaped(type));
  return found == families.end() ? nullptr : found;
}

ModelConfig model_of(const ConfigFields& f, std::string_view where,
                     std::optional<std::int64_t> context) {
  refuse_common(f);
  const auto type = f.text("model_type", "");
  const auto* const family = family_of(type);
  auto c = family ? llama(f, *family) : gpt2(f);
  auto positions = c.context;
  f.refuse_rest(type);
  if (context) {
    require(c.positions == Positions::rotary || *context <= positions,
            "--context {} is more than the {} learned positions of the model: lower --context",
            *context, positions);
    if (*context > positions)
      log_warning("--context {} is more than the {} positions that {} specifies: lower --context",
                  *context, positions, where);
    c.context = *context;
  }
  if (family && family->windows == Windows::by_version && c.window > 0) {
    require(c.context <= c.window,
            "'sliding_window' = {} is smaller than the context of {} tokens, and versions 4 and 5 "
            "of transformers apply the window to different layers. Import the model with --context "
            "{}, so that the window has no effect",
            c.window, c.context, c.window);
    positions = std::min(positions, std::exchange(c.window, 0));
  }
  if (c.context < positions) c.max_context = positions;
  c = completed(c);
  require(c.head_dim > 0, "'{}' = {} does not divide '{}' = {}",
          family ? "num_attention_heads" : "n_head", c.heads, family ? "hidden_size" : "n_embd",
          c.width);
  return c;
}

}  // namespace

ProductTensors products_of_config(const Json& json) {
  const auto it = json.find("model_type");
  const bool packed = it != json.end() && *it == "phi3";
  return packed ? ProductTensors::packed : ProductTensors::apart;
}

ModelConfig model_of_config(const Json& json, std::string_view where,
                            std::optional<std::int64_t> context) {
  try {
    return model_of(ConfigFields(json), where, context);
  } catch (const Error& e) {
    fail("{} cannot be imported: {}", where, e.what());
  }
}

}  // namespace trireme
