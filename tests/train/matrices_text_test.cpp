#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/counted.hpp"
#include "lib/train/optimizer.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

using testing::StartsWith;

static OptimizerConfig muon() {
  OptimizerConfig o;
  o.name = OptimizerKind::muon;
  return o;
}

// Of each block: queries, keys, values, the projection, and two matrices of four times the size.
TEST(MatricesText, CountsWhatEachOptimizerUpdates) {
  auto config = test::tiny_gpt2();
  config.width = 1200;
  config.head_dim = config.ffn_width = 0;
  config.tied = false;
  const auto spec = make_spec(completed(config));
  const std::int64_t n = 1200, block = 12 * n * n, others = spec.parameter_count() - 2 * block;
  const auto text = [](std::int64_t matrices, std::int64_t in_matrices, std::int64_t rest) {
    return fmt::format(
        "muon updates {} matrices with {} parameters, and AdamW updates {} other parameters",
        matrices, count_text(in_matrices), count_text(rest));
  };

  EXPECT_EQ(matrices_text(spec, muon(), {}, 0), text(12, 2 * block, others));
  EXPECT_EQ(matrices_text(spec, {}, {}, 0), "");

  auto by_head = muon();
  by_head.matrix_heads = HeadMatrices::each;
  EXPECT_EQ(matrices_text(spec, by_head, {}, 0), text(2 * (9 + 3), 2 * block, others));

  auto but_one = muon();
  but_one.adamw_patterns = {"embedding.*", "head.*", "positions.*", "blocks.1.ffn_out.weight"};
  EXPECT_EQ(matrices_text(spec, but_one, {}, 0),
            text(11, 2 * block - 4 * n * n, others + 4 * n * n));

  // Biases: 9 widths. Norms: two with a weight and a bias.
  const std::vector<FreezeRule> first{{.pattern = "blocks.0.*"}};
  EXPECT_EQ(matrices_text(spec, muon(), first, 0), text(6, block, others - 13 * n));
  const std::vector<FreezeRule> later{{.pattern = "blocks.0.*", .from_step = 3}};
  EXPECT_EQ(matrices_text(spec, muon(), later, 0), text(12, 2 * block, others) + " at first");
  EXPECT_EQ(matrices_text(spec, muon(), later, 3), text(6, block, others - 13 * n));
}

// Of a dense block: 4 of attention and 3 of the MLP. Of two others, each of 5 experts and the
// shared expert has 3. Routers and gates of shared experts are updated by AdamW.
TEST(MatricesText, CountsTheMatricesOfExperts) {
  EXPECT_THAT(matrices_text(make_spec(test::tiny_mixture()), muon(), {}, 0),
              StartsWith("muon updates 51 matrices with "));
}

// The frozen weights are nobody's.
TEST(MatricesText, CountsTheMatricesOfAdapters) {
  EXPECT_EQ(matrices_text(make_spec(test::tiny_gpt2(), {.rank = 1, .patterns = {"*.projection"}}),
                          muon(), {}, 0),
            "muon updates 4 matrices with 48 parameters, and AdamW updates 0 other parameters");
}

}  // namespace trireme
