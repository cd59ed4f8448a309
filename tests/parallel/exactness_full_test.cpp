// run.exactness = "invariant": losses, norms and weights are those of one rank, bit for bit, and
// what a step sends and takes is what its plan says. Drawn of cases in which every pair of settings
// meets.
#include <gtest/gtest.h>

#include "kernels/host/kernels.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"

namespace trireme {

static void expect_bits_of_one_rank(const char* backend, DType compute) {
  for (const auto& c : drawn(test::exact_pairs(test::world().size(), backend, compute), 3)) {
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
  expect_bits_of_one_rank("ref", DType::f32);
}

}  // namespace trireme
