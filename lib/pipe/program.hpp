#pragma once
// What a pipeline stage does in one step, as data: a program is a list of instructions, each of one
// microbatch and one of the stage's chunks of the model.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class Do : std::uint8_t {
  receive_activation,
  forward,
  send_activation,
  receive_gradient,
  backward,
  send_gradient,
  // Backward in two halves: the first makes what is sent, the second what is summed.
  input_gradients,
  weight_gradients,
};
inline constexpr int kinds_of_work = 8;

struct Instruction {
  Do what;
  int microbatch;
  int chunk = 0;

  bool operator==(const Instruction&) const = default;
};

using Program = std::vector<Instruction>;

// Does it compute? Else it is a message.
bool computes(Do);
// What gradients of inputs come from in this program: `backward`, or its first half.
Do backward_of(const Program&);

std::string_view name_of(Do);
// "send_activation 3"
std::string describe(const Instruction&);

}  // namespace trireme
