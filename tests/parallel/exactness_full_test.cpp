// run.exactness = "invariant": losses, norms and weights are those of one rank, bit for bit, and
// what a step sends and takes is what its plan says. Every pair of settings.
#include <gtest/gtest.h>

#include "kernels/host/kernels.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"

namespace trireme {

static void expect_bits_of_one_rank(const char* backend, DType compute, int steps = 5) {
  for (auto& c : test::exact_pairs(test::world().size(), backend, compute)) {
    c.steps = steps;
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, 0);
  }
}

TEST(ExactnessOfEveryPair, InF32) {
  expect_bits_of_one_rank("host", DType::f32);
}

TEST(ExactnessOfEveryPair, InBf16) {
  if (!host::bf16_products()) GTEST_SKIP() << "this processor cannot multiply bf16";
  expect_bits_of_one_rank("host", DType::bf16);
}

TEST(ExactnessOfEveryPair, OnTheReference) {
  expect_bits_of_one_rank("ref", DType::f32, 3);  // slow
}

}  // namespace trireme
