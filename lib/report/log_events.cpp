#include "lib/report/log_events.hpp"

#include <charconv>
#include <optional>

#include "lib/base/text_parts.hpp"

namespace trireme {

// Returns the message of a line with the form "date time level message".
static std::string_view message_of(std::string_view line) {
  for (int word = 0; word < 3; ++word) {
    const auto space = line.find(' ');
    if (space == std::string_view::npos) return {};
    line.remove_prefix(space + 1);
  }
  return line;
}

// Removes the number with which `text` begins, and returns it.
static std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t n = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
  if (read.ec != std::errc()) return {};
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return n;
}

static bool take(std::string_view& text, std::string_view begin) {
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  return true;
}

static void restart(LogEvents& e, std::int64_t step) {
  e.restarts.push_back(step);
  e.skipped.erase(e.skipped.upper_bound(step), e.skipped.end());
  e.stalled.erase(e.stalled.upper_bound(step), e.stalled.end());
  e.checkpoints.erase(e.checkpoints.upper_bound(step), e.checkpoints.end());
}

static void read_line(LogEvents& e, std::string_view text) {
  if (take(text, "restarting from ")) {
    const auto at = text.rfind("(step ");
    if (at == std::string_view::npos) return;
    text.remove_prefix(at + 6);
    if (const auto step = take_number(text)) restart(e, *step);
    return;
  }
  if (!take(text, "step ")) return;
  const auto step = take_number(text);
  if (!step) return;
  if (take(text, " is skipped: "))
    e.skipped[*step] = text;
  else if (take(text, ": training stalled: "))
    e.stalled[*step] = text;
  else if (text.starts_with(": checkpoint "))
    e.checkpoints.insert(*step);
}

LogEvents log_events(std::string_view log) {
  LogEvents events;
  for (const auto line : split(log, '\n')) read_line(events, message_of(line));
  return events;
}

}  // namespace trireme
