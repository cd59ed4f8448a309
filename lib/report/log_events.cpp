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

static void forget_after(LogEvents& e, std::int64_t step) {
  const auto cut = [&](auto& events) { events.erase(events.upper_bound(step), events.end()); };
  cut(e.skipped);
  cut(e.stalled);
  cut(e.slow);
  cut(e.checkpoints);
  cut(e.rollbacks);
  cut(e.phases);
  cut(e.batches);
}

// Returns the step to which the run rolls back, if the line says so.
static std::optional<std::int64_t> rolled_back_to(std::string_view text) {
  constexpr std::string_view words =
      " were skipped, so the run rolls back to the checkpoint of step ";
  const auto at = text.find(words);
  if (!text.starts_with("steps ") || at == text.npos) return {};
  text.remove_prefix(at + words.size());
  return take_number(text);
}

// Reads a line. `rolled_back` is the step to which the run has just rolled back, or -1. The line
// about the checkpoint that follows is not about a restart.
static void read_line(LogEvents& e, std::string_view text, std::int64_t& rolled_back) {
  if (const auto to = rolled_back_to(text)) {
    forget_after(e, *to);
    e.rollbacks.emplace(*to, text);
    rolled_back = *to;
    return;
  }
  if (take(text, "restarting from ")) {
    const auto at = text.rfind("(step ");
    if (at == std::string_view::npos) return;
    text.remove_prefix(at + 6);
    const auto step = take_number(text);
    if (!step) return;
    if (*step != rolled_back) e.restarts.push_back(*step);
    rolled_back = -1;
    forget_after(e, *step);
    return;
  }
  if (!take(text, "step ")) return;
  const auto step = take_number(text);
  if (!step) return;
  if (take(text, " is skipped: "))
    e.skipped[*step] = text;
  else if (take(text, ": training stalled: "))
    e.stalled[*step] = text;
  else if (take(text, ": host "))
    e.slow[*step] = text;
  else if (take(text, ": the samples now come from "))
    e.phases[*step] = text;
  else if (take(text, ": the batch grows "))
    e.batches[*step] = text;
  else if (text.starts_with(": checkpoint "))
    e.checkpoints.insert(*step);
}

LogEvents log_events(std::string_view log) {
  LogEvents events;
  std::int64_t rolled_back = -1;
  for (const auto line : split(log, '\n')) read_line(events, message_of(line), rolled_back);
  return events;
}

}  // namespace trireme
