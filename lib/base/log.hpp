#pragma once
// Process-wide log to stderr and, after `log_to`, a file. Lines carry time and level. Free of
// spdlog's headers, which are slow to compile.
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

namespace trireme {

// `detail` goes to the file, and to stderr unless that is a terminal (which shows progress).
enum class LogLevel : std::uint8_t { detail, info, warning, error };

// Is stderr a terminal? A launcher gives its ranks none, even where it is started on one.
bool on_terminal();
// Says whether it is; before the first line.
void log_as_to_terminal(bool);

void log_line(LogLevel, std::string_view);  // without_controls; further lines begin with a blank
// Logs to `file` as well (appends; first the lines logged before it was set); an empty path ends
// that. Throws Error when it cannot be opened.
void log_to(const std::filesystem::path& file);
// Logs errors alone: for all ranks but one.
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
