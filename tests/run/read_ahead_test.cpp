#include "lib/run/read_ahead.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace trireme {
namespace {

std::vector<Batch> of_sample(std::int64_t first) {
  Batch b;
  b.sample_B = {first};
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
  ReadAhead ahead(
      [&](std::int64_t first) {
        ++reads;
        last = first;
        return of_sample(first);
      },
      4, 12);
  EXPECT_EQ(ahead.take(0)[0].sample_B[0], 0);
  wait_for(last, 4);  // while the step of sample 0 computes
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(ahead.take(4)[0].sample_B[0], 4);
  wait_for(last, 8);
  EXPECT_EQ(ahead.take(8)[0].sample_B[0], 8);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(reads, 3) << "the run ends with sample 12";
}

TEST(ReadAhead, AnotherStepThanTheNextIsReadForItself) {
  ReadAhead ahead(of_sample, 4, 100);
  EXPECT_EQ(ahead.take(0)[0].sample_B[0], 0);
  EXPECT_EQ(ahead.take(40)[0].sample_B[0], 40);
  EXPECT_EQ(ahead.take(44)[0].sample_B[0], 44);
}

TEST(ReadAhead, AnErrorComesWithItsStep) {
  ReadAhead ahead(
      [&](std::int64_t first) {
        if (first == 4) throw std::runtime_error("sample 4 cannot be read");
        return of_sample(first);
      },
      4, 100);
  EXPECT_EQ(ahead.take(0)[0].sample_B[0], 0);
  EXPECT_THROW(ahead.take(4), std::runtime_error);
  EXPECT_THROW(ahead.take(4), std::runtime_error) << "asked again, it is read again";
  EXPECT_EQ(ahead.take(8)[0].sample_B[0], 8);
}

}  // namespace
}  // namespace trireme
