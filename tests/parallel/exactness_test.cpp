// run.exactness = "invariant": losses, norms, weights are those of one rank, bit for bit, and what
// a step sends and takes is what its plan says.
#include <gtest/gtest.h>

#include "kernels/host/kernels.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"

namespace trireme {

// Of some grids alone: every pair of settings is in exactness_full_test.cpp.
static void expect_bits_of_one_rank(const char* backend, DType compute) {
  for (auto c : test::exact_cases(test::world().size())) {
    c.backend = backend;
    c.compute = compute;
    c.reduce = DType::f32;
    c.exact_chunk = 2;  // of 16 or 24 tokens, on up to 8 ranks
    c.steps = 3;
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, 0);
  }
}

TEST(Exactness, InvariantHasTheBitsOfOneRankInF32) {
  expect_bits_of_one_rank("host", DType::f32);
}

TEST(Exactness, InvariantHasTheBitsOfOneRankInBf16) {
  if (!host::bf16_products()) GTEST_SKIP() << "this processor cannot multiply bf16";
  expect_bits_of_one_rank("host", DType::bf16);
}

TEST(Exactness, InvariantHasTheBitsOfOneRankOnTheReference) {
  expect_bits_of_one_rank("ref", DType::f32);
}

}  // namespace trireme
