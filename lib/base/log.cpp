#include "lib/base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "lib/base/error.hpp"

namespace trireme {

static spdlog::logger& logger() {
  static auto shared = [] {
    auto l = std::make_shared<spdlog::logger>(
        "trireme", std::make_shared<spdlog::sinks::stderr_color_sink_st>());
    // A terminal's line may hold the progress of a run: erase it first.
    const bool terminal = isatty(STDERR_FILENO) == 1;
    l->set_pattern(terminal ? "\033[K%H:%M:%S %^%l%$ %v" : "%Y-%m-%d %H:%M:%S %l %v");
    l->set_level(spdlog::level::debug);
    l->sinks()[0]->set_level(terminal ? spdlog::level::info : spdlog::level::debug);
    return l;
  }();
  return *shared;
}

void log_line(LogLevel level, std::string_view text) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info,
                                                  spdlog::level::warn, spdlog::level::err};
  logger().log(levels[static_cast<int>(level)], text);
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
  sinks.back()->set_level(spdlog::level::debug);
  logger().flush_on(spdlog::level::debug);
}

void log_quietly() {
  logger().sinks()[0]->set_level(spdlog::level::err);
}

}  // namespace trireme
