#include "lib/run/evaluation.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "lib/comm/agree.hpp"

namespace trireme {

std::int64_t evaluation_group(const Grid& grid) {
  return grid.pipe > 1 ? 4 * grid.pipe : 1;
}

Batch read_samples(const Dataset& data, std::int64_t first, std::int64_t n) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(n));
  std::iota(samples.begin(), samples.end(), first);
  return read_batch(data, samples);
}

static Batch read_subset(const Dataset& data, const Subset& subset, std::int64_t first,
                         std::int64_t n) {
  std::vector<std::int64_t> samples;
  for (std::int64_t k = first; k < first + n; ++k) samples.push_back(subset(k));
  return read_batch(data, samples);
}

// Appends masked samples, so that every batch has the same shape.
static Batch padded(Batch batch, std::int64_t samples) {
  const auto have = static_cast<std::int64_t>(batch.sample_B.size());
  const auto tokens = static_cast<std::int64_t>(batch.ids_BT.size()) / have;
  batch.ids_BT.resize(static_cast<std::size_t>(samples * tokens), 0);
  batch.targets_BT.resize(static_cast<std::size_t>(samples * tokens), no_target);
  batch.sample_B.resize(static_cast<std::size_t>(samples), 0);
  if (!batch.start_BT.empty()) batch.start_BT.resize(static_cast<std::size_t>(samples * tokens), 0);
  if (!batch.tokens_B.empty()) batch.tokens_B.resize(static_cast<std::size_t>(samples), 0);
  return batch;
}

std::optional<LossSum> evaluate(Trainer& trainer, const Dataset& data, std::int64_t samples,
                                std::int64_t microbatch, const std::function<bool()>& interrupted) {
  const auto& axes = trainer.axes();
  const auto subset = data.subset(samples);
  const auto n = subset.samples();
  const auto group = evaluation_group(axes.grid);
  LossSum total;
  std::int64_t first = axes.at.data * microbatch;
  const std::int64_t stride = axes.grid.data * microbatch;
  for (std::int64_t begin = 0; begin < n; begin += group * stride) {
    double stop = interrupted && interrupted();
    axes.world.all_reduce_max({&stop, 1});
    if (stop > 0) return std::nullopt;
    std::vector<Batch> mine;
    together(axes.world, [&] {
      for (; first < std::min(n, begin + group * stride); first += stride)
        mine.push_back(trainer.share(
            padded(read_subset(data, subset, first, std::min(microbatch, n - first)), microbatch)));
    });
    if (data.pairs()) {
      const auto sums = trainer.evaluate_pairs(mine);
      total += {sums.loss, static_cast<std::int64_t>(sums.pairs)};
    } else {
      total += trainer.evaluate(mine);
    }
  }
  return total;
}

}  // namespace trireme
