#include "lib/run/read_ahead.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace trireme {
namespace {

std::vector<Batch> of_range(SampleRange range) {
  Batch b;
  b.sample_B = {range.first, range.count};
  return {b};
}

void wait_for(const std::atomic<std::int64_t>& x, std::int64_t value) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (x != value && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(x, value);
}

TEST(ReadAhead, ReadsTheNextStepAndNoFurther) {
  std::atomic<std::int64_t> reads = 0, last = -1;
  ReadAhead ahead([&](SampleRange range) {
    ++reads;
    last = range.first;
    return of_range(range);
  });
  EXPECT_EQ(ahead.take({0, 4}, 4)[0].sample_B[0], 0);
  wait_for(last, 4);  // while the step of sample 0 computes
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(ahead.take({4, 4}, 4)[0].sample_B[0], 4);
  wait_for(last, 8);
  EXPECT_EQ(ahead.take({8, 4}, 0)[0].sample_B[0], 8);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(reads, 3) << "the run ends with sample 12";
}

TEST(ReadAhead, AnotherStepThanTheNextIsReadForItself) {
  ReadAhead ahead(of_range);
  EXPECT_EQ(ahead.take({0, 4}, 4)[0].sample_B[0], 0);
  EXPECT_EQ(ahead.take({40, 4}, 4)[0].sample_B[0], 40);
  EXPECT_EQ(ahead.take({44, 4}, 4)[0].sample_B[0], 44);
}

TEST(ReadAhead, StepsMayHaveDifferentNumbersOfSamples) {
  std::atomic<int> reads = 0;
  ReadAhead ahead([&](SampleRange range) {
    ++reads;
    return of_range(range);
  });
  EXPECT_EQ(ahead.take({0, 4}, 6)[0].sample_B[1], 4);
  EXPECT_EQ(ahead.take({4, 6}, 8)[0].sample_B[1], 6);
  EXPECT_EQ(ahead.take({10, 2}, 0)[0].sample_B[1], 2) << "8 samples were read ahead";
  EXPECT_EQ(reads, 4);
}

TEST(ReadAhead, AnErrorComesWithItsStep) {
  ReadAhead ahead([&](SampleRange range) {
    if (range.first == 4) throw std::runtime_error("sample 4 cannot be read");
    return of_range(range);
  });
  EXPECT_EQ(ahead.take({0, 4}, 4)[0].sample_B[0], 0);
  EXPECT_THROW(ahead.take({4, 4}, 4), std::runtime_error);
  EXPECT_THROW(ahead.take({4, 4}, 4), std::runtime_error) << "asked again, it is read again";
  EXPECT_EQ(ahead.take({8, 4}, 4)[0].sample_B[0], 8);
}

}  // namespace
}  // namespace trireme
