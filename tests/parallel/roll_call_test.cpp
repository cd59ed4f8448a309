// Ranks that wait too long learn who does not come.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kernels/immediate.hpp"
#include "tests/parallel/collective_test.hpp"
#include "tests/support/scratch.hpp"

namespace trireme::test {
namespace {

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class RollCall : public CollectiveTest {
 protected:
  RollCall() {
    if (rank() == 0) shared_ = folder_.path().string();
    world().broadcast(shared_);
  }
  ~RollCall() override { meet(); }  // the folder goes

  // The error of a gather to which all ranks from `absent` on come when the others have theirs; on
  // those nothing.
  std::string error_without(int absent) {
    const auto src = tensor(50, rank()), dst = blank(50 * ranks());
    const auto mark = [&](int r) { return std::filesystem::path(shared_) / std::to_string(r); };
    for (int r = 0; rank() >= absent && r < absent; ++r)
      while (!exists(mark(r))) sleep(0.002);
    auto pending = world().all_gather(backend(), after_compute(Queue::gather), dst.view(),
                                      src.view(), {OperationKind::gather, "blocks.7", 3});
    std::string text;
    if (rank() < absent) text = message_of<Error>([&] { pending.wait(Queue::compute); });
    if (rank() < absent) std::ofstream(mark(rank()));
    world().configure({});
    pending.wait(Queue::compute);
    EXPECT_EQ(values(dst).back(), numbers(50, ranks() - 1, type()).back());
    return text;
  }

 private:
  ScratchFolder folder_;
  std::string shared_;  // rank 0's folder
};
INSTANTIATE_TEST_SUITE_P(Settings, RollCall,
                         testing::Values(Setting{"ref", DType::f64, 100, false}),
                         [](const auto& p) { return name_of(p.param); });

TEST_P(RollCall, NamesTheRankThatDoesNotAnswer) {
  if (ranks() == 1) GTEST_SKIP() << "nobody to wait for";
  world().configure({.hang_timeout = 0.2});
  const int absent = ranks() - 1;
  const auto text = error_without(absent);

  if (rank() != 0) return;
  const auto& process = world().processes()[static_cast<std::size_t>(absent)];
  EXPECT_NE(text.find("gather of blocks.7, microbatch 3 is not finished after 0.2 s (call "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(fmt::format("rank {} (process {} on {}) does not answer", absent, process.id,
                                  process.host)),
            std::string::npos)
      << text;
  const auto waiting = ranks() == 2   ? "rank 0 waits for"
                       : ranks() == 3 ? "ranks 0, 1 wait for"
                                      : fmt::format("ranks 0-{} wait for", ranks() - 2);
  EXPECT_NE(text.find(fmt::format("\n  {} gather of blocks.7, microbatch 3 (", waiting)),
            std::string::npos)
      << text;
}

// Its own wait may have just begun, or be allowed to last longer.
TEST_P(RollCall, BeginsWhenAnyRankHasWaitedTooLong) {
  if (ranks() != 3) GTEST_SKIP() << "for rank 0, one that waits and one that does not come";
  world().configure({.hang_timeout = rank() == 1 ? 0.1 : 2});
  const auto text = error_without(2);

  if (rank() > 1) return;
  EXPECT_NE(text.find(rank() == 0 ? "does not answer" : "another rank has died"), std::string::npos)
      << text;
  if (rank() != 0) return;
  EXPECT_EQ(text.find("a rank has waited for longer than run.hang_timeout\n"), 0U) << text;
  EXPECT_NE(text.find("rank 2 (process "), std::string::npos) << text;
}

// Rank 0 was late, the others waited too long, and then it came: their alarms are void, also when
// it then waits itself for longer than a roll call.
TEST_P(RollCall, ALateRankEndsNothing) {
  if (ranks() != 4) GTEST_SKIP() << "for a few that wait";
  world().configure({.hang_timeout = 1.5});  // alarms hold until 2.5 s, a roll call takes 0.5 s
  double x = 1;
  if (rank() == 0) sleep(2);
  world().all_reduce({&x, 1});
  if (rank() == 1) sleep(0.8);
  world().all_reduce({&x, 1});
  world().configure({});
  EXPECT_EQ(x, ranks() * ranks());
}

TEST_P(RollCall, SaysWhenRanksWaitForDifferentOperations) {
  if (ranks() == 1) GTEST_SKIP() << "nobody to wait for";
  const Communicator other = world().split(0, rank());
  world().configure({.hang_timeout = 0.2});
  const auto src = tensor(50, rank()), a = blank(50 * ranks()), b = blank(50 * ranks());
  const auto gather = [&](const Communicator& c, const Tensor& dst, const char* unit) {
    return c.all_gather(backend(), after_compute(Queue::gather), dst.view(), src.view(),
                        {OperationKind::gather, unit});
  };
  std::string text;
  if (rank() == 0) {
    auto first = gather(world(), a, "blocks.0");
    text = message_of<Error>([&] { first.wait(Queue::compute); });
    auto second = gather(other, b, "head");
    world().configure({});
    first.wait(Queue::compute), second.wait(Queue::compute);
  } else {
    auto first = gather(other, b, "head");
    text = message_of<Error>([&] { first.wait(Queue::compute); });
    auto second = gather(world(), a, "blocks.0");
    world().configure({});
    first.wait(Queue::compute), second.wait(Queue::compute);
    return;
  }
  EXPECT_NE(text.find("rank 0 waits for gather of blocks.0 ("), std::string::npos) << text;
  EXPECT_NE(text.find("for gather of head ("), std::string::npos) << text;
  EXPECT_NE(text.find("all ranks answer, but wait for different operations"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace trireme::test
