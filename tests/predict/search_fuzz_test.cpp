// What is true of any search, tried on drawn ones.
#include <gtest/gtest.h>

#include "lib/predict/search.hpp"
#include "lib/predict/search_bounds.hpp"
#include "tests/predict/drawn_search.hpp"

namespace trireme {

constexpr auto nothing = [] {};

// Rules for some of the parameters, in some of the steps.
static std::vector<FreezeRule> drawn_rules(Draw& d, const ModelConfig& model) {
  std::vector<FreezeRule> rules;
  for (auto n = d.between(1, 2); n > 0; --n) {
    FreezeRule rule{.pattern = d.one_of<std::string>(
                        {"blocks.0.*", fmt::format("blocks.{}.*", d.between(0, model.layers - 1)),
                         "blocks.*.ffn*", "*norm*", "embedding.*", "blocks.*",
                         model.tied ? "embedding.*" : "head.*"})};
    rule.from_step = d.between(0, 1);
    rule.to_step = d.once_in(2) ? 0 : rule.from_step + 1;
    if (d.once_in(2)) rule.moments = ThawMoments::fresh;
    rules.push_back(rule);
  }
  return rules;
}

static void expect_bounds_below(Draw& d, test::DrawnSearch s) {
  const auto target = s.target();
  SearchBounds bounds(s.in, target, s.machine);
  for (const auto& c : test::drawn_choices(d, s, 12)) {
    const auto truth = simulate_choice(s.in, target, s.machine, c, microbatches_of(s.in, c));
    EXPECT_LE(bounds.seconds(c), truth.seconds * (1 + 1e-9)) << s.text() << "\n" << overrides_of(c);
    EXPECT_LE(bounds.bytes(c), static_cast<double>(truth.needed())) << s.text() << "\n"
                                                                    << overrides_of(c);
  }
}

TEST(SearchFuzz, BoundsAreNeverAboveTheTruth) {
  fuzz([](Draw& d) { expect_bounds_below(d, test::drawn_search(d)); }, nothing);
}

TEST(SearchFuzz, BoundsHoldForFrozenParameters) {
  fuzz(
      [](Draw& d) {
        auto s = test::drawn_search(d);
        if (d.once_in(2)) s.in.setup.model.vocab *= 20;
        s.in.setup.freeze = drawn_rules(d, s.in.setup.model);
        expect_bounds_below(d, s);
      },
      nothing);
}

// One of 96 microbatches, in one of which a step clears what lies between parameters.
TEST(SearchFuzz, BoundsCountOnceWhatAStepDoesOnce) {
  Draw d(1, 41);
  expect_bounds_below(d, test::drawn_search(d));
}

// Adapters in one block, which computes no gradient of its input.
TEST(SearchFuzz, BoundsCountTheFirstBlockOfAModelWithAdapters) {
  Draw d(20261201, 6);
  expect_bounds_below(d, test::drawn_search(d));
}

// Memory and messages of all that is shown are those of its plan.
TEST(SearchFuzz, SaysOfWhatItFindsWhatItsPlanSays) {
  fuzz(
      [](Draw& d) {
        const auto s = test::drawn_search(d);
        const auto found =
            search(s.in, s.target(), s.machine, s.ranks, std::nullopt, Bounds::prune, 3);
        auto shown = found.best;
        shown.insert(shown.end(), found.alternatives.begin(), found.alternatives.end());
        for (const auto& t : shown) {
          const auto plan = make_plan(input_of(s.in, t.choice), s.target());
          double sent = 0;
          for (const auto& r : plan.ranks)
            sent = std::max(sent, static_cast<double>(r.step_traffic.all()));
          EXPECT_EQ(t.needed(), plan.most_needed()) << s.text() << "\n" << overrides_of(t.choice);
          EXPECT_DOUBLE_EQ(t.sent(), sent) << s.text() << "\n" << overrides_of(t.choice);
        }
      },
      nothing);
}

// What a step loses is a part of it.
TEST(SearchFuzz, NoStepLosesMoreThanItself) {
  fuzz(
      [](Draw& d) {
        const auto s = test::drawn_search(d);
        for (const auto& c : test::drawn_choices(d, s, 12)) {
          const auto t = try_choice(s.in, s.target(), s.machine, c);
          double most = std::max(t.lost.bubble, t.lost.starved);
          for (const double x : t.lost.exposed) most = std::max(most, x);
          EXPECT_LE(most, t.seconds * (1 + 1e-9)) << s.text() << "\n" << overrides_of(c);
        }
      },
      nothing);
}

}  // namespace trireme
