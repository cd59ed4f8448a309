#include "lib/io/lock_rules.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace trireme {

std::string short_text_of(const LockHolder& h) {
  return fmt::format("job {} restart {} process {} on {}", h.job, h.restart, h.process, h.host);
}

std::string text_of(const LockHolder& h) {
  return fmt::format("{} of {} id {}", short_text_of(h), h.kernel, h.id);
}

std::optional<LockHolder> parse_lock_holder(const std::string& text) {
  LockHolder h;
  char job[256], host[256], kernel[256] = "-", id[256] = "-";
  if (std::sscanf(text.c_str(), "job %255s restart %d process %d on %255s of %255s id %255s", job,
                  &h.restart, &h.process, host, kernel, id) < 4)
    return {};
  h.job = job;
  h.host = host;
  h.kernel = kernel;
  h.id = id;
  return h;
}

bool same_kernel(const LockHolder& a, const LockHolder& b) {
  return a.kernel != "-" && a.kernel == b.kernel && a.host == b.host;
}

static bool is_earlier_start(const LockHolder& other, const LockHolder& me) {
  return me.job != "-" && other.job == me.job && other.restart < me.restart;
}

LockStep LockTaking::replace(LockSight::Life life) {
  if (life != LockSight::Life::ended_alone) rests();
  return LockStep::replace;
}

LockStep LockTaking::next(const LockSight& seen, LockTime now) {
  using Life = LockSight::Life;
  const bool same = before && before->there == seen.there && before->text == seen.text;
  const bool moved = same && before->time != seen.time;
  if (!same) since = now;
  before = seen;
  if (!seen.there) return LockStep::create;
  if (seen.text == text_of(me)) return now - since < rest ? LockStep::wait : LockStep::have;
  const auto other = parse_lock_holder(seen.text);
  const bool ended = seen.life == Life::ended || seen.life == Life::ended_alone;
  if (!other || ended || is_earlier_start(*other, me)) return replace(seen.life);
  if (seen.life == Life::lives || moved) return LockStep::refuse;
  return now - since > pauses.silence ? replace(seen.life) : LockStep::wait;
}

}  // namespace trireme
