#pragma once
// The process-wide log. Lines go to stderr and, after log_to(), to a file as well. Each line begins
// with the time and level. Any thread may log. This header does not include spdlog's headers
// because they are slow to compile.
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

namespace trireme {

// Severity of a log line. `detail` lines are written to the file, and to stderr only if stderr is
// not a terminal. A terminal shows a progress line instead.
enum class LogLevel : std::uint8_t { detail, info, warning, error };

// Returns true if this process logs to a terminal and log_quietly() has not been called. Ranks that
// a launcher starts have no terminal, even if the launcher runs in one.
bool on_terminal();
// Sets whether stderr is treated as a terminal. Call the function before the first line is logged.
void log_as_to_terminal(bool);

// Logs a message. Control characters are escaped as in without_controls(). If the message has
// several lines, the second and later lines are indented by a space.
void log_line(LogLevel, std::string_view);
// Writes all further lines to `file` as well, by appending them. The first file also receives up to
// 100 lines that were logged before. An empty path stops logging to a file. Throws Error if the
// file cannot be opened.
void log_to(const std::filesystem::path& file);
// Limits the output on stderr to errors. All ranks except one call this.
void log_quietly();

template <class... A>
void log_detail(fmt::format_string<A...> text, A&&... args) {
  log_line(LogLevel::detail, fmt::format(text, std::forward<A>(args)...));
}
template <class... A>
void log_info(fmt::format_string<A...> text, A&&... args) {
  log_line(LogLevel::info, fmt::format(text, std::forward<A>(args)...));
}
template <class... A>
void log_warning(fmt::format_string<A...> text, A&&... args) {
  log_line(LogLevel::warning, fmt::format(text, std::forward<A>(args)...));
}
template <class... A>
void log_error(fmt::format_string<A...> text, A&&... args) {
  log_line(LogLevel::error, fmt::format(text, std::forward<A>(args)...));
}

}  // namespace trireme
