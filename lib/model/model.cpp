#include "lib/model/model.hpp"

#include "lib/model/parts.hpp"

namespace trireme {

Model::Model(Backend& backend, ModelSpec spec, DType compute, bool exact)
    : spec_(std::move(spec)), compute_(compute) {
  const auto& c = spec_.config;
  Tensor rotary_T2E;
  if (c.positions == Positions::rotary) {
    const ops::RotaryFrequencies frequencies{
        c.rope_theta,           c.rope_scaling,          c.rope_factor,
        c.rope_low_freq_factor, c.rope_high_freq_factor, c.rope_original_context};
    rotary_T2E =
        ops::rotary_table(backend, c.context, frequencies.of_pairs(c.head_dim), wide(compute));
  }
  parts_.push_back(std::make_unique<EmbeddingPart>(spec_, compute));
  for (std::int64_t l = 0; l < c.layers; ++l)
    parts_.push_back(std::make_unique<BlockPart>(spec_, l, rotary_T2E, exact));
  parts_.push_back(std::make_unique<FinalNormPart>(spec_));
  parts_.push_back(std::make_unique<HeadPart>(spec_));
}

Model::~Model() = default;

const ops::Head& Model::head() const {
  return static_cast<const HeadPart&>(*parts_.back()).op();
}

}  // namespace trireme
