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

LossSum evaluate(Trainer& trainer, const Dataset& data, std::int64_t samples,
                 std::int64_t microbatch) {
  const auto all = data.samples_per_epoch();
  const auto n = samples > 0 ? std::min(samples, all) : all;
  LossSum total;
  for (std::int64_t first = 0; first < n; first += microbatch) {
    const auto batch = read_samples(data, first, std::min(microbatch, n - first));
    if (batch.valid == 0) continue;
    const auto part = trainer.evaluate(batch);
    total.sum += part.sum;
    total.valid += part.valid;
  }
  require(total.valid > 0, "evaluation: none of the {} held-out samples has a valid target", n);
  return total;
}

}  // namespace trireme
