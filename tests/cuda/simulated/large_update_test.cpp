// AdamW on more than 2^31 elements.
#include "tests/cuda/simulated/large.hpp"

namespace trireme::cuda {
namespace {

template <class T>
class LargeUpdate : public LargeArrays<T> {};
TYPED_TEST_SUITE(LargeUpdate, LargeTypes);

TYPED_TEST(LargeUpdate, Update) {
  using T = TypeParam;
  constexpr std::int64_t part = 4096, n = two_31 + part;
  const Large<float> w(n), g(n), m(n), v(n);
  const Large<T> kept(n);
  auto w1 = numbers<float>(part, 1), g1 = numbers<float>(part, 2), m1 = numbers<float>(part, 3),
       v1 = std::vector<float>(part, 0.5F);
  auto kept1 = nothing<T>(part);
  w.ends_in(w1);
  g.ends_in(g1);
  m.ends_in(m1);
  v.ends_in(v1);
  const UpdateFactors factors{.lr = 0.1, .decay = 0.1, .count = 3};
  const UpdateRule rule = rule::AdamW{};
  const kernel::Update::Shard large{.master_N = w.view({n}),
                                    .copy_N = kept.view({n}),
                                    .grad_N = g.view({n}),
                                    .state_N = {m.view({n}), v.view({n})},
                                    .factors = factors},
      small{.master_N = view_of(w1.data(), {part}),
            .copy_N = view_of(kept1.data(), {part}),
            .grad_N = view_of(g1.data(), {part}),
            .state_N = {view_of(m1.data(), {part}), view_of(v1.data(), {part})},
            .factors = factors};
  this->last_block([&](const OnStream& s) { run(kernel::Update{rule, {large}}, s); });
  this->all_blocks([&](const OnStream& s) { run(kernel::Update{rule, {small}}, s); });
  expect_same(w, w1, "w");
  expect_same(kept, kept1, "copy");
  expect_same(m, m1, "m");
  expect_same(v, v1, "v");
}

}  // namespace
}  // namespace trireme::cuda
