#pragma once
// Choices of tests that try what is drawn at random: the same for the same seed and case.
//   TRIREME_FUZZ_CASES=N  cases of each test (10)
//   TRIREME_FUZZ_SEED=N   another seed than 1; `make test` takes the day's
//   TRIREME_FUZZ_CASE=N   this case alone
//   TRIREME_DRAW=all      all that a suite enumerates, where it would draw some of it
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <vector>

#include "lib/base/rng.hpp"

namespace trireme {

class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t number) : key_(hash64(seed, number)) {}

  std::uint64_t bits() { return hash64(key_, ++drawn_); }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    const auto choices = static_cast<std::uint64_t>(most - least) + 1;
    return least + static_cast<std::int64_t>(bits() % choices);
  }
  double real(double least, double most) {
    return least + (most - least) * static_cast<double>(bits() >> 11) * 0x1p-53;
  }
  bool once_in(std::int64_t n) { return between(1, n) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[between(0, static_cast<std::int64_t>(all.size()) - 1)];
  }

 private:
  std::uint64_t key_, drawn_ = 0;
};

inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

inline std::uint64_t fuzz_seed() {
  return number_from("TRIREME_FUZZ_SEED", 1);
}

// About one in `n` of them, others for another seed; at least one.
template <class T>
std::vector<T> drawn(const std::vector<T>& all, std::uint64_t n) {
  const char* chosen = std::getenv("TRIREME_DRAW");
  if (all.empty() || (chosen && chosen == std::string_view("all"))) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (hash64(fuzz_seed(), i) % n == 0) some.push_back(all[i]);
  if (some.empty()) some.push_back(all[fuzz_seed() % all.size()]);
  return some;
}

// try_case(Draw&) for each case, up to the first that fails, and now and then after_some().
template <class Case, class After>
void fuzz(const Case& try_case, const After& after_some) {
  constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max(), some = 50;
  const auto seed = fuzz_seed();
  const auto alone = number_from("TRIREME_FUZZ_CASE", all);
  const auto cases = number_from("TRIREME_FUZZ_CASES", 10);
  const auto begin = alone == all ? 0 : alone, end = alone == all ? cases : alone + 1;
  for (auto i = begin; i < end; ++i) {
    SCOPED_TRACE(fmt::format("again with TRIREME_FUZZ_SEED={} TRIREME_FUZZ_CASE={}", seed, i));
    Draw draw(seed, i);
    try_case(draw);
    if (i % some == some - 1) after_some();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace trireme
