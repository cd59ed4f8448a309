// A microbatch's calls hold nothing that a graph cannot: `dry` refuses it. And memory stays the
// same.
#include <gtest/gtest.h>

#include "kernels/open/open.hpp"
#include "lib/plan/plan.hpp"
#include "tests/support/parity_cases.hpp"

namespace trireme {
namespace {

TEST(MicrobatchGraphs, HoldOnlyWhatTheyMay) {
  for (const auto& c : test::pairwise_cases(1)) {
    SCOPED_TRACE(test::name_of(c));
    auto input = test::plan_input(c);
    const auto target = dry_target({"host", 1, false});
    const auto plain = plan_rank(input, target, 0);
    input.setup.graphs = true;

    const auto graphs = plan_rank(input, target, 0);

    EXPECT_EQ(graphs.account.reserved, plain.account.reserved);
    EXPECT_EQ(graphs.account.peak, plain.account.peak);
  }
}

}  // namespace
}  // namespace trireme
