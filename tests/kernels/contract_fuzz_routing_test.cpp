// Rows of experts, their products and sums on what is drawn at random.
#include <numeric>

#include "tests/kernels/fuzz.hpp"

namespace trireme::fuzzing {
namespace {

class RoutingFuzzContract : public FuzzContract {};
INSTANTIATE_TEST_SUITE_P(Backends, RoutingFuzzContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

using Ids = std::vector<std::int32_t>;

// Sorts of choices of tokens: some experts are common, some have none.
struct Choices {
  std::int64_t samples, tokens, experts, of_token;
  Ids ids, counted;  // the second may be empty

  explicit Choices(Draw& d)
      : samples(d.between(1, 3)),
        tokens(samples * (d.once_in(15) ? 0 : d.between(1, 100))),
        experts(d.one_of<std::int64_t>({1, 2, 8, d.between(1, 300)})),
        of_token(std::min(experts, d.between(1, 9))) {
    const auto known = d.between(of_token, experts);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto first = d.once_in(3) ? 0 : d.between(0, known - 1);
      for (std::int64_t k = 0; k < of_token; ++k)
        ids.push_back(static_cast<std::int32_t>((first + k) % known));
    }
    if (d.once_in(2))
      for (std::int64_t t = 0; t < tokens; ++t)
        counted.push_back(static_cast<std::int32_t>(d.between(-1, tokens - 1)));
  }
};

Ids untouched(std::int64_t n) {
  return Ids(static_cast<std::size_t>(n), -77);
}

TEST_P(RoutingFuzzContract, Choices) {
  fuzz([&](Draw& d) {
    const Choices c(d);
    const auto rows = c.tokens * c.of_token;
    compare(fmt::format("{} tokens, {} of {}", c.tokens, c.of_token, c.experts), [=](Lab& lab) {
      const View choice = lab.ids(c.ids).reshaped({c.tokens, c.of_token});
      const View offset = lab.ids(untouched(c.experts + 3)), token = lab.ids(untouched(rows + 2)),
                 row = lab.ids(untouched(rows + 2)), place = lab.ids(untouched(rows + 2));
      const auto inner = [](const View& v) { return v.slice(0, 1, v.extent[0] - 2); };
      lab.backend.put(queue,
                      kernel::SortChoices{.offset_E1 = inner(offset),
                                          .token_R = inner(token),
                                          .choice_R = inner(row),
                                          .row_TK = inner(place).reshaped({c.tokens, c.of_token}),
                                          .choice_TK = choice});
      const View count =
          lab.numbers(std::vector<std::int64_t>(static_cast<std::size_t>(c.samples * c.experts), 5))
              .reshaped({c.samples, c.experts});
      lab.backend.put(queue, kernel::CountChoices{
                                 .count_BE = count,
                                 .how = Accumulate::add,
                                 .choice_TK = choice,
                                 .counted_T = c.counted.empty() ? View{} : lab.ids(c.counted)});
      lab.result("offset", offset, 0);
      lab.result("token", token, 0);
      lab.result("row", row, 0);
      lab.result("place", place, 0);
      lab.result("count", count, 0);
    });
  });
}

TEST_P(RoutingFuzzContract, SumRows) {
  fuzz([&](Draw& d) {
    const auto width = d.once_in(4) ? 8 * d.between(1, 40) : d.between(1, 140);
    const auto tokens = d.once_in(15) ? 0 : d.between(1, 40);
    const auto each = d.between(1, 9), rows = d.between(1, 60);
    Ids place;
    for (std::int64_t i = 0; i < tokens * each; ++i)
      place.push_back(static_cast<std::int32_t>(d.between(0, rows - 1)));
    const auto odd = some_odd(d);
    const auto of_x = numbers(d, rows * width, odd);
    const bool skips = d.once_in(2);
    const auto of_y = skips ? numbers(d, tokens * width, odd) : unwritten(tokens * width);
    const auto at_x = some_margins(d), at_y = some_margins(d);
    compare(fmt::format("{} tokens, {} rows each, {} wide", tokens, each, width), [=](Lab& lab) {
      const Placed x(lab, &Lab::values, {rows, width}, of_x, at_x);
      const Placed y(lab, &Lab::values, {tokens, width}, of_y, at_y);
      lab.backend.put(queue, kernel::SumRows{.y_TC = y.here,
                                             .x_RC = x.here,
                                             .row_TK = lab.ids(place).reshaped({tokens, each}),
                                             .skip_TC = skips ? ConstView(y.here) : ConstView{}});
      y.result(lab, "y", sum_error(lab.tested, each + 1, static_cast<double>(each + 1)));
    });
  });
}

// A group of rows for each expert, often none.
std::vector<std::int64_t> some_groups(Draw& d) {
  std::vector<std::int64_t> rows;
  for (auto left = d.between(1, 9); left > 0; --left)
    rows.push_back(d.once_in(3) ? 0 : d.once_in(3) ? d.between(1, 70) : d.between(1, 5));
  return rows;
}
Ids offsets_of(const std::vector<std::int64_t>& rows) {
  Ids offset{0};
  for (const auto n : rows) offset.push_back(offset.back() + static_cast<std::int32_t>(n));
  return offset;
}

TEST_P(RoutingFuzzContract, Products) {
  fuzz([&](Draw& d) {
    const auto rows = some_groups(d);
    const auto R = std::reduce(rows.begin(), rows.end());
    const auto K = d.once_in(3) ? 8 * d.between(1, 9) : d.between(1, 70), N = d.between(1, 70);
    const auto of_a = numbers(d, R * K), of_b = numbers(d, R * N);
    std::vector<Numbers> of_w;
    for (std::size_t e = 0; e < rows.size(); ++e) of_w.push_back(numbers(d, K * N));
    const auto how = d.one_of({Accumulate::overwrite, Accumulate::add});
    const auto at_a = some_margins(d), at_b = some_margins(d), at_w = some_margins(d);
    const auto wanted = d.bits();
    compare(fmt::format("rows {} of {}, to {}", fmt::join(rows, " "), K, N), [=](Lab& lab) {
      const Placed a(lab, &Lab::values, {R, K}, of_a, at_a);
      const Placed b(lab, &Lab::values, {R, N}, of_b, at_b);
      const Placed c(lab, &Lab::values, {R, N}, unwritten(R * N), at_a);
      const View offset = lab.ids(offsets_of(rows));
      kernel::GroupedMatmul product{
          .c_RN = c.here, .a_RK = a.here, .offset_E1 = offset, .b_KN = {}};
      kernel::GroupedMatmulGrad gradient{
          .c_MN = {}, .how = how, .a_RM = a.here, .b_RN = b.here, .offset_E1 = offset};
      std::vector<Placed> dw;
      for (std::size_t e = 0; e < rows.size(); ++e) {
        product.b_KN.push_back(Placed(lab, &Lab::values, {K, N}, of_w[e], at_w).here);
        dw.emplace_back(lab, &Lab::wide_values, Shape{K, N},
                        how == Accumulate::add ? of_w[e] : unwritten(K * N), at_w);
        gradient.c_MN.push_back(wanted >> e & 1U ? dw.back().here : View{});
      }
      lab.backend.put(queue, product);
      lab.backend.put(queue, gradient);
      c.result(lab, "c", sum_error(lab.tested, K, static_cast<double>(K)));
      for (std::size_t e = 0; e < rows.size(); ++e)
        dw[e].result(lab, fmt::format("dw of {}", e),
                     sum_error(lab.tested, rows[e] + 1, static_cast<double>(rows[e] + 1)));
    });
  });
}

}  // namespace
}  // namespace trireme::fuzzing
