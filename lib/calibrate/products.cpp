// Rates of products at the sizes that transformers have, in the three layouts of a linear map: what
// is not measured lies between them. Weights and their gradients come from memory, as those of a
// model do: each call takes others, as long as they are large.
#include <algorithm>

#include "lib/calibrate/calibrate.hpp"
#include "lib/calibrate/operands.hpp"

namespace trireme {
namespace {

// Neither powers of two, whose rows would fall on the same lines of a cache, nor odd.
const std::vector<double> sizes = {48, 192, 768, 3072};
constexpr double most_flops = 8e9;
// A model is larger than any cache.
constexpr std::size_t cold_bytes = std::size_t{96} << 20, small_bytes = std::size_t{256} << 10;

std::vector<View> several(Operands& memory, DType t, const Shape& s) {
  const auto bytes = static_cast<std::size_t>(s.count()) * bytes_of(t);
  const auto count = bytes < small_bytes ? 1 : std::clamp<std::size_t>(cold_bytes / bytes, 2, 64);
  std::vector<View> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(memory.take(t, s));
  return all;
}

double rate(Backend& b, const Stopwatch& watch, DType t, Lay lay, std::int64_t m, std::int64_t n,
            std::int64_t k) {
  Operands memory(b);
  const bool weight_gradient = lay == Lay::tn;
  const auto many = [&](bool weight, DType type, const Shape& s) {
    return weight ? several(memory, type, s) : std::vector<View>{memory.take(type, s)};
  };
  const auto c = many(weight_gradient, weight_gradient ? wide(t) : t, {m, n});
  const View a = memory.take(t, weight_gradient ? Shape{k, m} : Shape{m, k});
  const auto weights = many(!weight_gradient, t, lay == Lay::nt ? Shape{n, k} : Shape{k, n});
  const auto seconds = watch.seconds(Queue::compute, [&](int i) {
    const auto at = [i](const auto& all) { return all[static_cast<std::size_t>(i) % all.size()]; };
    const View w = at(weights);
    b.put(Queue::compute, kernel::Matmul{.c_MN = at(c),
                                         .a_MK = weight_gradient ? a.transposed() : a,
                                         .b_KN = lay == Lay::nt ? w.transposed() : w});
  });
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds;
}

ProductRates rates_of(Backend& b, const Stopwatch& watch, DType t, Lay lay) {
  ProductRates r{.dtype = t, .lay = lay, .m = sizes, .n = sizes, .k = sizes, .flops = {}};
  const auto count = sizes.size();
  const auto at = [&](std::size_t i, std::size_t j, std::size_t l) {
    return r.flops[(i * count + j) * count + l];
  };
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j)
      for (std::size_t l = 0; l < count; ++l) {
        // Of the largest, a third as many rows, columns or terms say as much.
        if (2 * sizes[i] * sizes[j] * sizes[l] > most_flops) {
          r.flops.push_back(i > 0 && i + 1 == count ? at(i - 1, j, l)
                            : j + 1 == count        ? at(i, j - 1, l)
                                                    : at(i, j, l - 1));
          continue;
        }
        const auto size = [](double x) { return static_cast<std::int64_t>(x); };
        r.flops.push_back(rate(b, watch, t, lay, size(sizes[i]), size(sizes[j]), size(sizes[l])));
      }
  return r;
}

}  // namespace

std::vector<ProductRates> product_rates(Backend& b, const Stopwatch& watch, DType t) {
  std::vector<ProductRates> all;
  for (const auto lay : {Lay::nt, Lay::nn, Lay::tn}) all.push_back(rates_of(b, watch, t, lay));
  return all;
}

}  // namespace trireme
