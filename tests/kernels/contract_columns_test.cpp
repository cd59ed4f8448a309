#include <fmt/format.h>

#include <cmath>

#include "tests/kernels/error_bounds.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

class ColumnsContract : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Backends, ColumnsContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr auto queue = Queue::compute;
struct Size {
  std::int64_t rows, width;
};
// A device moves 8 elements at once where widths and strides are multiples of 8.
constexpr Size sizes[] = {{1, 1}, {5, 7}, {5, 72}, {33, 129}, {300, 64}, {3, 4104}};

// The relative error of a norm is half that of the sum of squares, and a few roundings.
TEST_P(ColumnsContract, RowNorms) {
  for (const auto& [rows, width] : sizes)
    compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
      const double largest = std::sqrt(static_cast<double>(width));
      const View norms = lab.wide_fresh({rows});
      lab.backend.put(queue,
                      kernel::RowNorms{.norm_N = norms, .x_NC = lab.random({rows, width}, 1)});
      lab.result("norms", norms,
                 largest * (sum_error(lab.tested, width, 1) / 2 + 2 * roundoff(wide(lab.tested))));
    });
}

// The divisor of the last column is 0.
TEST_P(ColumnsContract, ScaleColumns) {
  for (const bool wider : {false, true})
    for (const auto& [rows, width] : sizes)
      compare(fmt::format("rows {} width {}{}", rows, width, wider ? " of wider ones" : ""),
              [=](Lab& lab) {
                std::vector<double> below(static_cast<std::size_t>(width), 0.0);
                for (std::size_t n = 0; n + 1 < below.size(); ++n)
                  below[n] = 1 + static_cast<double>(n % 7);
                const View x = wider ? lab.random({rows, width + 16}, 1).slice(1, 8, width)
                                     : lab.random({rows, width}, 1);
                const View y = wider ? lab.fresh({rows, width + 16}).slice(1, 8, width)
                                     : lab.fresh({rows, width});
                const View factor = lab.wide_random({width}, 2, 3), bias = lab.random({width}, 3);
                lab.backend.put(queue,
                                kernel::ScaleColumns{.y_TN = y,
                                                     .x_TN = x,
                                                     .factor_N = factor,
                                                     .divisor_N = lab.wide_values({width}, below),
                                                     .bias_N = bias});
                // |x factor / divisor + bias| <= 4, with a rounding each.
                lab.result("y", lab.dense(y), 4 * 4 * roundoff(wide(lab.tested)));
              });
}

TEST_P(ColumnsContract, ScaleColumnsInPlace) {
  for (const auto& [rows, width] : sizes)
    compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
      const View x = lab.random({rows, width}, 1);
      lab.backend.put(queue,
                      kernel::ScaleColumns{.y_TN = x, .x_TN = x, .bias_N = lab.random({width}, 3)});
      lab.result("x", x, 2 * roundoff(wide(lab.tested)));
    });
}

}  // namespace
}  // namespace trireme
