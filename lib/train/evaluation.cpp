#include "lib/train/evaluation.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace trireme {

Batch read_samples(const Dataset& data, std::int64_t first, std::int64_t n) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(n));
  std::iota(samples.begin(), samples.end(), first);
  return read_batch(data, samples);
}

std::optional<LossSum> evaluate(Trainer& trainer, const Dataset& data, std::int64_t samples,
                                std::int64_t microbatch, const std::function<bool()>& interrupted) {
  const auto all = data.samples_per_epoch();
  const auto n = samples > 0 ? std::min(samples, all) : all;
  LossSum total;
  for (std::int64_t first = 0; first < n; first += microbatch) {
    if (interrupted && interrupted()) return std::nullopt;
    const auto part = trainer.evaluate(read_samples(data, first, std::min(microbatch, n - first)));
    total.sum += part.sum;
    total.valid += part.valid;
  }
  return total;
}

}  // namespace trireme
