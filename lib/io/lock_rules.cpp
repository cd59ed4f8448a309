#include "lib/io/lock_rules.hpp"

namespace trireme {

static bool is_earlier_start(const LockHolder& other, const LockHolder& me) {
  return me.job != "-" && other.job == me.job && other.restart < me.restart;
}

LockStep LockAttempt::replace(LockObservation::Life life) {
  if (life != LockObservation::Life::ended_and_flocked) needs_grace();
  return LockStep::replace;
}

LockStep LockAttempt::next(const LockObservation& seen, LockTime now) {
  using Life = LockObservation::Life;
  const bool same = before && before->there == seen.there && before->text == seen.text;
  const bool moved = same && before->time != seen.time;
  if (!same) since = now;
  before = seen;
  if (!seen.there) return LockStep::create;
  if (seen.text == text_of(me)) return now - since < grace ? LockStep::wait : LockStep::have;
  const auto other = parse_lock_holder(seen.text);
  const bool ended = seen.life == Life::ended || seen.life == Life::ended_and_flocked;
  if (!other || ended || is_earlier_start(*other, me)) return replace(seen.life);
  if (seen.life == Life::lives || moved) return LockStep::refuse;
  return now - since > times.silence ? replace(seen.life) : LockStep::wait;
}

}  // namespace trireme
