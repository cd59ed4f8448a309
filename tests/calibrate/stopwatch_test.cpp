#include "lib/calibrate/stopwatch.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/ref/ref.hpp"
#include "lib/calibrate/operands.hpp"

namespace trireme {
namespace {

class OnAStopwatch : public testing::Test {
 protected:
  Ref backend;
  Communicator alone;
  std::vector<int> calls;  // the numbers that `put` was called with

  // Seconds of a call that sleeps for so many milliseconds.
  template <class Milliseconds>
  double seconds(double least, const Milliseconds& sleep) {
    return Stopwatch(backend, alone, least).seconds(Queue::compute, [&](int i) {
      calls.push_back(i);
      std::this_thread::sleep_for(std::chrono::milliseconds(sleep(i)));
    });
  }
};

TEST_F(OnAStopwatch, CallsWhatTakesLongThreeTimes) {
  const double s = seconds(1e-4, [](int) { return 2; });
  EXPECT_GE(s, 2e-3);
  EXPECT_EQ(calls, (std::vector{0, 1, 2}));
}

TEST_F(OnAStopwatch, CallsWhatTakesLittleOftenAndWithOneNumberAfterTheOther) {
  const double least = 3e-3;
  const auto begin = std::chrono::steady_clock::now();
  const double s = seconds(least, [](int) { return 0; });
  const std::chrono::duration<double> lasted = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(s, 0);
  EXPECT_LT(s, least);
  EXPECT_GT(calls.size(), 10U);
  EXPECT_LE(s * static_cast<double>(calls.size()), lasted.count());  // the least is below the mean
  std::vector<int> all(calls.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(calls, all);
}

TEST_F(OnAStopwatch, TakesTheLeastDisturbedCall) {
  const double s = seconds(0.05, [](int i) { return i == 1 || i == 3 ? 200 : 1; });
  EXPECT_GE(s, 1e-3);
  EXPECT_LT(s, 0.1);
}

// Of 64 MB or 48 sets of operands, the fewer, but of two at least.
TEST_F(OnAStopwatch, TakesOtherOperandsInEachCall) {
  const auto sets = [&](std::int64_t floats) {
    int made = 0;
    const Stopwatch watch(backend, alone, 1e-6);
    seconds_of_calls(backend, watch, [&](SampleOperands& memory) {
      ++made;
      return kernel::Fill{.dst = memory.take(DType::f32, {floats})};
    });
    return made;
  };
  EXPECT_EQ(sets(8), 48);
  EXPECT_EQ(sets(1 << 20), 16);
  EXPECT_EQ(sets(1 << 24), 2);
}

}  // namespace
}  // namespace trireme
