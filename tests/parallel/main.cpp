// Runs all cases on every rank. Rank 0 reports, the others speak of failures alone; a failure
// anywhere fails the launch, and a case that does not end is named by every rank that is in it.
// TRIREME_HANG_LIMIT: seconds that a case may take (60). TRIREME_RANDOM_DELAYS: a seed of random
// delays in all messages.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "lib/launch/mpi_job.hpp"
#include "tests/parallel/watchdog.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"

namespace trireme::test {
namespace {

const launch::MpiJob* job = nullptr;
Watchdog* watchdog = nullptr;

std::string rank_name() {
  return fmt::format("rank {} of {}", world().rank(), world().size());
}

// Failures of ranks that print nothing else.
class FailurePrinter final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = fmt::format("{}.{}", test.test_suite_name(), test.name());
  }
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    const auto text =
        fmt::format("[{}] {}: {}:{}: {}\n", rank_name(), test_,
                    part.file_name() ? part.file_name() : "?", part.line_number(), part.message());
    std::fputs(text.c_str(), stderr);
  }

  std::string test_;
};

// Keeps the ranks in step between cases.
class Steps final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    watchdog->at(fmt::format("{}.{}", test.test_suite_name(), test.name()));
    const char* delays = std::getenv("TRIREME_RANDOM_DELAYS");
    world().configure(
        {.random_delays = delays ? static_cast<std::uint64_t>(std::atoi(delays)) : 0});
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    world().configure({});
    const auto left = world().abandoned();
    for (const auto& name : left) {
      const auto text = fmt::format("[{}] {}.{} left in flight: {}\n", rank_name(),
                                    test.test_suite_name(), test.name(), name);
      std::fputs(text.c_str(), stderr);
    }
    if (!left.empty()) job->abort(1);  // the next case would meet its messages
    double failed = test.result()->Failed() ? 1 : 0;
    world().all_reduce_max({&failed, 1});
    if (failed > 0 && world().rank() == 0)
      std::printf("again with TRIREME_FUZZ_SEED=%llu\n",
                  static_cast<unsigned long long>(fuzz_seed()));
    if (failed > 0 && !test.result()->Failed() && world().rank() == 0)
      std::printf("[  ELSEWHERE ] %s.%s failed on another rank\n", test.test_suite_name(),
                  test.name());
  }
};

}  // namespace

const Communicator& world() {
  return job->world();
}

void meet() {
  double nothing = 0;
  world().all_reduce({&nothing, 1});
}

bool next_case(const std::string& name) {
  watchdog->at(name);
  double failed = testing::Test::HasFailure() ? 1 : 0;
  world().all_reduce_max({&failed, 1});
  return failed == 0;
}

}  // namespace trireme::test

int main(int argc, char** argv) {
  using namespace trireme;
  using namespace trireme::test;
  testing::InitGoogleTest(&argc, argv);
  const launch::MpiJob mpi;
  job = &mpi;
  const char* limit = std::getenv("TRIREME_HANG_LIMIT");
  Watchdog watches(rank_name(), std::chrono::seconds(limit ? std::atoi(limit) : 60));
  watchdog = &watches;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world().rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  listeners.Append(new Steps);
  double failed = RUN_ALL_TESTS();
  watches.at("the end");
  world().all_reduce_max({&failed, 1});
  return failed > 0 ? 1 : 0;
}
