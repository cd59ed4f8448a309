#pragma once
// The purpose of an operation, shown in error messages and traces.
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::engine {

enum class Doing : std::uint8_t { gather, scatter, exchange, send, receive, tie };

// `unit` outlives the operation (a name of the model's spec).
struct Label {
  Doing doing;
  std::string_view unit = {};
  int microbatch = -1;
};
std::string_view name_of(Doing);
std::string to_string(const Label&);  // "gather of blocks.3, microbatch 2"

}  // namespace trireme::engine
