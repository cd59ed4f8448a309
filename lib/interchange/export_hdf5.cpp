#include <cmath>
#include <span>
#include <vector>

#include "lib/base/draft.hpp"
#include "lib/base/error.hpp"
#include "lib/interchange/export.hpp"
#include "lib/io/weights_file.hpp"

namespace trireme {

// Returns the settings under the names of the deck's keys. Flags are 0 and 1.
static std::vector<Setting> settings_of(const ModelConfig& c, const CheckpointMeta& meta) {
  using Text = std::string;
  using Count = std::int64_t;
  const double own = 1 / std::sqrt(static_cast<double>(c.head_dim));
  const double scale = c.attention_scale > 0 ? c.attention_scale : own;
  return {{"layers", c.layers},
          {"width", c.width},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"ffn_width", c.ffn_width},
          {"vocab", c.vocab},
          {"context", c.context},
          {"max_context", positions_of(c)},
          {"norm", Text(name_of(c.norm))},
          {"norm_place", Text(name_of(c.norm_place))},
          {"norm_eps", c.norm_eps},
          {"bias", Count{c.bias}},
          {"qkv_bias", Count{c.qkv_bias}},
          {"qk_norm", Count{c.qk_norm}},
          {"qk_norm_over", Text(name_of(c.qk_norm_over))},
          {"activation", Text(name_of(c.activation))},
          {"experts", c.experts},
          {"experts_per_token", c.experts_per_token},
          {"expert_width", c.expert_width},
          {"shared_expert_width", c.shared_expert_width},
          {"shared_expert_gate", Count{c.shared_expert_gate}},
          {"expert_bias", Count{c.expert_bias}},
          {"router", Text(name_of(c.router))},
          {"norm_topk", Count{c.norm_topk}},
          {"dense_layers", c.dense_layers},
          {"window", c.window},
          {"window_layers", c.window_layers},
          {"attention_scale", scale},
          {"attention_softcap", c.attention_softcap},
          {"residual_scale", c.residual_scale},
          {"logit_scale", c.logit_scale},
          {"logit_softcap", c.logit_softcap},
          {"attention_sinks", Count{c.attention_sinks}},
          {"positions", Text(name_of(c.positions))},
          {"nope_layers", c.nope_layers},
          {"rotary_dim", c.rotary_dim},
          {"rope_theta", c.rope_theta},
          {"window_rope_theta", c.window_rope_theta},
          {"rope_scaling", Text(name_of(c.rope_scaling))},
          {"rope_factor", c.rope_factor},
          {"rope_low_freq_factor", c.rope_low_freq_factor},
          {"rope_high_freq_factor", c.rope_high_freq_factor},
          {"rope_original_context", c.rope_original_context},
          {"rope_beta_fast", c.rope_beta_fast},
          {"rope_beta_slow", c.rope_beta_slow},
          {"rope_truncate", Count{c.rope_truncate}},
          {"rope_attention_factor", c.rope_attention_factor},
          {"tied", Count{c.tied}},
          {"scale_embedding", Count{c.scale_embedding}},
          {"embedding_scale", c.embedding_scale},
          {"step", meta.step},
          {"tokenizer_kind", meta.tokenizer_kind.empty() ? Text("none") : meta.tokenizer_kind}};
}

ExportSummary export_hdf5(StoredModel model, const std::filesystem::path& file,
                          std::optional<ElementType> type) {
  const auto stored = model.dtype();
  ExportSummary summary;
  summary.type = type.value_or(element_type(stored));
  require(summary.type != ElementType::bf16, "HDF5 has no bf16. Set --dtype f32, or omit --dtype");
  std::vector<WeightsDataset> datasets;
  for (const auto& p : model.spec().params) {
    datasets.push_back(
        {p.name, p.shape, summary.type == ElementType::f64 ? DType::f64 : DType::f32});
    summary.bytes += p.shape.count() * static_cast<std::int64_t>(bytes_of(summary.type));
  }
  summary.tensors = datasets.size();
  summary.files = 1;

  Draft draft(file);
  std::vector<std::byte> rounded;
  write_weights_file(
      draft.path(), datasets, settings_of(model.spec().config, model.meta()),
      model.meta().tokenizer, [&](const WeightsDataset& d, const ElementSink& next) {
        model.read(d.name, 0, d.shape.count(),
                   [&](std::int64_t, std::span<const std::byte> elements) {
                     rounded.resize(elements.size() / bytes_of(stored) * bytes_of(summary.type));
                     write_elements(stored, elements, summary.type, rounded, d.name);
                     next(rounded);
                   });
      });
  draft.publish();
  return summary;
}

}  // namespace trireme
