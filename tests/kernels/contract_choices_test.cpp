// What is made of the choices of routers: counts, rows in the order of experts, their sums.
#include "tests/kernels/error_bounds.hpp"
#include "tests/kernels/routing.hpp"

namespace trireme {
namespace {

using namespace test::routing;

class ChoicesContract : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Backends, ChoicesContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

TEST_P(ChoicesContract, CountsOfChoices) {
  for (const auto& s : sizes)
    for (const auto how : {Accumulate::overwrite, Accumulate::add})
      for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{3}, s.tokens})
        for (const bool padding : {false, true})
          if (s.tokens % rows == 0)
            compare(describe(s, RouterScores::softmax, false), [=](Lab& lab) {
              const View count = some_counts(lab, rows, s.experts);
              lab.backend.put(
                  queue,
                  kernel::CountChoices{
                      .count_BE = count,
                      .how = how,
                      .choice_TK = some_choices(lab, s),
                      .counted_T = padding ? ConstView(some_counted(lab, s.tokens)) : ConstView{}});
              lab.result("count", count, 0);
            });
}

void sort(Lab& lab, std::int64_t experts, const View& choice_TK) {
  const auto rows = choice_TK.count();
  const View offset = fresh_ids(lab, {experts + 1}), token = fresh_ids(lab, {rows}),
             row = fresh_ids(lab, {rows}),
             place = fresh_ids(lab, {choice_TK.extent[0], choice_TK.extent[1]});
  lab.backend.put(queue, kernel::SortChoices{.offset_E1 = offset,
                                             .token_R = token,
                                             .choice_R = row,
                                             .row_TK = place,
                                             .choice_TK = choice_TK});
  lab.result("offset", offset, 0);
  lab.result("token", token, 0);
  lab.result("row", row, 0);
  lab.result("place", place, 0);
}

TEST_P(ChoicesContract, ChoicesInTheOrderOfExperts) {
  for (const auto& s : sizes)
    compare(describe(s, RouterScores::softmax, false),
            [=](Lab& lab) { sort(lab, s.experts, some_choices(lab, s)); });
}

TEST_P(ChoicesContract, ChoicesOfManyTokens) {
  const Sizes s{on_device() ? 5000 : 700, 64, 2};
  compare("many tokens", [=](Lab& lab) { sort(lab, s.experts, some_choices(lab, s)); });
}

// All rows are one expert's: the first, one in the middle, the last.
TEST_P(ChoicesContract, ChoicesOfOneExpertAlone) {
  for (const std::int32_t only : {0, 3, 6})
    compare(fmt::format("expert {}", only), [=](Lab& lab) {
      sort(lab, 7, lab.ids(std::vector<std::int32_t>(33, only)).reshaped({33, 1}));
    });
}

TEST_P(ChoicesContract, ChoicesOfNoTokens) {
  compare("no tokens", [=](Lab& lab) {
    const View none = lab.ids({}).reshaped({0, 2}), count = some_counts(lab, 1, 5);
    sort(lab, 5, none);
    lab.backend.put(queue, kernel::CountChoices{.count_BE = count, .choice_TK = none});
    lab.result("count", count, 0);
  });
}

TEST_P(ChoicesContract, SumsOfRows) {
  for (const auto& s : sizes)
    for (const std::int64_t width : {1, 7, 65, 129, 768})
      for (const bool skips : {false, true})
        compare(fmt::format("{} tokens, {} rows each of {}", s.tokens, s.choices, width),
                [=](Lab& lab) {
                  const auto rows = s.tokens * s.choices;
                  std::vector<std::int32_t> place;
                  for (std::int64_t i = 0; i < rows; ++i)
                    place.push_back(static_cast<std::int32_t>(rows - 1 - i));
                  const View y =
                      skips ? lab.random({s.tokens, width}, 2) : lab.fresh({s.tokens, width});
                  lab.backend.put(
                      queue,
                      kernel::SumRows{.y_TC = y,
                                      .x_RC = lab.random({rows, width}, 1),
                                      .row_TK = lab.ids(place).reshaped({s.tokens, s.choices}),
                                      .skip_TC = skips ? ConstView(y) : ConstView{}});
                  const auto terms = s.choices + 1;
                  lab.result("y", y, sum_error(lab.tested, terms, static_cast<double>(terms)));
                });
}

}  // namespace
}  // namespace trireme
