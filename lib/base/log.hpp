#pragma once
// Process-wide log: stderr from the start, a file once `log_to` names one. Lines carry time and
// level. Kept free of spdlog's headers, which are slow to compile.
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

namespace trireme {

// `detail` is for the file, and for stderr unless that is a terminal (which shows progress).
enum class LogLevel : std::uint8_t { detail, info, warning, error };

// Is somebody watching stderr? A launcher that hides the terminal behind a pipe is told so by
// TRIREME_TERMINAL=1.
bool on_terminal();

void log_line(LogLevel, std::string_view);
// Appends to `file` as well, the first time with what was said before; an empty path stops that.
// Throws Error when it cannot be opened.
void log_to(const std::filesystem::path& file);
// Only one rank of a job speaks; the others keep errors alone.
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
