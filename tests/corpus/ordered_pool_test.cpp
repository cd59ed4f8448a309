#include "lib/corpus/ordered_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace trireme {
namespace {

TEST(OrderedPool, ResultsLeaveInOrder) {
  for (const int threads : {1, 2, 7}) {
    std::vector<int> results;
    OrderedPool<int, int> pool(
        threads, 50,
        [](const int& i) {
          if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
          return i * i;
        },
        [&](int r) { results.push_back(r); });
    for (int i = 0; i < 200; ++i) pool.add(i, 10);
    pool.finish();
    ASSERT_EQ(results.size(), 200U);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)], i * i);
  }
}

TEST(OrderedPool, KeepsItsLimit) {
  std::atomic<int> in_flight = 0, most = 0;
  OrderedPool<int, int> pool(
      4, 30,
      [&](const int& i) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        return i;
      },
      [&](int) { --in_flight; });
  for (int i = 0; i < 100; ++i) {
    pool.add(i, i == 50 ? 1000 : 10);
    most = std::max<int>(most, ++in_flight);
  }
  pool.finish();
  EXPECT_LE(most, 3);
  EXPECT_GE(most, 2);
}

TEST(OrderedPool, AFailureComesOutInItsPlace) {
  for (const int threads : {1, 3}) {
    std::vector<int> results;
    OrderedPool<int, int> pool(
        threads, 1000,
        [](const int& i) {
          if (i >= 20) throw std::runtime_error(std::to_string(i));
          return i;
        },
        [&](int r) { results.push_back(r); });
    try {
      for (int i = 0; i < 100; ++i) pool.add(i, 10);
      pool.finish();
      ADD_FAILURE() << "no failure came out";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "20");
    }
    EXPECT_EQ(results.size(), 20U);
  }
}

}  // namespace
}  // namespace trireme
