#include "lib/data/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "lib/base/error.hpp"
#include "lib/base/rng.hpp"

namespace trireme {
namespace {

// One phase with all files, which have the numbers 0, 1, ...
WindowSequence one_phase(const std::vector<std::int64_t>& windows,
                         const std::vector<double>& shares, SampleOrder order, std::uint64_t seed) {
  std::vector<WindowSequence::File> files;
  DataPhase phase{0, {}, shares};
  for (const auto n : windows) {
    phase.files.push_back(static_cast<std::int32_t>(files.size()));
    files.push_back({phase.files.back(), n});
  }
  return {files, {phase}, order, seed};
}

TEST(Permutation, ReachesEveryElementOnce) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100, 1000, 1025, 65537}) {
    for (const std::uint64_t key : {1, 2}) {
      const Permutation permutation(size, key);
      std::vector<bool> hit(static_cast<std::size_t>(size));
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t p = permutation(i);
        ASSERT_GE(p, 0);
        ASSERT_LT(p, size);
        ASSERT_FALSE(hit[static_cast<std::size_t>(p)]) << size << " " << i;
        hit[static_cast<std::size_t>(p)] = true;
      }
    }
  }
}

// Over many keys, where element 0 goes is uniform: chi-square with 9 degrees of freedom, whose
// mean is 9 and deviation sqrt(18); the bound is 6 deviations away.
TEST(Permutation, SpreadsOverManyKeys) {
  constexpr int size = 10, keys = 20000;
  for (const std::int64_t element : {0, 5, 9}) {
    std::vector<int> count(size);
    for (std::uint64_t key = 0; key < keys; ++key) {
      ++count[static_cast<std::size_t>(Permutation(size, key)(element))];
    }
    double chi_square = 0;
    for (const int n : count) chi_square += std::pow(n - keys / size, 2) / (keys / size);
    EXPECT_LT(chi_square, 9 + 6 * std::sqrt(18.0));
  }
}

// Each of the size! orders of few elements comes as often as any other. Chi-square of n kinds has
// a mean of n - 1 and a variance of 2 (n - 1); the bound is 6 deviations away.
TEST(Permutation, GivesEveryOrderOfFewElementsAlike) {
  std::int64_t orders = 1;
  for (std::int64_t size = 2; size <= Permutation::few; ++size) {
    orders *= size;
    const std::int64_t each = size <= 5 ? 100 : 5;
    std::vector<std::int64_t> found;  // an order's places as digits
    for (std::uint64_t key = 0; key < static_cast<std::uint64_t>(each * orders); ++key) {
      const Permutation permutation(size, mix64(key));
      std::int64_t digits = 0;
      for (std::int64_t i = 0; i < size; ++i) digits = 10 * digits + permutation(i);
      found.push_back(digits);
    }
    std::ranges::sort(found);
    const auto e = static_cast<double>(each), others = static_cast<double>(orders - 1);
    double chi_square = 0;
    std::int64_t missing = orders;
    for (auto at = found.begin(); at != found.end(); --missing) {
      const auto next = std::upper_bound(at, found.end(), *at);
      chi_square += std::pow(static_cast<double>(next - at) - e, 2) / e;
      at = next;
    }
    chi_square += static_cast<double>(missing) * e;
    EXPECT_LT(chi_square, others + 6 * std::sqrt(2 * others)) << size << " elements";
  }
}

// An order that has been trained with stays: a restart in an epoch counts on it.
TEST(Permutation, OfManyElementsStays) {
  const auto first = [](std::int64_t size) {
    std::vector<std::int64_t> all;
    const Permutation permutation(size, 42);
    for (std::int64_t i = 0; i < 9; ++i) all.push_back(permutation(i));
    return all;
  };
  EXPECT_EQ(first(9), (std::vector<std::int64_t>{4, 2, 3, 7, 8, 5, 0, 1, 6}));
  EXPECT_EQ(first(1000), (std::vector<std::int64_t>{827, 513, 620, 964, 189, 539, 910, 90, 447}));
}

TEST(Permutation, RefusesAnElementOutside) {
  for (const std::int64_t size : {5, 1000}) {
    EXPECT_THROW(Permutation(size, 1)(size), Error);
    EXPECT_THROW(Permutation(size, 1)(-1), Error);
  }
  EXPECT_THROW(one_phase({1000}, {}, SampleOrder::random, 0)(-1), Error);
}

// Neighbours do not stay neighbours: an increasing pair is as likely as a decreasing one.
TEST(Permutation, KeepsNoOrder) {
  constexpr std::int64_t size = 100000;
  const Permutation permutation(size, 3);
  std::int64_t increasing = 0, near = 0;
  for (std::int64_t i = 0; i + 1 < size; ++i) {
    increasing += permutation(i + 1) > permutation(i);
    near += std::abs(permutation(i + 1) - permutation(i)) <= 100;
  }
  EXPECT_NEAR(static_cast<double>(increasing), size / 2.0, 6 * std::sqrt(size / 12.0));
  // About 200 of 100,000 places are that near: 200 pairs, Poisson.
  EXPECT_NEAR(static_cast<double>(near), 200, 6 * std::sqrt(200.0));
}

TEST(Permutation, HoldsATrillionWithoutMemory) {
  constexpr std::int64_t size = 1'000'000'000'000;
  static_assert(sizeof(Permutation) <= 64);
  const Permutation permutation(size, 4);
  std::set<std::int64_t> seen;
  double sum = 0;
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) {
    const std::int64_t p = permutation(size - 1 - i * 9'999'991LL);
    ASSERT_TRUE(p >= 0 && p < size);
    seen.insert(p);
    sum += static_cast<double>(p) / size;
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(n));
  EXPECT_NEAR(sum / n, 0.5, 6 / std::sqrt(12.0 * n));  // mean of n uniform numbers
}

TEST(Interleave, KeepsSharesAtEverySample) {
  for (const std::vector<double>& shares :
       {std::vector<double>{1}, {1, 1}, {0.7, 0.3}, {5, 1, 1}, {1, 2, 3, 4, 5}, {1e-6, 1, 1e-3}}) {
    const Interleave interleave(shares);
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    const double bound = std::ceil(std::log2(static_cast<double>(shares.size()))) + 1;
    std::vector<std::int64_t> count(shares.size());
    for (std::int64_t i = 0; i < 20000; ++i) {
      const auto turn = interleave(i);
      const auto f = static_cast<std::size_t>(turn.file);
      ASSERT_EQ(turn.index, count[f]) << "samples of a file are numbered without gaps";
      ++count[f];
      for (std::size_t g = 0; g < shares.size(); ++g) {
        ASSERT_NEAR(static_cast<double>(count[g]), static_cast<double>(i + 1) * shares[g] / sum,
                    bound);
      }
    }
  }
}

TEST(Interleave, WorksFarOut) {
  const Interleave interleave({0.7, 0.2, 0.1});
  constexpr std::int64_t far = std::int64_t{1} << 60;
  std::vector<std::int64_t> last(3, -1);
  for (std::int64_t i = far; i < far + 1000; ++i) {
    const auto turn = interleave(i);
    auto& before = last[static_cast<std::size_t>(turn.file)];
    if (before >= 0) {
      ASSERT_EQ(turn.index, before + 1);
    }
    before = turn.index;
  }
  EXPECT_NEAR(static_cast<double>(last[0]) / static_cast<double>(far), 0.7, 1e-9);
}

TEST(Interleave, RefusesSharesThatAreNone) {
  EXPECT_THROW(Interleave({1, 0}), Error);
  EXPECT_THROW(Interleave({1, -1}), Error);
  EXPECT_THROW(Interleave({1, NAN}), Error);
}

TEST(Interleave, CountsWhatItTakes) {
  const Interleave interleave({0.5, 3, 1, 1e-3, 2});
  std::vector<std::int64_t> taken(5);
  for (std::int64_t i = 0; i < 3000; ++i) {
    for (std::int32_t f = 0; f < 5; ++f)
      ASSERT_EQ(interleave.taken(i, f), taken[static_cast<std::size_t>(f)]) << i << " " << f;
    ++taken[static_cast<std::size_t>(interleave(i).file)];
  }
}

// Windows of each file in the order of their samples, by number.
static std::map<std::int32_t, std::vector<Window>> windows_by_file(const WindowSequence& sequence,
                                                                   std::int64_t samples) {
  std::map<std::int32_t, std::vector<Window>> found;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto window = sequence(i);
    found[window.file].push_back(window);
  }
  return found;
}

// A file is read in the same order whatever the phases: only how many of its windows a phase takes
// differs.
TEST(WindowSequence, PhasesContinueEachFile) {
  const std::vector<WindowSequence::File> files = {{0, 40}, {1, 11}, {2, 25}};
  const std::vector<DataPhase> phases = {
      {0, {0, 1}, {3, 1}}, {37, {1, 2}, {1, 1}}, {37, {2, 0}, {1, 4}}, {90, {0, 1, 2}, {1, 1, 5}}};
  const WindowSequence sequence(files, phases, SampleOrder::random, 7);
  const auto found = windows_by_file(sequence, 400);
  for (const auto& [file, windows] : found) {
    // Alone, each file keeps its number, which chooses its order.
    const std::vector<WindowSequence::File> one = {
        {file, files[static_cast<std::size_t>(file)].windows}};
    const WindowSequence alone(one, {{0, {file}, {1}}}, SampleOrder::random, 7);
    for (std::size_t i = 0; i < windows.size(); ++i) {
      auto expected = alone(static_cast<std::int64_t>(i));
      expected.file = file;
      ASSERT_EQ(windows[i], expected) << file << " " << i;
    }
  }
  std::int64_t of_file_1 = 0;
  for (std::int64_t i = 0; i < 37; ++i) of_file_1 += sequence(i).file == 1;
  EXPECT_NEAR(static_cast<double>(of_file_1), 37 / 4.0, 1);
  for (std::int64_t i = 37; i < 90; ++i) EXPECT_NE(sequence(i).file, 1) << i;
  EXPECT_EQ(sequence.windows_of(phases[0]), 40 + 11);
  EXPECT_EQ(sequence.windows_of(phases[1]), 11 + 25);
  EXPECT_EQ(sequence.phase_of(36), phases[0]);
  EXPECT_EQ(sequence.phase_of(37), phases[2]);
}

TEST(WindowSequence, APhaseMayNameAFileThatIsGone) {
  const std::vector<WindowSequence::File> files = {{1, 10}};
  const WindowSequence sequence(files, {{0, {0, 1}, {1, 1}}, {20, {1}, {1}}},
                                SampleOrder::sequential, 0);
  EXPECT_EQ(sequence(20), (Window{1, 0, 0}));  // ten of the twenty samples were of this file
  int gone = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    try {
      static_cast<void>(sequence(i));
    } catch (const Error&) {
      ++gone;
    }
  }
  EXPECT_EQ(gone, 10);
}

TEST(WindowSequence, SequentialGoesFileByFile) {
  const auto sequence = one_phase({3, 2}, {}, SampleOrder::sequential, 0);
  EXPECT_EQ(sequence.samples_per_epoch(), 5);
  const std::vector<Window> expected = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {0, 1, 0},
                                        {0, 1, 1}, {1, 0, 0}, {1, 0, 1}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(sequence(static_cast<std::int64_t>(i)), expected[i]) << i;
  }
}

TEST(WindowSequence, RandomTakesEachWindowOnceAnEpochInAnotherOrder) {
  const auto sequence = one_phase({30, 50, 1}, {}, SampleOrder::random, 7);
  std::vector<std::vector<std::tuple<int, std::int64_t>>> epochs(3);
  for (std::int64_t i = 0; i < 3 * 81; ++i) {
    const Window w = sequence(i);
    ASSERT_EQ(w.epoch, i / 81);
    epochs[static_cast<std::size_t>(w.epoch)].emplace_back(w.file, w.index);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(std::unique(epoch.begin(), epoch.end()), epoch.end());
    EXPECT_EQ(epoch.front(), std::make_tuple(0, std::int64_t{0}));
    EXPECT_EQ(epoch.back(), std::make_tuple(2, std::int64_t{0}));
    EXPECT_EQ(epoch.size(), 81U);
  }
}

TEST(WindowSequence, WithSharesEachFileHasEpochsOfItsOwn) {
  const auto sequence = one_phase({40, 10}, {0.5, 0.5}, SampleOrder::random, 7);
  std::vector<std::set<std::tuple<std::int64_t, std::int64_t>>> seen(2);
  for (std::int64_t i = 0; i < 80; ++i) {
    const Window w = sequence(i);
    EXPECT_TRUE(seen[static_cast<std::size_t>(w.file)].emplace(w.epoch, w.index).second);
  }
  EXPECT_EQ(seen[0].size(), 40U);
  EXPECT_EQ(std::get<0>(*seen[0].rbegin()), 0);
  EXPECT_EQ(seen[1].size(), 40U);  // four times all ten
  EXPECT_EQ(*seen[1].rbegin(), std::make_tuple(std::int64_t{3}, std::int64_t{9}));
}

TEST(WindowSequence, FilesOfOneSizeHaveOrdersOfTheirOwn) {
  const auto sequence = one_phase({50, 50}, {0.5, 0.5}, SampleOrder::random, 7);
  std::vector<std::vector<std::int64_t>> order(2);
  for (std::int64_t i = 0; i < 100; ++i) {
    const Window w = sequence(i);
    order[static_cast<std::size_t>(w.file)].push_back(w.index);
  }
  ASSERT_EQ(order[0].size(), order[1].size());
  int equal = 0;
  for (std::size_t i = 0; i < 50; ++i) equal += order[0][i] == order[1][i];
  EXPECT_LT(equal, 10);  // one by chance
}

TEST(WindowSequence, SaysWhereFewAreShuffled) {
  const auto few = [](const std::vector<std::int64_t>& windows, const std::vector<double>& shares,
                      SampleOrder order) {
    return one_phase(windows, shares, order, 7).shuffles_few();
  };
  EXPECT_TRUE(few({5, 3}, {}, SampleOrder::random));
  EXPECT_FALSE(few({5, 4}, {}, SampleOrder::random));
  EXPECT_TRUE(few({900, 8}, {1, 1}, SampleOrder::random));
  EXPECT_FALSE(few({900, 9}, {1, 1}, SampleOrder::random));
  EXPECT_FALSE(few({5, 3}, {}, SampleOrder::sequential));
}

TEST(WindowSequence, DependsOnTheSampleAlone) {
  const auto one = one_phase({1000, 77}, {3, 1}, SampleOrder::random, 7);
  const auto other = one_phase({1000, 77}, {3, 1}, SampleOrder::random, 7);
  for (std::int64_t i = 0; i < 500; ++i) (void)one(i);
  for (std::int64_t i = 5000; i-- > 4000;) EXPECT_EQ(one(i), other(i));
  const auto seed = one_phase({1000, 77}, {3, 1}, SampleOrder::random, 8);
  int equal = 0;
  for (std::int64_t i = 0; i < 1000; ++i) equal += seed(i) == one(i);
  EXPECT_LT(equal, 60);  // one in 1000 or 77 by chance: about 4
}

}  // namespace
}  // namespace trireme
