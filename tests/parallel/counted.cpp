#include "tests/parallel/counted.hpp"

#include <gtest/gtest.h>

namespace trireme::test {

// A plan sends nothing that could be late.
static RankPlan plan_without_delays(const ParityCase& p, const BackendChoice& backend,
                                    const Communicator& world) {
  auto in = plan_input(p);
  in.comm = world.settings();
  in.comm.random_delays = 0;
  return plan_rank(in, dry_target(backend), world.rank());
}

Counted::Counted(const ParityCase& p, const BackendChoice& backend, const Axes& axes)
    : plan_(plan_without_delays(p, backend, axes.world)),
      sent_(axes.traffic()),
      experts_travel_(p.grid.expert > 1),
      keeps_rounds_(experts_travel_ &&
                    (p.schedule == ScheduleKind::zero_bubble || p.schedule == ScheduleKind::zbv)) {
  EXPECT_EQ(plan_.races, std::vector<std::string>{});
}

void Counted::step_sent(const Axes& axes) {
  const auto now = axes.traffic();
  EXPECT_EQ(now.shard - sent_.shard, plan_.step_traffic.shard);
  EXPECT_EQ(now.seq - sent_.seq, plan_.step_traffic.seq);
  EXPECT_EQ(now.pipe - sent_.pipe, plan_.step_traffic.pipe);
  // A plan's is of even loads.
  EXPECT_EQ(now.expert > sent_.expert, plan_.step_traffic.expert > 0);
  sent_ = now;
}

void Counted::taken(const Account& run) const {
  if (keeps_rounds_) return;
  const auto& plan = plan_.account;
  for (std::size_t k = 0; k < memory_kind_count; ++k) {
    EXPECT_EQ(run.live[k], plan.live[k]) << name_of(static_cast<MemoryKind>(k));
    EXPECT_EQ(run.peak[k], plan.peak[k]) << name_of(static_cast<MemoryKind>(k));
  }
  EXPECT_EQ(run.live_all, plan.live_all);
  EXPECT_EQ(run.peak_all, plan.peak_all);
  EXPECT_EQ(run.pinned_reserved, plan.pinned_reserved);
  // Gaps depend on how many rounds tokens took to their experts; a plan has those of several.
  if (experts_travel_)
    EXPECT_LE(run.reserved, plan.reserved);
  else
    EXPECT_EQ(run.reserved, plan.reserved);
}

}  // namespace trireme::test
