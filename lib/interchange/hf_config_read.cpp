// From config.json to the [model] section.
#include <algorithm>
#include <array>
#include <span>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/interchange/hf_config.hpp"

namespace trireme {

namespace {

// What a file may leave out, as the classes of transformers have it.
struct Family {
  std::string_view model_type;
  std::int64_t kv_heads, head_dim, context, window;  // 0: as many as heads; width/heads; -; none
  bool qkv_bias, qk_norm;
};
constexpr std::array families = {
    Family{"llama", 0, 0, 2048, 0, false, false},
    Family{"mistral", 8, 0, 131072, 4096, false, false},
    Family{"qwen2", 32, 0, 32768, 4096, true, false},
    Family{"qwen3", 32, 128, 32768, 4096, false, true},
};

// Fields of an object. One that is null counts as left out.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  bool names(const char* key) const { return json_.contains(key); }
  const Json* find(const char* key) const {
    const auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }
  std::int64_t integer(const char* key) const {
    const auto* v = find(key);
    require(v, "it lacks '{}'", key);
    return trireme::integer(*v, key, 1);
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) const {
    return find(key) ? integer(key) : otherwise;
  }
  double real(const char* key) const {
    const auto* v = find(key);
    require(v && v->is_number(), "'{}' is not a number", key);
    return v->get<double>();
  }
  double real(const char* key, double otherwise) const { return find(key) ? real(key) : otherwise; }
  bool flag(const char* key, bool otherwise) const {
    const auto* v = find(key);
    require(!v || v->is_boolean(), "'{}' is neither true nor false", key);
    return v ? v->get<bool>() : otherwise;
  }
  std::string text(const char* key, const char* otherwise) const {
    const auto* v = find(key);
    require(!v || v->is_string(), "'{}' is not a text", key);
    return v ? v->get<std::string>() : otherwise;
  }
  const Json& json() const { return json_; }

 private:
  const Json& json_;
};

void refuse_if(bool wrong, const Fields& f, const char* key, std::string_view why) {
  if (!wrong) return;
  const auto* v = f.find(key);
  fail("'{}' = {}: {}", key, v ? v->dump() : "null", why);
}

void refuse_common(const Fields& f) {
  refuse_if(f.find("quantization_config"), f, "quantization_config",
            "quantized weights are not imported; take the model in bf16 or f32");
  refuse_if(f.find("auto_map"), f, "auto_map",
            "this model brings code of its own, which may compute something else");
  refuse_if(f.flag("is_encoder_decoder", false), f, "is_encoder_decoder",
            "models here are decoders alone");
  refuse_if(f.flag("add_cross_attention", false), f, "add_cross_attention",
            "models here have no cross-attention");
}

ModelConfig gpt2(const Fields& f) {
  const auto activation = f.text("activation_function", "gelu_new");
  refuse_if(activation != "gelu_new" && activation != "gelu_pytorch_tanh", f, "activation_function",
            "GELU in its tanh form is what models here have (gelu_new)");
  refuse_if(!f.flag("scale_attn_weights", true), f, "scale_attn_weights",
            "attention here is scaled by 1/sqrt(head dim)");
  refuse_if(f.flag("scale_attn_by_inverse_layer_idx", false), f, "scale_attn_by_inverse_layer_idx",
            "attention here is scaled alike in all blocks");
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

// Version 4 has rope_theta beside rope_scaling, 5 all of it in rope_parameters.
void read_rope(const Fields& f, ModelConfig& c) {
  const auto* given = f.find("rope_parameters");
  if (!given) given = f.find("rope_scaling");
  static const Json nothing = Json::object();
  const Fields rope(given ? *given : nothing);
  require(rope.json().is_object(), "its rope parameters are no object");
  c.rope_theta = rope.real("rope_theta", f.real("rope_theta", 10000));
  for (const auto& fields : {f, rope})
    refuse_if(fields.real("partial_rotary_factor", 1) != 1, fields, "partial_rotary_factor",
              "rotary positions here turn all channels of a head");
  const auto type = rope.text("rope_type", rope.text("type", "default").c_str());
  if (type == "default") {
    for (const auto& [name, value] : rope.json().items())
      require(!value.is_object(), "its rope parameters differ from layer to layer ('{}')", name);
    return;
  }
  require(type == "linear" || type == "llama3",
          "'rope_type' = \"{}\": rotary frequencies are scaled as \"linear\" and \"llama3\" only",
          type);
  c.rope_scaling = type == "linear" ? RopeScaling::linear : RopeScaling::llama3;
  c.rope_factor = rope.real("factor");
  if (c.rope_scaling == RopeScaling::linear) return;
  c.rope_low_freq_factor = rope.real("low_freq_factor");
  c.rope_high_freq_factor = rope.real("high_freq_factor");
  c.rope_original_context = rope.integer("original_max_position_embeddings");
}

// Attention that sees the last tokens alone is the same as long as there are no more of them.
void refuse_window(const Fields& f, const Family& family, const ModelConfig& c) {
  bool windowed = false, all = true;
  if (const auto* types = f.find("layer_types")) {
    require(types->is_array(), "'layer_types' is not an array");
    for (const auto& t : *types) {
      const auto type = t.is_string() ? t.get<std::string>() : t.dump();
      require(type == "full_attention" || type == "sliding_attention",
              "'layer_types' has \"{}\", attention that models here do not have", type);
      windowed = windowed || type == "sliding_attention";
      all = all && type == "sliding_attention";
    }
  } else if (family.model_type == "mistral") {
    windowed = true;
  } else if (f.flag("use_sliding_window", false)) {
    windowed = f.integer("max_window_layers", 28) < c.layers;
  }
  if (!windowed) return;
  const auto window = f.names("sliding_window") ? f.integer("sliding_window", 0) : family.window;
  require(window == 0 || window >= c.context,
          "'sliding_window' = {} is smaller than the context of {} tokens, and attention here sees "
          "all tokens: import it with --context {}, within which the two are the same",
          window, c.context, window);
}

ModelConfig llama(const Fields& f, const Family& family) {
  const auto activation = f.text("hidden_act", "silu");
  refuse_if(activation != "silu" && activation != "swish", f, "hidden_act",
            "a gated MLP here has SiLU");
  ModelConfig c;
  c.norm = NormKind::rms;
  c.activation = ActivationKind::swiglu;
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
  c.norm_eps = f.real("rms_norm_eps", 1e-6);
  c.tied = f.flag("tie_word_embeddings", false);
  c.bias = f.flag("attention_bias", false);
  c.qkv_bias = family.qkv_bias;
  c.qk_norm = family.qk_norm;
  const bool mlp_bias = family.model_type == "llama" && f.flag("mlp_bias", false);
  require(c.bias == mlp_bias,
          "'attention_bias' = {} and {}: biases here are in all projections (model.bias), in none, "
          "or in queries, keys and values alone (model.qkv_bias)",
          c.bias,
          family.model_type == "llama" ? fmt::format("'mlp_bias' = {}", mlp_bias)
                                       : "an MLP without biases");
  read_rope(f, c);
  return c;
}

ModelConfig model_of(const Fields& f) {
  refuse_common(f);
  const auto type = f.text("model_type", "");
  if (type == "gpt2") return gpt2(f);
  const auto family = std::ranges::find(families, type, &Family::model_type);
  require(
      family != families.end(),
      "'model_type' = \"{}\" is not among those that are imported: gpt2, llama, mistral, qwen2, "
      "qwen3",
      type);
  return llama(f, *family);
}

}  // namespace

ModelConfig model_of_config(const Json& json, std::string_view where,
                            std::optional<std::int64_t> context) {
  try {
    const Fields f(json);
    auto c = model_of(f);
    if (context) {
      require(c.positions == Positions::rotary || *context == c.context,
              "--context {}: its table has {} positions", *context, c.context);
      if (*context > c.context)
        log_warning("--context {} is more than the {} positions that {} speaks of", *context,
                    c.context, where);
      c.context = *context;
    }
    const auto family = std::ranges::find(families, f.text("model_type", ""), &Family::model_type);
    if (family != families.end()) refuse_window(f, *family, c);
    c = resolved(c);
    require(c.head_dim > 0, "'num_attention_heads' = {} does not divide 'hidden_size' = {}",
            c.heads, c.width);
    return c;
  } catch (const Json::exception& e) {
    fail("{} cannot be imported: {}", where, e.what());
  } catch (const Error& e) {
    fail("{} cannot be imported: {}", where, e.what());
  }
}

}  // namespace trireme
