#pragma once
// The purpose of an operation, shown in error messages and traces.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/timesheet.hpp"
#include "lib/base/value_names.hpp"

namespace trireme {
namespace engine {
enum class Doing : std::uint8_t { gather, scatter, exchange, send, receive, tie };
}
template <>
inline constexpr auto value_names<engine::Doing> = named<engine::Doing>("gather", "scatter",
                                                                        "exchange", "send",
                                                                        "receive", "tie");
}  // namespace trireme

namespace trireme::engine {

// What time spent waiting for one counts as.
inline constexpr std::array task_by_doing = {Task::gather,   Task::scatter,  Task::exchange,
                                             Task::pipeline, Task::pipeline, Task::scatter};
static_assert(task_by_doing.size() == value_names<Doing>.size());

// `unit` outlives the operation (a name of the model's spec).
struct Label {
  Doing doing;
  std::string_view unit = {};
  int microbatch = -1;
};
std::string to_string(const Label&);  // "gather of blocks.3, microbatch 2"

}  // namespace trireme::engine
