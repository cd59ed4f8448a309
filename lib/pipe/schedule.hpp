#pragma once
// What a pipeline stage does in one step, as data: a program is a list of instructions, each of one
// microbatch. Pure; lib/pipe/checker proves that the programs of all stages finish together.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Activations move down the stages (0 to the last), gradients move up.
enum class Do : std::uint8_t {
  receive_activation,
  forward,
  send_activation,
  receive_gradient,
  backward,
  send_gradient
};

struct Instruction {
  Do what;
  int microbatch;
  int chunk = 0;  // part of an interleaved stage; 0 until there are any

  bool operator==(const Instruction&) const = default;
};

using Program = std::vector<Instruction>;

// One forward, one backward (PipeDream-flush: Narayanan et al. 2021, "Efficient Large-Scale
// Language Model Training on GPU Clusters Using Megatron-LM", section 2.2): a stage starts stages -
// stage - 1 microbatches ahead, then alternates, so that it holds at most min(stages - stage,
// microbatches) inputs. Backward runs in microbatch order on every stage, so gradients are summed
// in the same order whatever the number of stages. Stages before first_trainable_stage run forward
// only and no gradient is sent to them; first_trainable_stage == stages: nothing is trained.
Program one_f_one_b(int stages, int microbatches, int stage, int first_trainable_stage = 0);

// Evaluation and generation: every microbatch forward, nothing kept.
Program forward_only(int stages, int microbatches, int stage);

std::string_view name_of(Do);
// "send_activation 3"
std::string describe(const Instruction&);

}  // namespace trireme
