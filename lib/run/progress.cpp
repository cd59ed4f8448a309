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

// A terminal may go away, and the run goes on without.
static void put(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

Progress::Progress(std::int64_t total_steps) : total_(total_steps), terminal_(on_terminal()) {}

// Leaves the cursor at the start of the line, so that whatever is printed next overwrites it.
void Progress::show(std::int64_t done, double loss, double tokens_per_second,
                    double seconds_left) const {
  if (!terminal_) return;
  put(fmt::format("\033[Kstep {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left\r", done, total_, loss,
                  tokens_per_second, clock_text(seconds_left)));
}

Progress::~Progress() {
  if (terminal_) put("\033[K");
}

}  // namespace trireme
