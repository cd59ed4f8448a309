#include "lib/deck/microbatch.hpp"

#include <algorithm>

#include "lib/comm/grid.hpp"
#include "lib/pipe/schedule.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

std::int64_t default_microbatch(std::int64_t samples, std::int64_t common, std::int64_t pipe,
                                ScheduleKind schedule) {
  if (pipe == 1) return common;
  const bool groups = traits_of(schedule).groups;
  std::int64_t best = 1;
  for (const std::int64_t m : divisors(common)) {
    if (groups && common / m % pipe != 0) continue;
    if (samples / m >= 2 * pipe) best = std::max(best, m);
  }
  return best;
}

void decide_microbatch(Deck& deck) {
  const auto& p = deck.parallel;
  auto& t = deck.train;
  if (t.microbatch > 0 || p.data == 0) return;
  const auto common = common_batch(t);
  if (common % p.data == 0)
    t.microbatch = default_microbatch(t.batch / p.data, common / p.data, p.pipe, p.schedule);
}

}  // namespace trireme
