#include "lib/run/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/comm/agree.hpp"
#include "lib/run/preference_text.hpp"

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

// Calls `use` with this rank's share of each group of micro-batches. Returns false if interrupted.
static bool each_group(Trainer& trainer, const Dataset& data, std::int64_t samples,
                       std::int64_t microbatch, const std::function<bool()>& interrupted,
                       const std::function<void(std::span<const Batch>)>& use) {
  const auto& axes = trainer.axes();
  const auto subset = data.subset(samples);
  const auto n = subset.samples();
  const auto group = evaluation_group(axes.grid);
  std::int64_t first = axes.at.data * microbatch;
  const std::int64_t stride = axes.grid.data * microbatch;
  for (std::int64_t begin = 0; begin < n; begin += group * stride) {
    double stop = interrupted && interrupted();
    axes.world.all_reduce_max({&stop, 1});
    if (stop > 0) return false;
    std::vector<Batch> mine;
    together(axes.world, [&] {
      for (; first < std::min(n, begin + group * stride); first += stride)
        mine.push_back(trainer.share(
            padded(read_subset(data, subset, first, std::min(microbatch, n - first)), microbatch)));
    });
    use(mine);
  }
  return true;
}

std::string not_finite(const Evaluation& e, std::string_view set) {
  const double loss = e.loss.mean();
  bool finite = std::isfinite(loss);
  if (e.preferences) {
    const auto& p = *e.preferences;
    finite = finite && std::isfinite(p.chosen) && std::isfinite(p.rejected);
    if (!finite) return fmt::format("the {} loss is {} with {}", set, loss, text_of(columns_of(p)));
  }
  if (!finite) return fmt::format("the {} loss is {}", set, loss);
  if (!e.preferences && !std::isfinite(std::exp(loss)))
    return fmt::format("the {} loss is {}, and its perplexity is infinite", set, loss);
  return {};
}

std::optional<Evaluation> evaluate(Trainer& trainer, const Dataset& data, std::int64_t samples,
                                   std::int64_t microbatch,
                                   const std::function<bool()>& interrupted) {
  Evaluation total;
  const bool pairs = data.kind() != Documents::single;
  std::vector<ScoredPair> scored;
  const auto add = [&](std::span<const Batch> mine) {
    if (!pairs) {
      total.loss += trainer.evaluate(mine);
      return;
    }
    const auto more = trainer.score_pairs(mine);
    scored.insert(scored.end(), more.begin(), more.end());
  };
  if (!each_group(trainer, data, samples, microbatch, interrupted, add)) return std::nullopt;
  if (pairs) {
    const auto& p = total.preferences.emplace(trainer.evaluate_pairs(scored));
    total.loss = {p.loss, static_cast<std::int64_t>(p.pairs)};
  }
  return total;
}

std::vector<std::vector<double>> losses_of_documents(Trainer& trainer, const Dataset& data,
                                                     std::int64_t microbatch) {
  const auto& axes = trainer.axes();
  std::vector<std::vector<double>> all;
  for (std::size_t range = 0; range < data.ranges().size(); ++range)
    all.emplace_back(data.documents(range).size(), 0.0);
  each_group(trainer, data, 0, microbatch, {}, [&](std::span<const Batch> mine) {
    const auto losses = trainer.losses_of_documents(mine);
    if (axes.at.seq > 0) return;  // all sequence-parallel ranks have the same sums
    auto next = losses.begin();
    for (const auto& batch : mine)
      for (std::size_t b = 0; b < batch.sample_B.size(); ++b) {
        if (batch.tokens_B[b] == 0) continue;  // padding
        const auto [first, end] = data.documents_of(batch.sample_B[b]);
        const auto of_sample = next;
        next += static_cast<std::ptrdiff_t>(end - first);
        auto& of_range = all[data.sources(batch.sample_B[b]).front().range];
        std::copy(of_sample, next, of_range.begin() + static_cast<std::ptrdiff_t>(first));
      }
  });
  for (auto& of_range : all) axes.world.all_reduce(of_range);
  return all;
}

}  // namespace trireme
