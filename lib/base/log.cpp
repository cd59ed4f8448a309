#include "lib/base/log.hpp"

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/log_errors.hpp"
#include "lib/base/posix_file.hpp"

namespace trireme {

static bool quiet = false;
static std::optional<bool> terminal;

void log_as_to_terminal(bool yes) {
  terminal = yes;
}

bool on_terminal() {
  if (!terminal) terminal = ::isatty(STDERR_FILENO) == 1;
  return *terminal && !quiet;
}

// Returns the logger. Its first sink is stderr. The second sink, if any, is the log file.
static spdlog::logger& logger() {
  static auto shared = [] {
    auto l = std::make_shared<spdlog::logger>(
        "trireme", std::make_shared<spdlog::sinks::stderr_color_sink_st>());
    // Erase the terminal's line first, because it may show the progress of a run.
    l->set_pattern(on_terminal() ? "\033[K%H:%M:%S %^%l%$ %v" : "%Y-%m-%d %H:%M:%S %l %v");
    l->flush_on(spdlog::level::info);
    // Called if the log file cannot be written. stderr still receives all lines.
    l->set_error_handler([](const std::string& why) {
      static bool said = false;
      if (!std::exchange(said, true))
        fmt::print(stderr, "some lines could not be written to the log file: {}\n", why);
    });
    return l;
  }();
  return *shared;
}

// A line that was logged before there was a log file. The first log file receives these lines.
struct EarlyLine {
  spdlog::log_clock::time_point time;
  spdlog::level::level_enum level;
  std::string text;
};
static std::vector<EarlyLine> early;
// Protects all static variables here, because the signal thread also logs.
static std::mutex one_at_a_time;
static bool had_file = false;

static spdlog::level::level_enum level_of(LogLevel l) {
  if (l == LogLevel::warning) return spdlog::level::warn;
  return l == LogLevel::error ? spdlog::level::err : spdlog::level::info;
}

static std::filesystem::path errors_file;

void log_errors_to(std::filesystem::path file) {
  errors_file = std::move(file);
}

// Appends the line in one write, so that lines of several ranks do not mix.
static void add_error(std::string_view text) {
  const int file = ::open(errors_file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char when[32];
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
  const auto line = fmt::format("{} error {}\n", when, text);
  if (::write(file, line.data(), line.size()) < 0) std::perror("writing the log");
  ::close(file);
}

// Indents the lines after the first, so that none of them looks like a separate message.
static std::string printable(std::string_view message) {
  auto text = without_controls(message);
  for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
    if (at + 1 < text.size() && text[at + 1] != ' ') text.insert(at + 1, "  ");
  return text;
}

void log_line(LogLevel level, std::string_view message) {
  const auto text = printable(message);
  const std::scoped_lock lock(one_at_a_time);
  if (level == LogLevel::error && !errors_file.empty()) add_error(text);
  if (!had_file && early.size() < 100)
    early.push_back({spdlog::log_clock::now(), level_of(level), text});
  if (level == LogLevel::detail && on_terminal()) {
    const spdlog::details::log_msg message("trireme", spdlog::level::info, text);
    for (auto& sink : std::span(logger().sinks()).subspan(1)) {
      sink->log(message);
      sink->flush();
    }
    return;
  }
  logger().log(level_of(level), text);
}

void log_to(const std::filesystem::path& file) {
  const std::scoped_lock lock(one_at_a_time);
  auto& sinks = logger().sinks();
  sinks.resize(1);
  if (file.empty()) return;
  std::error_code e;
  require(!std::filesystem::exists(file, e) || std::filesystem::is_regular_file(file, e),
          "cannot write the log file {}: it is not a regular file", file.string());
  try {
    sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_st>(file.string()));
  } catch (const spdlog::spdlog_ex&) {
    fail_errno("write the log file", file, errno);
  }
  sinks.back()->set_pattern("%Y-%m-%d %H:%M:%S %l %v");
  had_file = true;
  for (const auto& line : std::exchange(early, {}))
    sinks.back()->log(spdlog::details::log_msg(line.time, {}, "trireme", line.level, line.text));
}

void log_quietly() {
  const std::scoped_lock lock(one_at_a_time);
  quiet = true;
  logger().sinks()[0]->set_level(spdlog::level::err);
}

}  // namespace trireme
