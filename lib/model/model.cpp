#include "lib/model/model.hpp"

#include "lib/model/parts.hpp"

namespace trireme {

Model::Model(Backend& backend, ModelSpec spec, ModelSettings settings)
    : spec_(std::move(spec)), settings_(settings) {
  const auto& c = spec_.config;
  if (settings_.context == 0) settings_.context = c.max_context;
  const auto T = settings_.context;
  const auto type = wide(settings_.compute);
  Tensor rotary_T2E, in_window_T2E;
  if (c.positions == Positions::rotary) {
    const ops::RotaryFrequencies frequencies{.theta = c.rope_theta,
                                             .scaling = c.rope_scaling,
                                             .factor = c.rope_factor,
                                             .low_freq_factor = c.rope_low_freq_factor,
                                             .high_freq_factor = c.rope_high_freq_factor,
                                             .original_context = c.rope_original_context,
                                             .beta_fast = c.rope_beta_fast,
                                             .beta_slow = c.rope_beta_slow,
                                             .truncate = c.rope_truncate,
                                             .attention_factor = c.rope_attention_factor,
                                             .channels = c.rotary_dim};
    rotary_T2E = ops::rotary_table(backend, T, frequencies.of_pairs(c.head_dim),
                                   frequencies.amplitude(), type);
    if (c.window > 0 && c.window_rope_theta > 0) {
      const ops::RotaryFrequencies plain{.theta = c.window_rope_theta, .channels = c.rotary_dim};
      in_window_T2E = ops::rotary_table(backend, T, plain.of_pairs(c.head_dim), 1, type);
    }
  }
  parts_.push_back(std::make_unique<EmbeddingPart>(spec_, settings_));
  for (std::int64_t l = 0; l < c.layers; ++l) {
    const bool own = in_window_T2E && window_of(c, l) > 0;
    const Tensor table_T2E = !has_rotary(c, l) ? Tensor() : own ? in_window_T2E : rotary_T2E;
    parts_.push_back(std::make_unique<BlockPart>(spec_, l, table_T2E, settings_));
  }
  parts_.push_back(std::make_unique<FinalNormPart>(spec_));
  parts_.push_back(std::make_unique<HeadPart>(spec_));
}

Model::~Model() = default;

const ops::Head& Model::head() const {
  return static_cast<const HeadPart&>(*parts_.back()).op();
}

}  // namespace trireme
