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

// Does stderr end at a terminal, as lib/base/terminal.hpp finds out? TRIREME_TERMINAL=1 says that
// it does, 0 that it does not.
bool on_terminal();

// A name or a text of a file in it cannot drive a terminal (`without_controls`).
void log_line(LogLevel, std::string_view);
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
