#include "lib/io/mean_weights.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/io/save_weights.hpp"
#include "lib/io/stored_doubles.hpp"

namespace trireme {

// Computes elements [begin, begin + mean.size()) of the mean of a parameter.
static void compute_mean(std::span<const WeightedCheckpoint> all, const std::string& param,
                         std::int64_t begin, std::span<double> mean) {
  std::ranges::fill(mean, 0.0);
  for (const auto& one : all) {
    const auto w = read_doubles(*one.reader, param, begin, std::ssize(mean));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += one.share * w[i];
  }
}

template <class T>
static void round_to(std::span<const double> mean, std::span<std::byte> to,
                     const std::string& param) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const auto x = static_cast<T>(mean[i]);
    require(std::isfinite(x), "the mean of {} is not finite", param);
    std::memcpy(to.data() + i * sizeof x, &x, sizeof x);
  }
}

void save_mean(const std::filesystem::path& target, CheckpointMeta meta,
               std::span<const WeightedCheckpoint> all) {
  const auto& first = *all.front().reader;
  const auto type = stored_type(first);
  std::vector<std::pair<std::string, Shape>> params;
  for (const auto& p : first.params()) params.emplace_back(p.name, p.shape);
  std::vector<double> mean;
  save_weights(target, std::move(meta), params, type,
               [&](const std::string& param, std::int64_t from, std::span<std::byte> to) {
                 mean.resize(to.size() / bytes_of(type));
                 compute_mean(all, param, from, mean);
                 type == DType::f64 ? round_to<double>(mean, to, param)
                                    : round_to<float>(mean, to, param);
               });
}

}  // namespace trireme
