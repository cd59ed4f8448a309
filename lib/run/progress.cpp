#include "lib/run/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "lib/base/log.hpp"

namespace trireme {

std::string clock_text(double seconds) {
  if (seconds < 0) return "--:--:--";
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return fmt::format("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// Ignores errors, because the run must continue if the terminal disappears.
static void put(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

std::string progress_text(const ProgressLine& p, int columns) {
  const auto numbers =
      fmt::format("step {}/{}  loss {:.4f}  lr {:.3g}  {:.0f} tokens/s  {} left", p.done, p.total,
                  p.loss, p.lr, p.tokens_per_second, clock_text(p.seconds_left));
  const auto room = columns - static_cast<int>(numbers.size()) - 3;
  if (room < 4) return numbers.substr(0, static_cast<std::size_t>(std::max(columns, 0)));
  const auto wide = static_cast<std::size_t>(std::min(room, 30));
  const auto full = static_cast<std::size_t>(
      p.total > 0 ? static_cast<std::int64_t>(wide) * p.done / p.total : 0);
  return fmt::format("[{}{}] {}", std::string(full, '#'), std::string(wide - full, '-'), numbers);
}

// Returns the width of the terminal, or 80 if it is unknown, for example under a launcher.
static int columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

Progress::Progress() : terminal_(on_terminal()) {}

// Leaves the cursor at the start of the line, so that the next output overwrites the line.
void Progress::show(const ProgressLine& p) const {
  if (terminal_) put(fmt::format("\033[K{}\r", progress_text(p, columns() - 1)));
}

Progress::~Progress() {
  if (terminal_) put("\033[K");
}

}  // namespace trireme
