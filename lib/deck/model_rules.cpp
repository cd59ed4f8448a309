#include <algorithm>
#include <cstdint>

#include "lib/base/fixed.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/deck/rules.hpp"
#include "lib/deck/sections.hpp"
#include "lib/keys/key.hpp"
#include "lib/keys/value.hpp"

namespace trireme {
namespace {

class ModelRules : DeckRules {
 public:
  using DeckRules::DeckRules;

  void all() {
    heads();
    positions();
    window();
    scales();
    experts();
    rope();
    adapter();
  }

 private:
  void heads() {
    const ModelConfig& m = deck_.model;
    const bool rotary = m.positions == Positions::rotary;
    if (m.head_dim == 0) {
      auto legal = divisors(m.width);
      std::erase_if(legal, [&](std::int64_t h) { return rotary && m.width / h % 2 != 0; });
      rule(false, {"model.heads", "model.width", "model.positions"},
           "model.heads = {} does not divide model.width = {}; heads that do: {}; or give "
           "model.head_dim",
           m.heads, m.width, legal_text(legal, m.heads));
    } else {
      rule(m.heads <= static_cast<std::int64_t>(row_most) / m.head_dim,
           {"model.head_dim", "model.heads"},
           "{} heads with model.head_dim = {} have more than {} channels in total; lower "
           "model.heads or model.head_dim",
           m.heads, m.head_dim, static_cast<std::int64_t>(row_most));
      rule(!rotary || m.head_dim % 2 == 0,
           {"model.head_dim", "model.heads", "model.width", "model.positions"},
           "model.positions = \"rotary\" needs an even number of channels per head, but each head "
           "has {}; give an even model.head_dim, or a model.heads that divides model.width = {} "
           "into even parts",
           m.head_dim, m.width);
    }
    rule(m.heads % m.kv_heads == 0, {"model.kv_heads", "model.heads"},
         "model.kv_heads = {} does not divide model.heads = {}; key and value heads that do: {}",
         m.kv_heads, m.heads, legal_text(divisors(m.heads), m.kv_heads));
    rule(m.qk_norm || m.qk_norm_over == QkNormOver::head, {"model.qk_norm_over", "model.qk_norm"},
         "model.qk_norm_over = \"{}\" needs model.qk_norm = true: set that, or remove "
         "model.qk_norm_over",
         name_of(m.qk_norm_over));
    rule(deck_.train.offload == Offload::none || deck_.train.recompute == Recompute::block,
         {"model.offload", "model.recompute"},
         "model.offload = \"{}\" needs model.recompute = \"block\": set that, or remove "
         "model.offload",
         name_of(deck_.train.offload));
  }

  void positions() {
    const auto context = deck_.data.context, most = deck_.model.max_context;
    rule(most >= context, {"model.max_context", "model.context"},
         "model.max_context = {} is less than model.context = {}: raise the first, lower the "
         "second, or remove model.max_context",
         most, context);
  }

  // Requires that each element of a list is a block, and occurs once.
  bool blocks(const std::vector<std::int64_t>& list, const std::string& key) {
    const auto layers = deck_.model.layers;
    const auto outside = std::ranges::find_if(list, [&](auto l) { return l >= layers; });
    if (outside != list.end())
      rule(false, {key, "model.layers"},
           "{} names block {}, but with model.layers = {} the last block is {}", key, *outside,
           layers, layers - 1);
    auto sorted = list;
    std::ranges::sort(sorted);
    const bool twice = std::ranges::adjacent_find(sorted) != sorted.end();
    rule(!twice, {key}, "{} names a block twice", key);
    return outside == list.end() && !twice;
  }

  void window() {
    const ModelConfig& m = deck_.model;
    rule(m.window > 0 || m.window_layers.empty(), {"model.window_layers", "model.window"},
         "model.window_layers needs model.window: set that, or remove model.window_layers");
    blocks(m.window_layers, "model.window_layers");
    rule(m.window_rope_theta == 0 || (m.window > 0 && m.positions == Positions::rotary),
         {"model.window_rope_theta", "model.window", "model.positions"},
         "model.window_rope_theta needs model.window and model.positions = \"rotary\": set both, "
         "or remove model.window_rope_theta");
  }

  void scales() {
    const ModelConfig& m = deck_.model;
    rule(!m.scale_embedding || m.embedding_scale == 1,
         {"model.embedding_scale", "model.scale_embedding"},
         "model.embedding_scale = {} and model.scale_embedding = true both multiply embeddings: "
         "remove one of them",
         number_text(m.embedding_scale));
  }

  void experts() {
    const ModelConfig& m = deck_.model;
    const ModelConfig plain;
    if (m.experts == 0) {
      const auto alone = [&](bool given, const char* key) {
        rule(!given, {key, "model.experts"}, "{0} needs model.experts: set that, or remove {0}",
             key);
      };
      alone(m.experts_per_token != 0, "model.experts_per_token");
      alone(m.expert_width != 0, "model.expert_width");
      alone(m.shared_expert_width != 0, "model.shared_expert_width");
      alone(!m.dense_layers.empty(), "model.dense_layers");
      alone(deck_.parallel.expert != 1, "parallel.expert");
      alone(deck_.parallel.expert_tokens != 0, "parallel.expert_tokens");
      alone(m.expert_bias, "model.expert_bias");
      alone(m.router != plain.router, "model.router");
      alone(m.norm_topk != plain.norm_topk, "model.norm_topk");
      alone(deck_.train.balance != Balance::none, "train.balance");
      alone(deck_.train.router_z != 0, "train.router_z");
    } else {
      rule(m.experts_per_token >= 1 && m.experts_per_token <= m.experts,
           {"model.experts_per_token", "model.experts"},
           "model.experts_per_token = {} is not between 1 and model.experts = {}: give the number "
           "of experts that process each token",
           m.experts_per_token, m.experts);
      rule(is_gated(m.activation), {"model.activation", "model.experts"},
           "experts need a gated activation: set model.activation to \"swiglu\", for example");
      rule(!m.expert_bias || m.router == RouterScores::softmax,
           {"model.expert_bias", "model.router"},
           "model.expert_bias = true needs model.router = \"softmax\", because the router of "
           "\"sigmoid\" already has a bias: remove one of them");
      rule(!blocks(m.dense_layers, "model.dense_layers") || std::ssize(m.dense_layers) < m.layers,
           {"model.dense_layers", "model.layers", "model.experts"},
           "model.dense_layers names all blocks, so no block has experts: name fewer blocks, or "
           "remove model.experts and the keys that need it");
      rule(deck_.parallel.expert_tokens == 0 || deck_.parallel.expert != 1,
           {"parallel.expert_tokens", "parallel.expert"},
           "parallel.expert_tokens needs expert parallelism: set parallel.expert, or remove "
           "parallel.expert_tokens");
    }
    rule(!m.shared_expert_gate || m.shared_expert_width > 0,
         {"model.shared_expert_gate", "model.shared_expert_width"},
         "model.shared_expert_gate needs a shared expert: set model.shared_expert_width, or remove "
         "model.shared_expert_gate");
    const TrainConfig& t = deck_.train;
    const TrainConfig quiet;
    rule(t.balance == Balance::sample || t.balance_weight == quiet.balance_weight,
         {"train.balance_weight", "train.balance"},
         "train.balance_weight needs train.balance = \"sample\": set that, or remove "
         "train.balance_weight");
    rule(t.balance == Balance::bias || t.balance_rate == quiet.balance_rate,
         {"train.balance_rate", "train.balance"},
         "train.balance_rate needs train.balance = \"bias\": set that, or remove "
         "train.balance_rate");
    rule(t.balance != Balance::bias || m.router == RouterScores::sigmoid || m.experts == 0,
         {"train.balance", "model.router"},
         "train.balance = \"bias\" needs model.router = \"sigmoid\"; with \"softmax\", use "
         "train.balance = \"sample\"");
  }

  void rope() {
    const ModelConfig& m = deck_.model;
    const bool rotary = m.positions == Positions::rotary;
    rule(rotary || m.nope_layers.empty(), {"model.nope_layers", "model.positions"},
         "model.nope_layers needs model.positions = \"rotary\": set that, or remove "
         "model.nope_layers");
    blocks(m.nope_layers, "model.nope_layers");
    rule(rotary || m.rotary_dim == 0, {"model.rotary_dim", "model.positions"},
         "model.rotary_dim needs model.positions = \"rotary\": set that, or remove "
         "model.rotary_dim");
    rule(m.rotary_dim % 2 == 0, {"model.rotary_dim"},
         "model.rotary_dim = {} is odd, but channels rotate in pairs: give an even number",
         m.rotary_dim);
    rule(m.head_dim == 0 || m.rotary_dim <= m.head_dim, {"model.rotary_dim", "model.head_dim"},
         "model.rotary_dim = {} is more than the {} channels of a head: lower model.rotary_dim, or "
         "raise model.head_dim",
         m.rotary_dim, m.head_dim);
    const bool scaled = m.rope_scaling != RopeScaling::none;
    rule(!scaled || rotary, {"model.rope_scaling", "model.positions"},
         "model.rope_scaling needs model.positions = \"rotary\": set that, or remove "
         "model.rope_scaling");
    rule(scaled || m.rope_factor == 1, {"model.rope_factor", "model.rope_scaling"},
         "model.rope_factor = {} needs model.rope_scaling = \"linear\", \"llama3\" or \"yarn\": "
         "set one of these, or remove model.rope_factor",
         number_text(m.rope_factor));
    rule(m.rope_scaling != RopeScaling::llama3 || m.rope_high_freq_factor > m.rope_low_freq_factor,
         {"model.rope_high_freq_factor", "model.rope_low_freq_factor"},
         "model.rope_high_freq_factor = {} is not above model.rope_low_freq_factor = {}: raise the "
         "first or lower the second",
         number_text(m.rope_high_freq_factor), number_text(m.rope_low_freq_factor));
    rule(m.rope_scaling != RopeScaling::yarn || m.rope_beta_fast > m.rope_beta_slow,
         {"model.rope_beta_fast", "model.rope_beta_slow"},
         "model.rope_beta_fast = {} is not above model.rope_beta_slow = {}: raise the first or "
         "lower the second",
         number_text(m.rope_beta_fast), number_text(m.rope_beta_slow));
  }

  void adapter() {
    rule(deck_.adapter.rank <= deck_.model.width, {"adapter.rank", "model.width"},
         "adapter.rank = {} is more than model.width = {}: lower adapter.rank", deck_.adapter.rank,
         deck_.model.width);
    rule(deck_.adapter.rank == 0 || !deck_.adapter.patterns.empty(),
         {"adapter.patterns", "adapter.rank"},
         "adapter.patterns = [] matches no matrix product, so nothing would be trained; to train "
         "the whole model, set adapter.rank = 0");
    rule(deck_.adapter.rank > 0 || deck_.adapter.base == BaseType::compute,
         {"adapter.base", "adapter.rank"},
         "adapter.base = \"{}\" has no effect without adapters: set adapter.rank, or remove "
         "adapter.base",
         name_of(deck_.adapter.base));
    const AdapterConfig& a = deck_.adapter;
    const auto of_adapters = [&](const char* key, bool given) {
      rule(a.rank > 0 || !given, {key, "adapter.rank"},
           "{0} has no effect without adapters: set adapter.rank, or remove {0}", key);
    };
    of_adapters("adapter.alpha", a.alpha != 0);
    of_adapters("adapter.rank_stabilized", a.rank_stabilized);
    of_adapters("adapter.dropout", a.dropout != 0);
    for (std::size_t i = 0; i < a.ranks.size(); ++i) {
      const auto& r = a.ranks[i];
      const auto key = key_in_row("adapter_rank.rank", i);
      rule(a.rank > 0, {key, "adapter.rank"},
           "[[adapter_rank]] has no effect without adapters: set adapter.rank, or remove the "
           "section");
      rule(r.rank >= 1, {key}, "adapter_rank.rank of \"{}\" is missing: set it", r.pattern);
      rule(r.rank <= deck_.model.width, {key, "model.width"},
           "adapter_rank.rank = {} is more than model.width = {}: lower it", r.rank,
           deck_.model.width);
    }
    of_adapters("adapter.method", a.method != AdapterMethod::lora);
    of_adapters("adapter.also_train", !a.also_train.empty());
    of_adapters("adapter.b_lr_ratio", a.b_lr_ratio != 1);
    rule(deck_.adapter.rank == 0 || deck_.train.balance != Balance::bias,
         {"train.balance", "adapter.rank"},
         "train.balance = \"bias\" changes router biases, which are frozen while adapters are "
         "trained; use \"sample\" or \"none\"");
  }
};

}  // namespace

void model_rules(const Deck& deck, std::vector<DeckProblem>& problems) {
  ModelRules(deck, problems).all();
}

}  // namespace trireme
