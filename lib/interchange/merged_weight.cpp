#include "lib/interchange/merged_weight.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/io/stored_doubles.hpp"

namespace trireme {

std::vector<double> read_doubles(CheckpointReader& reader, const ParamSpec& p) {
  return read_doubles(reader, p.name, 0, p.shape.count());
}

MergedWeight::MergedWeight(const ModelSpec& spec, const AdapterParams& adapter,
                           CheckpointReader& adapters, CheckpointReader& base)
    : adapter_(adapter),
      inputs_(spec.params[adapter.weight.index()].shape[1]),
      scale_(adapter.scale),
      a_(read_doubles(adapters, spec.params[adapter.a.index()])),
      b_(read_doubles(adapters, spec.params[adapter.b.index()])) {
  if (adapter.norms != ParamId{})
    find_factors(read_doubles(adapters, spec.params[adapter.norms.index()]), base,
                 spec.params[adapter.weight.index()]);
}

// Returns w + s b a for row n and column i, where w is the element of the base weight.
double MergedWeight::sum(std::int64_t n, std::int64_t i, double w) const {
  for (std::size_t p = 0; p < adapter_.products.size(); ++p) {
    const auto& product = adapter_.products[p];
    if (n < product.channel || n >= product.channel + product.channels) continue;
    const auto row = product.row + n - product.channel,
               first = static_cast<std::int64_t>(p) * adapter_.rank;
    double low = 0;
    for (std::int64_t r = 0; r < adapter_.rank; ++r)
      low += b_[static_cast<std::size_t>(row * adapter_.rank + r)] *
             a_[static_cast<std::size_t>((first + r) * inputs_ + i)];
    return w + scale_ * low;
  }
  return w;
}

void MergedWeight::find_factors(const std::vector<double>& norms, CheckpointReader& base,
                                const ParamSpec& weight) {
  constexpr std::int64_t most = 1 << 20;  // elements in memory
  factor_N_.assign(static_cast<std::size_t>(weight.shape[0]), 1.0);
  const auto batch = std::max<std::int64_t>(1, most / inputs_);
  for (const auto& p : adapter_.products) {
    for (std::int64_t begin = 0; begin < p.channels; begin += batch) {
      const auto rows = std::min(batch, p.channels - begin), first = p.channel + begin;
      const auto w = read_doubles(base, weight.name, first * inputs_, rows * inputs_);
      for (std::int64_t row = 0; row < rows; ++row) {
        double squares = 0;
        for (std::int64_t i = 0; i < inputs_; ++i) {
          const auto x = sum(first + row, i, w[static_cast<std::size_t>(row * inputs_ + i)]);
          squares += x * x;
        }
        const auto m = norms[static_cast<std::size_t>(p.row + begin + row)];
        factor_N_[static_cast<std::size_t>(first + row)] =
            squares == 0 ? 0 : m / std::sqrt(squares);
      }
    }
  }
}

void MergedWeight::merge(std::int64_t first, DType type, std::span<const std::byte> w,
                         std::span<std::byte> merged) const {
  const auto as = [&]<class T>(T x) {
    const auto n = w.size() / sizeof(T);
    for (std::size_t e = 0; e < n; ++e) {
      std::memcpy(&x, w.data() + e * sizeof(T), sizeof(T));
      const auto at = first + static_cast<std::int64_t>(e), row = at / inputs_;
      const auto factor = factor_N_.empty() ? 1 : factor_N_[static_cast<std::size_t>(row)];
      x = static_cast<T>(factor * sum(row, at % inputs_, x));
      std::memcpy(merged.data() + e * sizeof(T), &x, sizeof(T));
    }
  };
  if (type == DType::f64)
    as(double{});
  else
    as(float{});
}

}  // namespace trireme
