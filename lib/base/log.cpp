#include "lib/base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

#include "lib/base/error.hpp"

namespace trireme {

static spdlog::logger& logger() {
  static auto shared = [] {
    auto l = std::make_shared<spdlog::logger>(
        "trireme", std::make_shared<spdlog::sinks::stderr_color_sink_st>());
    l->set_pattern("%Y-%m-%d %H:%M:%S %^%l%$ %v");
    return l;
  }();
  return *shared;
}

void log_line(LogLevel level, std::string_view text) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::info, spdlog::level::warn,
                                                  spdlog::level::err};
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
  logger().flush_on(spdlog::level::info);
}

void log_quietly() {
  logger().set_level(spdlog::level::err);
}

}  // namespace trireme
