// What the suites over many settings run: do all meet that should?
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "tests/support/covering.hpp"
#include "tests/support/parity_cases.hpp"

namespace trireme::test {

TEST(Covering, EveryPairAndEveryTripleMeet) {
  constexpr std::array<std::size_t, 5> settings{7, 4, 3, 2, 5};
  const auto pairs = covering_choices(settings, 2, 0), triples = covering_choices(settings, 3, 1);
  const auto meets = [](const std::vector<Choice>& all, const auto& wanted) {
    return std::ranges::any_of(all, [&](const Choice& c) {
      return std::ranges::all_of(wanted, [&](const auto& w) { return c[w.first] == w.second; });
    });
  };
  using Wanted = std::vector<std::pair<std::size_t, std::size_t>>;
  for_each_choice(settings, [&](const Choice& c) {
    for (std::size_t f = 0; f < 5; ++f)
      for (std::size_t g = f + 1; g < 5; ++g) {
        EXPECT_TRUE(meets(pairs, Wanted{{f, c[f]}, {g, c[g]}}));
        for (std::size_t h = g + 1; f > 0 && h < 5; ++h)
          EXPECT_TRUE(meets(triples, Wanted{{f, c[f]}, {g, c[g]}, {h, c[h]}}));
      }
  });
  EXPECT_LT(pairs.size(), 60U);  // 35 would be the fewest
}

TEST(ParityCases, ASelectionHasEveryGridAndEverySetting) {
  std::set<std::string> grids, seen;
  for (int n = 1; n <= 8; ++n)
    for (const auto& c : exact_selection(n, "host", DType::f32)) {
      EXPECT_EQ(c.grid.ranks(), n);
      grids.insert(fmt::format("{} {} {}", c.grid.pipe, c.grid.data, c.grid.seq));
      seen.insert(fmt::format("optimizer {} {} {} {}", static_cast<int>(c.optimizer),
                              c.momentum > 0, c.momentum > 0 && c.nesterov, c.each_head));
      seen.insert(fmt::format("freeze {}", c.freeze.empty() ? "" : c.freeze[0].pattern));
      seen.insert(fmt::format("clip {}", c.clip.has_value()));
      seen.insert(fmt::format("documents {}", c.documents));
      seen.insert(fmt::format("weighted {}", c.weighted));
      seen.insert(fmt::format("ema {}", c.ema > 0));
      seen.insert(fmt::format("uneven {}", !c.stage_layers.empty()));
      seen.insert(fmt::format("schedule {}", static_cast<int>(c.schedule)));
    }
  EXPECT_EQ(grids.size(), parity_grids({1, 2, 3, 4, 5, 6, 7, 8}).size());
  EXPECT_EQ(seen.size(), 8U + 3U + 2U + 2U + 2U + 2U + 2U + 4U);
}

}  // namespace trireme::test
