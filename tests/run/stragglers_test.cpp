#include "lib/run/stragglers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Two hosts of two ranks.
std::vector<Stragglers::Member> two_hosts(int stages = 1) {
  return {{"n1", 0}, {"n1", 0}, {"n2", stages - 1}, {"n2", stages - 1}};
}

// The work of a rank in a line whose steps take one second: reading, forward, backward, optimizer.
RankWork work(double forward, double backward) {
  return {{0.01, forward, backward, 0.01}, 1};
}

TEST(Stragglers, WorkIsTimeWithoutWaits) {
  std::array<double, task_count> before{}, after{};
  for (std::size_t t = 0; t < task_count; ++t) {
    before[t] = 1;
    after[t] = 1 + static_cast<double>(1 << t);
  }
  const auto w = work_between(before, after);
  EXPECT_THAT(w.own, ElementsAre(2, 4, 8, 1024));
  EXPECT_EQ(w.all_own(), 1038);
  // All but starting, evaluating, sampling, saving and other.
  EXPECT_EQ(w.steps, 2046);
}

TEST(Stragglers, ASlowHostIsNamedOnceAndWhatItIsSlowerAt) {
  Stragglers watch(two_hosts());
  const std::vector<RankWork> all{work(0.2, 0.3), work(0.2, 0.31), work(0.2, 0.3), work(0.21, 0.5)};
  for (int line = 1; line < 20; ++line) EXPECT_THAT(watch.after(all), IsEmpty()) << line;
  EXPECT_THAT(watch.after(all),
              ElementsAre(AllOf(HasSubstr("host n2 is slow"), HasSubstr("rank 3"),
                                HasSubstr("backward 10 s instead of 6 s"),
                                Not(HasSubstr("forward")), Not(HasSubstr("reading")))));
  for (int line = 0; line < 100; ++line) EXPECT_THAT(watch.after(all), IsEmpty());
}

TEST(Stragglers, OneLineAsOthersBeginsAnew) {
  Stragglers watch(two_hosts());
  const std::vector<RankWork> slow{work(0.2, 0.3), work(0.2, 0.3), work(0.2, 0.3), work(0.4, 0.3)};
  std::vector<RankWork> usual = slow;
  usual[3] = work(0.2, 0.39);  // 18% above
  for (int line = 0; line < 19; ++line) EXPECT_THAT(watch.after(slow), IsEmpty());
  EXPECT_THAT(watch.after(usual), IsEmpty());
  for (int line = 0; line < 19; ++line) EXPECT_THAT(watch.after(slow), IsEmpty());
  EXPECT_THAT(watch.after(slow), ElementsAre(HasSubstr("forward 8 s instead of 4 s")));
}

TEST(Stragglers, OneOfTwoRanksAndAWholeHostMayBeSlow) {
  Stragglers two({{"n1", 0}, {"n2", 0}});
  Stragglers four(two_hosts());
  std::vector<std::string> of_two, of_four;
  for (int line = 0; line < 20; ++line) {
    of_two = two.after(std::vector{work(0.25, 0.4), work(0.2, 0.3)});
    of_four =
        four.after(std::vector{work(0.2, 0.3), work(0.2, 0.3), work(0.3, 0.4), work(0.35, 0.4)});
  }
  EXPECT_THAT(of_two, ElementsAre(HasSubstr("host n1 is slow")));
  EXPECT_THAT(of_four, ElementsAre(AllOf(HasSubstr("host n2 is slow"), HasSubstr("rank 3"))));
}

TEST(Stragglers, SlownessThatMovesBetweenRanksNamesNobody) {
  Stragglers watch(two_hosts());
  for (int line = 0; line < 200; ++line) {
    std::vector<RankWork> all(4, work(0.2, 0.3));
    all[line % 38 < 19 ? 2 : 3] = work(0.4, 0.6);  // of one host
    EXPECT_THAT(watch.after(all), IsEmpty()) << line;
  }
}

TEST(Stragglers, StagesWithOtherWorkAreNotCompared) {
  Stragglers watch(two_hosts(2));
  const std::vector<RankWork> all{work(0.2, 0.3), work(0.2, 0.3), work(0.4, 0.6), work(0.4, 0.6)};
  for (int line = 0; line < 100; ++line) EXPECT_THAT(watch.after(all), IsEmpty());
}

TEST(Stragglers, WorkThatTakesLittleOfTheTimeIsNotCompared) {
  Stragglers watch(two_hosts());
  const std::vector<RankWork> all{work(0.01, 0.01), work(0.01, 0.01), work(0.01, 0.01),
                                  work(0.02, 0.04)};
  for (int line = 0; line < 100; ++line) EXPECT_THAT(watch.after(all), IsEmpty());
}

}  // namespace
}  // namespace trireme
