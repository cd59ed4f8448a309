#pragma once
// Sizes of routers' operations, and operands for them.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/support/contract.hpp"

namespace trireme::test::routing {

inline constexpr auto queue = Queue::compute;

struct Sizes {
  std::int64_t tokens, experts, choices;
};
inline constexpr Sizes sizes[] = {{1, 1, 1},  {5, 3, 2},   {6, 8, 8},  {33, 8, 2},
                                  {7, 33, 4}, {18, 64, 6}, {9, 200, 8}};
inline constexpr RouterScores both_scores[] = {RouterScores::softmax, RouterScores::sigmoid};

inline std::string describe(const Sizes& s, RouterScores scores, bool normalize) {
  return fmt::format("{} tokens, {} of {} experts, {}{}", s.tokens, s.choices, s.experts,
                     scores == RouterScores::softmax ? "softmax" : "sigmoid",
                     normalize ? ", normalised" : "");
}

// The first k of a walk through all experts that depends on the token: a few experts are common.
inline std::vector<std::int32_t> some_choices(const Sizes& s) {
  std::vector<std::int32_t> all;
  for (std::int64_t t = 0; t < s.tokens; ++t)
    for (std::int64_t k = 0; k < s.choices; ++k)
      all.push_back(static_cast<std::int32_t>((t % 3 * (t % 5) + k) % s.experts));
  return all;
}

inline View some_choices(Lab& lab, const Sizes& s) {
  return lab.ids(some_choices(s)).reshaped({s.tokens, s.choices});
}
inline View fresh_ids(Lab& lab, const Shape& s) {
  return lab.ids(std::vector<std::int32_t>(static_cast<std::size_t>(s.count()), -7)).reshaped(s);
}
inline View some_counts(Lab& lab, std::int64_t samples, std::int64_t experts) {
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < samples * experts; ++i) counts.push_back(1 + 7 * i % 31);
  return lab.numbers(counts).reshaped({samples, experts});
}
inline constexpr double largest_share = 3;  // a count by the mean of its row, at most

// Every fourth token is padding; others are counted with others, some in one row.
inline bool is_padding(std::int64_t t) {
  return t % 4 == 2;
}
inline View some_counted(Lab& lab, std::int64_t tokens) {
  std::vector<std::int32_t> counted;
  for (std::int64_t t = 0; t < tokens; ++t)
    counted.push_back(is_padding(t) ? -1 : static_cast<std::int32_t>(t * t % tokens));
  return lab.ids(counted);
}

}  // namespace trireme::test::routing
