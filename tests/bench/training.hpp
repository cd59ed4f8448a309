#pragma once
// What timed trainings share: a GPT-2's configuration and batches of random tokens.
#include "lib/data/dataset.hpp"
#include "lib/model/config.hpp"
#include "tests/bench/shapes.hpp"

namespace trireme::bench {

inline ModelConfig config_of(const Model& m) {
  ModelConfig c;
  c.layers = m.layers;
  c.width = m.C;
  c.heads = m.heads;
  c.vocab = m.V;
  c.max_context = m.T;
  return completed(c);
}

inline Batch random_batch(std::int64_t samples, std::int64_t T, std::int64_t V,
                          std::uint64_t seed) {
  Batch b;
  for (std::int64_t i = 0; i < samples * T; ++i) {
    const auto r = hash64(seed, static_cast<std::uint64_t>(i));
    b.ids_BT.push_back(static_cast<std::int32_t>(r % static_cast<std::uint64_t>(V)));
    b.targets_BT.push_back(static_cast<std::int32_t>((r >> 32) % static_cast<std::uint64_t>(V)));
  }
  for (std::int64_t i = 0; i < samples; ++i) b.sample_B.push_back(i);
  b.valid = samples * T;
  return b;
}

}  // namespace trireme::bench
