// The host backend counts denormals as zero, on all its threads.
#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "kernels/host/host.hpp"
#include "kernels/host/parallel.hpp"

namespace trireme {
namespace {

TEST(Denormals, AreZeroOnEveryThread) {
  const Host host(3);
  constexpr std::int64_t n = 3 << 14;
  std::vector<float> x(n, 1e-40F);  // below FLT_MIN = 1.2e-38
  host::for_chunks(n, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) x[static_cast<std::size_t>(i)] *= 0.9F;
  });
  // By its bits: to a processor that flushes, every denormal equals zero.
  for (float v : x) ASSERT_EQ(std::bit_cast<std::uint32_t>(v), 0U);
}

}  // namespace
}  // namespace trireme
