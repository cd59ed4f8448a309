#pragma once
// Program: the work of one pipeline stage in one step, as a list of instructions. Each instruction
// applies to one micro-batch and one of the stage's model chunks.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Kinds of instruction.
enum class Do : std::uint8_t {
  receive_activation,
  forward,
  send_activation,
  receive_gradient,
  backward,
  send_gradient,
  // The two halves of a split backward pass. `input_gradients` computes the gradients that are sent
  // to the previous stage. `weight_gradients` computes the gradients that are accumulated.
  input_gradients,
  weight_gradients,
};
inline constexpr int kinds_of_work = 8;

// One instruction of a stage's program.
struct Instruction {
  Do what;
  int microbatch;
  int chunk = 0;

  bool operator==(const Instruction&) const = default;
};

using Program = std::vector<Instruction>;

// Returns true if the instruction computes, and false if it is a message.
bool computes(Do);
// Returns the instruction that computes input gradients in this program: `backward`, or
// `input_gradients` if the program splits the backward pass.
Do backward_of(const Program&);

std::string_view name_of(Do);
// Returns a text like "send_activation 3".
std::string describe(const Instruction&);

}  // namespace trireme
