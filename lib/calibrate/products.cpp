// Rates of matrix products at the sizes that transformers have, in the three layouts of a linear
// map. Sizes that are not measured lie between the measured ones.
#include <algorithm>

#include "lib/calibrate/calibrate.hpp"
#include "lib/calibrate/operands.hpp"

namespace trireme {
namespace {

constexpr double longest = 0.02;                         // seconds per call
constexpr double most_elements = std::int64_t{1} << 29;  // per matrix

double rate(Backend& b, const Stopwatch& watch, DType t, MatmulLayout layout, std::int64_t m,
            std::int64_t n, std::int64_t k) {
  const bool weight_gradient = layout == MatmulLayout::tn;
  const auto seconds = seconds_of_calls(b, watch, [&](SampleOperands& memory) {
    const View a = memory.take(t, weight_gradient ? Shape{k, m} : Shape{m, k});
    const View w = memory.take(t, layout == MatmulLayout::nt ? Shape{n, k} : Shape{k, n});
    return kernel::Matmul{.c_MN = memory.take(weight_gradient ? wide(t) : t, {m, n}),
                          .a_MK = weight_gradient ? a.transposed() : a,
                          .b_KN = layout == MatmulLayout::nt ? w.transposed() : w};
  });
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds;
}

// Returns the rate of a product in fp8.
double rate_in_fp8(Backend& b, const Stopwatch& watch, std::int64_t m, std::int64_t n,
                   std::int64_t k) {
  const auto seconds = seconds_of_calls(b, watch, [&](SampleOperands& memory) {
    const auto matrix = [&](std::int64_t rows, fp8::Scales scales) {
      const fp8::Matrix<View> y{memory.take(DType::i32, fp8::code_shape(rows, k)),
                                memory.take(DType::f32, fp8::scale_shape(scales, rows, k)), scales};
      b.put(Queue::compute,
            kernel::RoundToFp8{.y = y, .x_RK = memory.take(DType::bf16, {rows, k})});
      return fp8::Matrix<ConstView>{y.code_RW, y.scale, scales};
    };
    return kernel::Fp8Matmul{.c_MN = memory.take(DType::bf16, {m, n}),
                             .a_MK = matrix(m, fp8::Scales::rows),
                             .b_NK = matrix(n, fp8::Scales::tiles)};
  });
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds;
}

}  // namespace

std::vector<double> rates_by_size(const std::vector<double>& sizes, const ProductRate& rate) {
  std::vector<double> all;
  const auto count = sizes.size();
  const auto at = [&](std::size_t i, std::size_t j, std::size_t l) {
    return all[(i * count + j) * count + l];
  };
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j)
      for (std::size_t l = 0; l < count; ++l) {
        const auto m = sizes[i], n = sizes[j], k = sizes[l];
        if (const auto largest = std::max({i, j, l}); largest > 0) {
          const auto smaller = i == largest   ? at(i - 1, j, l)
                               : j == largest ? at(i, j - 1, l)
                                              : at(i, j, l - 1);
          if (2 * m * n * k > longest * smaller ||
              std::max({m * n, m * k, n * k}) > most_elements) {
            all.push_back(smaller);
            continue;
          }
        }
        const auto size = [](double x) { return static_cast<std::int64_t>(x); };
        all.push_back(rate(size(m), size(n), size(k)));
      }
  return all;
}

std::vector<ProductRates> product_rates(Backend& b, const Stopwatch& watch, DType t) {
  // Typical widths, hidden widths, rows of a micro-batch, and a vocabulary.
  const std::vector<double> sizes = {32, 128, 256, 512, 768, 1536, 3072, 24576};
  std::vector<ProductRates> all;
  for (const auto layout : {MatmulLayout::nt, MatmulLayout::nn, MatmulLayout::tn}) {
    const auto flops = rates_by_size(sizes, [&](std::int64_t m, std::int64_t n, std::int64_t k) {
      return rate(b, watch, t, layout, m, n, k);
    });
    all.push_back(
        {.dtype = t, .layout = layout, .m = sizes, .n = sizes, .k = sizes, .flops = flops});
  }
  // On a CPU, products in fp8 are slower than others, and are not worth the time to measure them.
  if (t == DType::bf16 && !b.host_readable() && b.properties().fp8)
    all.push_back(
        {.dtype = t,
         .layout = MatmulLayout::fp8,
         .m = sizes,
         .n = sizes,
         .k = sizes,
         .flops = rates_by_size(sizes, [&](std::int64_t m, std::int64_t n, std::int64_t k) {
           return rate_in_fp8(b, watch, m, n, k);
         })});
  return all;
}

}  // namespace trireme
