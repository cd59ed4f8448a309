// Losses, norms and every weight after a few steps equal those of one rank to rounding. A constant
// factor somewhere (of seq, data, microbatches) would show at once: half of the cases run plain SGD
// without clipping. What each step sends and takes is what its plan says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"

namespace trireme {

// Every pair of settings is in one of them.
TEST(Parity, OfSettingsThatAreDrawn) {
  for (const auto& c : drawn(test::pairwise_cases(test::world().size()), 10)) {
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, test::f64_bound);
  }
}

// A number passes 8 layers of 4 products forward and back, sums of up to 72 terms each, and a sum
// over 256 tokens; n roundings add up to sqrt(n) of them. bf16 on the wire rounds each addend of a
// gradient once. Addends of opposite signs leave all of their errors in the sum.
static double f32_bound(const test::ParityCase& c) {
  const double sums = 0x1p-24 * (std::sqrt(2 * 8 * 4 * 72) + std::sqrt(256));
  const int addends = std::max(2, c.grid.data * c.grid.seq);
  return c.steps * (sums + (c.reduce == DType::bf16 ? addends * 0x1p-9 : 0));
}

TEST(Parity, OnFencedMemoryWithDelays) {
  test::world().configure({.chunk = 500, .random_delays = 5});
  for (auto c : test::fenced_cases(test::world().size())) {
    c.backend = test::backend_or("fenced");
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, f32_bound(c));
  }
}

TEST(Parity, BetweenDevicesWithDelays) {
  test::world().configure({.chunk = 500, .random_delays = 6});
  for (auto& c : test::device_wire_cases(test::world().size())) {
    c.backend = test::backend_or(c.backend.c_str());
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, f32_bound(c));
  }
}

static void expect_parity_of_few(TransportKind transport) {
  const int n = test::world().size();
  if ((n & (n - 1)) != 0) GTEST_SKIP() << "its grids are of powers of two";
  auto settings = test::world().settings();
  settings.chunk = 100;  // smaller than most weights
  test::world().configure(settings);
  for (auto& c : drawn(test::few_cases(n), 4)) {
    if (transport == TransportKind::device) test::between_devices(c);
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, test::f64_bound);
  }
}

// Mixtures, adapters, quantized bases, teachers and documents on the chosen backend.
TEST(Parity, OfAFewSettingsOnTheChosenBackend) {
  const int n = test::world().size();
  if ((n & (n - 1)) != 0) GTEST_SKIP() << "its grids are of powers of two";
  for (auto c : drawn(test::few_cases(n), 8)) {
    c.backend = test::backend_or("fenced");
    c.compute = c.reduce = DType::f32;
    c.optimizer = OptimizerKind::sgd;  // Adam divides rounding by rounding where a gradient is 0
    c.steps = 2;
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, f32_bound(c));
  }
}

// What the suite of mutants runs.
TEST(Parity, OfAFewSettings) {
  expect_parity_of_few(TransportKind::host);
}

TEST(Parity, OfAFewSettingsBetweenDevices) {
  expect_parity_of_few(TransportKind::device);
}

}  // namespace trireme
