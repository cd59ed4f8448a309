#pragma once
// Labels, which describe the purpose of an operation in error messages and traces.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/timesheet.hpp"
#include "lib/base/value_names.hpp"

namespace trireme {
namespace engine {
// The kind of operation. `tie` combines the gradients of tied embeddings of two stages.
enum class OperationKind : std::uint8_t { gather, scatter, exchange, send, receive, tie };
}  // namespace engine
template <>
inline constexpr auto value_names<engine::OperationKind> =
    named<engine::OperationKind>("gather", "scatter", "exchange", "send", "receive", "tie");
}  // namespace trireme

namespace trireme::engine {

// The Timesheet task to which the wait for an operation is attributed, indexed by OperationKind.
inline constexpr std::array task_by_kind = {Task::gather,   Task::scatter,  Task::exchange,
                                            Task::pipeline, Task::pipeline, Task::scatter};
static_assert(task_by_kind.size() == value_names<OperationKind>.size());

// The purpose of an operation. `unit` is a name from the model's spec and must outlive the
// operation. `microbatch` is -1 if the operation belongs to no micro-batch.
struct Label {
  OperationKind doing;
  std::string_view unit = {};
  int microbatch = -1;
};
// Returns a text like "gather of blocks.3, microbatch 2".
std::string to_string(const Label&);

}  // namespace trireme::engine
