#include "lib/run/optimizer_warnings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

OptimizerConfig muon_with(double lr, std::optional<double> adamw_lr) {
  OptimizerConfig o;
  o.name = OptimizerKind::muon;
  o.lr = lr;
  o.adamw_lr = adamw_lr;
  return o;
}
std::vector<std::string> warnings_of(const OptimizerConfig& o, const ModelSpec& spec,
                                     const std::vector<FreezeRule>& freeze = {},
                                     std::int64_t begin = 0) {
  return optimizer_warnings(o, spec, freeze, {begin, 10});
}
ModelSpec gpt2() {
  return make_spec(test::tiny_gpt2());
}

TEST(OptimizerWarnings, UsualRatesHaveNone) {
  EXPECT_THAT(warnings_of({}, gpt2()), IsEmpty());
  EXPECT_THAT(warnings_of(muon_with(0.02, 6e-4), gpt2()), IsEmpty());
  EXPECT_THAT(warnings_of(muon_with(5e-4, {}), gpt2()), IsEmpty());
  auto as_adamw = muon_with(0.02, {});
  as_adamw.matrix_scale = MatrixScale::adamw;
  EXPECT_THAT(warnings_of(as_adamw, gpt2()), IsEmpty());
}

TEST(OptimizerWarnings, RatesFarFromTheUsualOnes) {
  OptimizerConfig o;
  o.lr = 1;
  EXPECT_THAT(warnings_of(o, gpt2()), ElementsAre(HasSubstr("optimizer.lr = 1 is far above")));
  EXPECT_THAT(warnings_of(muon_with(1, 1), gpt2()),
              ElementsAre(HasSubstr("optimizer.lr = 1 is far above"),
                          HasSubstr("optimizer.adamw_lr = 1 is far above")));
  EXPECT_THAT(warnings_of(muon_with(1e-6, 6e-4), gpt2()), ElementsAre(HasSubstr("far below")));
}

// With a momentum of 0.95, up to 20 steps of Shampoo add up.
TEST(OptimizerWarnings, RatesOfShampooDependOnItsMomentum) {
  auto o = muon_with(0.1, 6e-4);
  o.name = OptimizerKind::shampoo;
  EXPECT_THAT(warnings_of(o, gpt2()),
              ElementsAre(AllOf(HasSubstr("optimizer.lr = 0.1 is far above"),
                                HasSubstr("(1e-5 to 0.0025)"))));
  o.matrix_momentum = 0;
  EXPECT_THAT(warnings_of(o, gpt2()), IsEmpty());
}

TEST(OptimizerWarnings, TheDefaultRateIsLowForMuon) {
  OptimizerConfig o;
  o.name = OptimizerKind::muon;
  EXPECT_THAT(warnings_of(o, gpt2()),
              ElementsAre(HasSubstr("optimizer.lr = 3e-4, the default, is low for muon")));
  EXPECT_THAT(warnings_of(o, make_spec(test::tiny_gpt2(), {.rank = 2})), IsEmpty());
  o.matrix_scale = MatrixScale::adamw;
  EXPECT_THAT(warnings_of(o, gpt2()), IsEmpty());
}

// Adapters have matrices alone.
TEST(OptimizerWarnings, TheRateOfMatricesForOtherParameters) {
  EXPECT_THAT(
      warnings_of(muon_with(0.02, {}), gpt2()),
      ElementsAre(HasSubstr("AdamW updates all other parameters with optimizer.lr = 0.02")));
  EXPECT_THAT(warnings_of(muon_with(0.02, {}), make_spec(test::tiny_gpt2(), {.rank = 2})),
              IsEmpty());
}

TEST(OptimizerWarnings, MatricesThatPatternsTakeFromAdamW) {
  auto o = muon_with(0.02, 6e-4);
  o.adamw_patterns = {"blocks.0.ffn_in.weight"};
  EXPECT_THAT(warnings_of(o, gpt2()),
              ElementsAre(HasSubstr("so muon updates \"embedding.weight\", \"positions.weight\" "
                                    "instead of AdamW")));
  EXPECT_THAT(warnings_of(o, make_spec(test::tiny_mixture())),
              ElementsAre(HasSubstr("\"blocks.*.router.weight\"")));
  o.adamw_patterns = {"embedding.*", "positions.*", "blocks.0.*"};
  EXPECT_THAT(warnings_of(o, gpt2()), IsEmpty());
}

TEST(OptimizerWarnings, NoMatrixIsTrained) {
  const auto o = muon_with(0.02, 6e-4);
  EXPECT_THAT(warnings_of(o, gpt2(), {{.pattern = "blocks.*"}}),
              ElementsAre(HasSubstr("optimizer.name = \"muon\" updates no matrix")));
  EXPECT_THAT(warnings_of(o, gpt2(), {{.pattern = "blocks.*", .to_step = 5}}), IsEmpty());
  EXPECT_THAT(warnings_of(muon_with(1, 6e-4), gpt2(), {{.pattern = "blocks.*"}}),
              ElementsAre(HasSubstr("optimizer.name = \"muon\" updates no matrix")));
  EXPECT_THAT(warnings_of(o, gpt2(), {{.pattern = "blocks.0.*"}}), IsEmpty());
}

// Steps before the one from which a run restarts do not count.
TEST(OptimizerWarnings, OnlyTheStepsThatFollowCount) {
  const std::vector<FreezeRule> matrices{{.pattern = "blocks.*", .from_step = 3}};
  const auto o = muon_with(0.02, 6e-4);
  EXPECT_THAT(warnings_of(o, gpt2(), matrices, 2), IsEmpty());
  EXPECT_THAT(warnings_of(o, gpt2(), matrices, 3), ElementsAre(HasSubstr("updates no matrix")));
  const std::vector<FreezeRule> all{{.pattern = "*", .from_step = 3}};
  EXPECT_THAT(warnings_of(muon_with(0.02, {}), gpt2(), all, 3), IsEmpty());
  EXPECT_TRUE(updates_base_matrices(o, gpt2(), matrices, {2, 10}));
  EXPECT_FALSE(updates_base_matrices(o, gpt2(), matrices, {3, 10}));
}

// Base weights that adapter.also_train trains are no adapters.
TEST(OptimizerWarnings, MatricesOfTheBaseModelAreNotThoseOfAdapters) {
  const auto o = muon_with(0.02, 6e-4);
  const auto updates = [&](const AdapterConfig& adapter) {
    return updates_base_matrices(o, make_spec(test::tiny_gpt2(), adapter), {}, {0, 10});
  };
  EXPECT_TRUE(updates({}));
  EXPECT_FALSE(updates({.rank = 2}));
  EXPECT_TRUE(updates({.rank = 2, .patterns = {"*.qkv"}, .also_train = {"*.ffn_in"}}));
  EXPECT_FALSE(updates({.rank = 2, .patterns = {"*.qkv"}, .also_train = {"*norm*"}}));
}

}  // namespace
}  // namespace trireme
