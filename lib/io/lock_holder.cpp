#include "lib/io/lock_holder.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace trireme {

std::string short_text_of(const LockHolder& h) {
  return fmt::format("job {} restart {} process {} on {}", h.job, h.restart, h.process, h.host);
}

std::string text_of(const LockHolder& h) {
  return fmt::format("{} of {} id {}{}", short_text_of(h), h.pid_space, h.id,
                     h.recovery > 0 ? fmt::format(" recovery {}", h.recovery) : "");
}

std::optional<LockHolder> parse_lock_holder(const std::string& text) {
  LockHolder h;
  char job[256], host[256], pid_space[256] = "-", id[256] = "-";
  if (std::sscanf(text.c_str(),
                  "job %255s restart %d process %d on %255s of %255s id %255s recovery %d", job,
                  &h.restart, &h.process, host, pid_space, id, &h.recovery) < 4)
    return {};
  h.job = job;
  h.host = host;
  h.pid_space = pid_space;
  h.id = id;
  return h;
}

bool share_pids(const LockHolder& a, const LockHolder& b) {
  return a.pid_space != "-" && a.pid_space == b.pid_space && a.host == b.host;
}

}  // namespace trireme
