#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "lib/calibrate/calibrate.hpp"
#include "tests/support/dry.hpp"

namespace trireme {

using Counts = std::map<std::pair<Direction, AttentionSpan>, int>;

// Measures a backend whose memory the host can access or not.
static std::vector<AttentionRates> rates_on(bool host_readable) {
  Dry backend(roomy_target(host_readable));
  const Workspace workspace(backend);
  const Communicator alone;
  return attention_rates(backend, Stopwatch(backend, alone, 1e-9), DType::bf16);
}

static Counts counts(const std::vector<AttentionRates>& rates) {
  Counts found;
  for (const auto& r : rates) {
    EXPECT_EQ(r.tokens.size(), r.flops.size());
    ++found[{r.direction, r.span}];
  }
  return found;
}

// On a device, other kernels compute attention within documents. In the shortest samples, of 128
// tokens, documents of 19, 32, 32, 32 and 13 tokens have 190 + 3 x 528 + 91 pairs. A causal sample
// of n tokens has (n + 1) / 2 keys for each query.
TEST(AttentionRatesOf, DocumentsAreMeasuredOnDevices) {
  using enum Direction;
  using enum AttentionSpan;
  EXPECT_EQ(counts(rates_on(true)), (Counts{{{forward, causal}, 3}, {{backward, causal}, 3}}));
  const auto rates = rates_on(false);
  EXPECT_EQ(counts(rates), (Counts{{{forward, causal}, 3},
                                   {{forward, document}, 3},
                                   {{backward, causal}, 3},
                                   {{backward, document}, 3}}));
  for (const auto& r : rates)
    EXPECT_NEAR(r.tokens.front(), r.span == document ? 2 * 1865 / 128.0 : 32, 0.5);
}

}  // namespace trireme
