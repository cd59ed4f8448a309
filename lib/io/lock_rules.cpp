#include "lib/io/lock_rules.hpp"

#include <utility>

namespace trireme {

static bool is_earlier_start(const LockHolder& other, const LockHolder& me) {
  return me.job != "-" && other.job == me.job &&
         std::pair(other.restart, other.recovery) < std::pair(me.restart, me.recovery);
}

LockStep LockAttempt::replace(LockObservation::Liveness liveness) {
  if (liveness != LockObservation::Liveness::ended_and_flocked) needs_grace();
  return LockStep::replace;
}

LockStep LockAttempt::next(const LockObservation& seen, LockTime now) {
  using Liveness = LockObservation::Liveness;
  const bool same = before && before->there == seen.there && before->text == seen.text;
  const bool moved = same && before->time != seen.time;
  if (!same) since = now;
  before = seen;
  if (!seen.there) return LockStep::create;
  if (seen.text == text_of(me)) return now - since < grace ? LockStep::wait : LockStep::have;
  const auto other = parse_lock_holder(seen.text);
  const bool ended =
      seen.liveness == Liveness::ended || seen.liveness == Liveness::ended_and_flocked;
  if (!other || ended || is_earlier_start(*other, me)) return replace(seen.liveness);
  if (seen.liveness == Liveness::alive || moved) return LockStep::refuse;
  return now - since > times.silence ? replace(seen.liveness) : LockStep::wait;
}

}  // namespace trireme
