#include "lib/run/progress.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "lib/base/log.hpp"

namespace trireme {

std::string clock_text(double seconds) {
  if (seconds < 0) return "--:--:--";
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return fmt::format("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

Progress::Progress(std::int64_t total_steps) : total_(total_steps), terminal_(on_terminal()) {}

// Leaves the cursor at the start of the line, so that whatever is printed next overwrites it.
void Progress::show(std::int64_t done, double loss, double tokens_per_second,
                    double seconds_left) const {
  if (!terminal_) return;
  const auto line = fmt::format("\033[Kstep {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left\r", done,
                                total_, loss, tokens_per_second, clock_text(seconds_left));
  std::fputs(line.c_str(), stderr);  // fails silently where the terminal is gone
  std::fflush(stderr);
}

Progress::~Progress() {
  if (terminal_) std::fputs("\033[K", stderr);
}

}  // namespace trireme
