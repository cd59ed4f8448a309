// Generation on grids: the tokens of one rank, whatever holds layers, heads and prompts.
#include "lib/run/generation.hpp"

#include <gtest/gtest.h>

#include "kernels/ref/ref.hpp"
#include "lib/shard/policy.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

std::vector<std::vector<std::int32_t>> tokens_on(
    const Axes& axes, const ModelConfig& c, const ZeroConfig& zero,
    ScheduleKind schedule = ScheduleKind::one_f_one_b) {
  Ref ref;
  const Workspace scratch(ref);
  auto setup = test::setup_of(c, test::adamw(), DType::f64);
  setup.trainable = false;
  setup.zero = zero;
  setup.schedule = schedule;
  setup.chunks = static_cast<int>(traits_of(schedule).fewest_chunks);
  Trainer trainer(ref, axes, setup);
  trainer.store().initialize(3, 1);
  std::vector<Request> requests;
  for (std::int32_t i = 0; i < 3; ++i) {
    Request r{
        {}, 4 + 3 * i, {.temperature = i % 2 ? 1.0 : 0.0, .seed = 7U + static_cast<unsigned>(i)}};
    for (std::int32_t t = 0; t <= i; ++t) r.ids.push_back((5 * t + i) % 19);
    requests.push_back(std::move(r));
  }
  std::vector<std::vector<std::int32_t>> ids;
  for (auto& s : generate(trainer, requests, {.vocab = 19, .batch = 2})) ids.push_back(s.ids);
  return ids;
}

TEST(Generation, HasTheTokensOfOneRank) {
  const int n = test::world().size();
  for (const int flavour : {0, 1, 2}) {
    const bool llama = flavour > 0, mixture = flavour == 2;
    auto c = mixture ? test::tiny_mixture() : llama ? test::tiny_granite() : test::tiny_gpt2();
    c.max_context = 12;
    c.layers = 4;
    const auto expected = tokens_on({}, c, {});
    for (auto grid : legal_grids({.layers = c.layers, .tokens = c.max_context}, n)) {
      for (int e = 2; mixture && e <= 5; ++e)
        if (grid.places() % e == 0) grid.expert = e;
      if (!test::next_case(describe(grid))) return;
      ZeroConfig zero;
      zero.stage = llama ? 3 : 0;
      const auto axes = make_axes(test::world(), grid, shard_ranks(zero, grid));
      EXPECT_EQ(tokens_on(axes, c, zero), expected) << describe(grid) << " zero " << zero.stage;
      if (2 * grid.pipe > c.layers) continue;
      for (const auto chunked : {ScheduleKind::interleaved, ScheduleKind::zbv})
        EXPECT_EQ(tokens_on(axes, c, zero, chunked), expected)
            << describe(grid) << " " << name_of(chunked);
    }
  }
}

}  // namespace
}  // namespace trireme
