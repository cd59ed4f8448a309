// What experts compute: products with a matrix each, and SwiGLU of rows with a weight.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tests/support/contract.hpp"

namespace trireme {
namespace {

class ExpertsContract : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Backends, ExpertsContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr auto queue = Queue::compute;

// Rows of each expert: none at the ends and between, one, all of them.
const std::vector<std::vector<std::int32_t>> groups{
    {0}, {5}, {0, 7, 0, 0, 1, 33, 0}, {1, 2, 3, 4, 5}, {64, 0, 65}, {0, 0, 100}};

std::int64_t sum_of(const std::vector<std::int32_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}
std::string describe(const std::vector<std::int32_t>& rows, std::int64_t width,
                     std::int64_t other) {
  return fmt::format("{} by {}, rows {}", width, other, fmt::join(rows, " "));
}

View offsets(Lab& lab, const std::vector<std::int32_t>& rows) {
  std::vector<std::int32_t> offset{0};
  for (const auto n : rows) offset.push_back(offset.back() + n);
  return lab.ids(offset);
}

struct Widths {
  std::int64_t in, out;
};
constexpr Widths widths[] = {{1, 1}, {7, 33}, {64, 48}, {65, 8}, {200, 129}};

// Weights are [out, in]: forward transposed, backward as they are.
TEST_P(ExpertsContract, Products) {
  for (const auto& rows : groups)
    for (const auto& [K, N] : widths)
      for (const bool turned : {false, true})
        compare(describe(rows, K, N), [=, K = K, N = N](Lab& lab) {
          const auto R = sum_of(rows);
          const View c = lab.fresh({R, N});
          kernel::GroupedMatmul o{.c_RN = c,
                                  .a_RK = lab.random({R, K}, 1),
                                  .offset_E1 = offsets(lab, rows),
                                  .b_KN = {}};
          for (std::size_t e = 0; e < rows.size(); ++e)
            o.b_KN.push_back(turned ? lab.random({N, K}, 2 + e).transposed()
                                    : lab.random({K, N}, 2 + e));
          lab.backend.put(queue, o);
          lab.result("c", c, sum_error(lab.tested, K, static_cast<double>(K)));
        });
}

// Every third matrix is not wanted. One without rows is zero, or as it was.
TEST_P(ExpertsContract, WeightGradients) {
  for (const auto& rows : groups)
    for (const auto& [N, M] : widths)
      for (const auto how : {Accumulate::overwrite, Accumulate::add})
        for (const std::size_t unwanted : {1, 9})
          compare(describe(rows, N, M), [=, N = N, M = M](Lab& lab) {
            const auto R = sum_of(rows);
            kernel::GroupedMatmulGrad o{.c_MN = {},
                                        .how = how,
                                        .a_RM = lab.random({R, M}, 1),
                                        .b_RN = lab.random({R, N}, 2),
                                        .offset_E1 = offsets(lab, rows)};
            for (std::size_t e = 0; e < rows.size(); ++e)
              o.c_MN.push_back(e % 3 == unwanted              ? View{}
                               : how == Accumulate::overwrite ? lab.wide_fresh({M, N})
                                                              : lab.wide_random({M, N}, 3 + e));
            lab.backend.put(queue, o);
            const View none = lab.random({1}, 9);
            lab.result("nothing", none, 0);  // of a single expert that is not wanted
            for (std::size_t e = 0; e < rows.size(); ++e)
              if (o.c_MN[e])
                lab.result(fmt::format("c of {}", e), o.c_MN[e],
                           sum_error(lab.tested, rows[e] + 1, static_cast<double>(rows[e] + 1)));
          });
}

// Within so many roundings of numbers up to `size`.
double rounded(const Lab& lab, double roundings, double size) {
  return roundings * roundoff(wide(lab.tested)) * size;
}

TEST_P(ExpertsContract, WeightedSwiglu) {
  for (const std::int64_t rows : {1, 5, 33})
    for (const std::int64_t width : {1, 7, 65, 128, 768})
      compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
        const View y = lab.fresh({rows, width});
        lab.backend.put(queue, kernel::Swiglu{.y_TF = y,
                                              .gate_up_T2F = lab.random({rows, 2, width}, 1, 4),
                                              .weight_T = lab.wide_random({rows}, 2)});
        lab.result("y", y, rounded(lab, 9, 4 * 4));
      });
}

// dweight adds terms up to 16 with errors of their own.
TEST_P(ExpertsContract, WeightedSwigluGradient) {
  for (const std::int64_t rows : {1, 5, 33})
    for (const std::int64_t width : {1, 7, 65, 128, 768})
      for (const bool wanted : {false, true})
        compare(fmt::format("rows {} width {}", rows, width), [=](Lab& lab) {
          const View dx = lab.fresh({rows, 2, width});
          const View dweight = wanted ? lab.wide_fresh({rows}) : View{};
          lab.backend.put(queue,
                          kernel::SwigluGrad{.dgate_up_T2F = dx,
                                             .dweight_T = dweight,
                                             .dy_TF = lab.random({rows, width}, 3),
                                             .gate_up_T2F = lab.random({rows, 2, width}, 1, 4),
                                             .weight_T = lab.wide_random({rows}, 2)});
          lab.result("dgate_up", dx, rounded(lab, 16, 4 * 4));
          const double terms = 4.0 * 4.0 * static_cast<double>(width);
          if (wanted)
            lab.result("dweight", dweight,
                       sum_error(lab.tested, width, terms) + rounded(lab, 8, terms));
        });
}

}  // namespace
}  // namespace trireme
