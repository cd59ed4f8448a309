#include "lib/shard/freeze.hpp"

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/base/rng.hpp"
#include "lib/shard/layout.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

static constexpr auto keep = ThawMoments::keep, fresh = ThawMoments::fresh;

static std::vector<FreezeState> course_of(const std::string& name,
                                          const std::vector<FreezeRule>& rules, int steps) {
  const auto spec = make_spec(test::tiny_gpt2());
  const auto p = std::ranges::find(spec.params, name, &ParamSpec::name) - spec.params.begin();
  const FreezeSchedule schedule(rules, spec);
  std::vector<FreezeState> course;
  for (int s = 0; s < steps; ++s) course.push_back(schedule.at(s)[static_cast<std::size_t>(p)]);
  return course;
}

static constexpr FreezeState trained{true, true}, begins{true, false}, held{false, true},
    dropped{false, false};

TEST(Freeze, ARuleFreezesItsStepsAndWhatItNames) {
  const std::vector<FreezeRule> rules{{"embedding.*", 1, 3, fresh}, {"*norm*", 1, 3, keep}};

  EXPECT_EQ(course_of("embedding.weight", rules, 5),
            (std::vector{trained, dropped, dropped, begins, trained}));
  EXPECT_EQ(course_of("final_norm.weight", rules, 5),
            (std::vector{trained, held, held, trained, trained}));
  EXPECT_EQ(course_of("blocks.1.qkv.weight", rules, 3), (std::vector(3, trained)));
}

TEST(Freeze, WithoutAnEndItLasts) {
  EXPECT_EQ(course_of("embedding.weight", {{"*", 2, 0, fresh}}, 4),
            (std::vector{trained, trained, dropped, dropped}));
  EXPECT_EQ(course_of("embedding.weight", {{"*", 0, 0, fresh}, {"*", 1, 2, keep}}, 3),
            (std::vector(3, dropped)));
}

TEST(Freeze, TheRuleThatFrozeItDecidesWhereverItStandsInTheDeck) {
  const FreezeRule first{"*", 1, 3, keep}, second{"*", 2, 4, fresh};
  for (const auto& rules : {std::vector{first, second}, std::vector{second, first}})
    EXPECT_EQ(course_of("embedding.weight", rules, 5),
              (std::vector{trained, held, held, held, trained}));
}

TEST(Freeze, OfRulesThatBeginTogetherTheLastOfTheDeckDecides) {
  EXPECT_EQ(course_of("embedding.weight", {{"*", 1, 2, fresh}, {"*", 1, 3, keep}}, 4),
            (std::vector{trained, held, held, trained}));
  EXPECT_EQ(course_of("embedding.weight", {{"*", 1, 2, keep}, {"*", 1, 3, fresh}}, 4),
            (std::vector{trained, dropped, dropped, begins}));
}

// 3 experts of 5 are none of a token's, in each of two blocks.
TEST(Freeze, SaysHowManyParametersATokenUses) {
  auto config = test::tiny_mixture();
  config.expert_width = 100'000;
  const auto spec = make_spec(config);
  const auto all = 1e-6 * static_cast<double>(spec.parameter_count());
  const auto idle = 1e-6 * static_cast<double>(2 * 3 * 3 * config.width * config.expert_width);

  EXPECT_EQ(
      parameters_text(spec, {}, 0),
      fmt::format("{:.2f}M parameters ({:.2f}M active per token), all trained", all, all - idle));
}

TEST(Freeze, SaysHowManyParametersAreTrained) {
  auto config = test::tiny_gpt2();
  config.vocab = 1'000'000;
  config.tied = true;
  const auto spec = make_spec(config);
  const auto said = [&](const std::vector<FreezeRule>& rules, std::int64_t step) {
    const auto text = parameters_text(spec, rules, step);
    return text.substr(text.find(", ") + 2);
  };
  const auto table = fmt::format("{:.2f}M of them trained", 1.0 * config.width);

  EXPECT_EQ(parameters_text(spec, {}, 0),
            fmt::format("{:.2f}M parameters, all trained", 1e-6 * spec.parameter_count()));
  EXPECT_EQ(said({{"*", 0, 0, fresh}}, 0), "0.00M of them trained");
  EXPECT_EQ(said({{"blocks.*", 0, 0, fresh}, {"*norm*", 0, 0, fresh}, {"pos*", 0, 0, fresh}}, 0),
            table);
  EXPECT_EQ(said({{"*", 3, 5, fresh}}, 0), "all trained at first");
  EXPECT_EQ(said({{"*", 3, 5, fresh}}, 3), "0.00M of them trained at first");
  EXPECT_EQ(said({{"*", 3, 5, fresh}}, 5), "all trained");
}

// It is not thawed between them.
TEST(Freeze, ARuleThatFollowsAtOnceGoesOnWithWhatTheEarlierOneDid) {
  EXPECT_EQ(course_of("embedding.weight", {{"*", 3, 5, keep}, {"*", 1, 3, fresh}}, 7),
            (std::vector{trained, dropped, dropped, dropped, dropped, begins, trained}));
}

TEST(Freeze, ARuleThatIsOverOrNotYetInForceDecidesNothing) {
  EXPECT_EQ(
      course_of("embedding.weight", {{"*", 0, 1, keep}, {"*", 2, 3, fresh}, {"*", 9, 0, keep}}, 4),
      (std::vector{held, trained, dropped, begins}));
}

TEST(Freeze, BordersAreWhereTheTrainedOnesChange) {
  const auto spec = make_spec(test::tiny_gpt2());
  const FreezeSchedule schedule(
      std::vector<FreezeRule>{
          {"embedding.*", 0, 4}, {"embedding.*", 4, 6}, {"blocks.0.*", 5, 9}, {"blocks.1.*", 6, 0}},
      spec);

  EXPECT_EQ(schedule.borders(0, 100), (std::vector<std::int64_t>{5, 6, 9}));
  EXPECT_EQ(schedule.borders(5, 9), (std::vector<std::int64_t>{6}));
  EXPECT_EQ(schedule.borders(-1, 100), (std::vector<std::int64_t>{0, 5, 6, 9}));
}

// One parameter under random rules, followed step by step with a memory of which rule froze it.
TEST(Freeze, IsWhatFollowingTheRulesStepByStepGives) {
  const auto spec = make_spec(test::tiny_gpt2());
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(mix64(++draw) % n); };
  for (int round = 0; round < 500; ++round) {
    std::vector<FreezeRule> rules;
    for (auto n = below(5); n >= 0; --n) {
      const auto from = below(10);
      rules.push_back({below(4) ? "emb*" : "blocks.*", from, below(5) ? from + 1 + below(5) : 0,
                       below(2) ? keep : fresh});
    }
    const FreezeSchedule schedule(rules, spec);
    const FreezeRule* froze_it = nullptr;
    for (std::int64_t step = 0; step < 20; ++step) {
      const FreezeRule* in_force = nullptr;  // the last in the deck
      for (std::size_t r = 0; r < rules.size(); ++r)
        if (rules[r].pattern == "emb*" && rules[r].from_step <= step &&
            (step < rules[r].to_step || rules[r].to_step == 0))
          in_force = &rules[r];
      const bool thaws = froze_it && !in_force, thaws_fresh = thaws && froze_it->moments == fresh;
      if (!in_force || !froze_it) froze_it = in_force;
      const FreezeState expected = froze_it ? FreezeState{false, froze_it->moments == keep}
                                            : FreezeState{true, !thaws_fresh};

      ASSERT_EQ(schedule.at(step)[0], expected) << "round " << round << " step " << step;
    }
  }
}

}  // namespace trireme
