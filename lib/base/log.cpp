#include "lib/base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "lib/base/error.hpp"

namespace trireme {

static bool quiet = false;

bool on_terminal() {
  if (quiet) return false;
  static const bool terminal = [] {
    const char* told = std::getenv("TRIREME_TERMINAL");
    return told ? std::string_view(told) == "1" : isatty(STDERR_FILENO) == 1;
  }();
  return terminal;
}

// The first sink is stderr, a second the file.
static spdlog::logger& logger() {
  static auto shared = [] {
    auto l = std::make_shared<spdlog::logger>(
        "trireme", std::make_shared<spdlog::sinks::stderr_color_sink_st>());
    // A terminal's line may hold the progress of a run: erase it first.
    l->set_pattern(on_terminal() ? "\033[K%H:%M:%S %^%l%$ %v" : "%Y-%m-%d %H:%M:%S %l %v");
    l->flush_on(spdlog::level::info);
    return l;
  }();
  return *shared;
}

void log_line(LogLevel level, std::string_view text) {
  if (level == LogLevel::detail && on_terminal()) {
    const spdlog::details::log_msg message("trireme", spdlog::level::info, text);
    for (auto& sink : std::span(logger().sinks()).subspan(1)) {
      sink->log(message);
      sink->flush();
    }
    return;
  }
  logger().log(level == LogLevel::warning ? spdlog::level::warn
               : level == LogLevel::error ? spdlog::level::err
                                          : spdlog::level::info,
               text);
}

void log_to(const std::filesystem::path& file) {
  auto& sinks = logger().sinks();
  sinks.resize(1);
  if (file.empty()) return;
  try {
    sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_st>(file.string()));
  } catch (const spdlog::spdlog_ex& e) {
    fail("cannot write the log file {}: {}", file.string(), e.what());
  }
  sinks.back()->set_pattern("%Y-%m-%d %H:%M:%S %l %v");
}

void log_quietly() {
  quiet = true;
  logger().sinks()[0]->set_level(spdlog::level::err);
}

}  // namespace trireme
