#pragma once
// What a pipeline stage does in one step, as data: a program is a list of instructions, each of one
// microbatch. Pure; lib/pipe/checker proves that the programs of all stages finish together.
//
// A stage may run several chunks of the model, each a range of its layers. Chunk c of stage s is
// virtual stage c * stages + s, so that activations go from stage to stage and from the last to
// the first one's next chunk. A single stage hands them from chunk to chunk itself.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/shard/config.hpp"

namespace trireme {

// Activations move down the virtual stages (0 to the last), gradients move up.
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

// In all programs backward runs in microbatch order on every virtual stage, and so do weight
// gradients, so that they are summed in the same order whatever the schedule and the number of
// stages. Virtual stages before `first_trainable` run forward only and no gradient is sent to them;
// if it is the number of them, nothing is trained.

// One forward, one backward (PipeDream-flush: Narayanan et al. 2021, "Efficient Large-Scale
// Language Model Training on GPU Clusters Using Megatron-LM", section 2.2): a stage starts stages -
// stage - 1 microbatches ahead, then alternates, so that it holds at most min(stages - stage,
// microbatches) inputs.
Program one_f_one_b(int stages, int microbatches, int stage, int first_trainable = 0);

// When zero_bubble() runs weight gradients: as late as keeps its stage busy, or right behind the
// gradients of inputs, which have left by then.
enum class WeightGradients : std::uint8_t { late, at_once };

// ZB-H1 (Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 2.2): 1F1B with backward in
// halves. Weight gradients are `stage` microbatches late (counted from the first that trains): they
// fill the time in which later stages would wait for inputs, and gradients reach earlier ones
// sooner. It holds as many inputs as 1F1B, and for as many microbatches as they are late what
// weight gradients read. The first stage that trains sends no gradient, so its backward is whole.
Program zero_bubble(int stages, int microbatches, int stage,
                    WeightGradients = WeightGradients::late, int first_trainable = 0);

// Interleaved 1F1B (Narayanan et al. 2021, section 2.2): microbatches go through all chunks in
// groups as large as the pipeline; a stage starts 2 * (stages - stage - 1) + (chunks - 1) * stages
// forwards of a chunk ahead, then alternates. `microbatches` is a multiple of `stages`.
Program interleaved(int stages, int chunks, int microbatches, int stage, int first_trainable = 0);

// Evaluation and generation: every microbatch forward, nothing kept.
Program forward_only(int stages, int microbatches, int stage, int chunks = 1);

// A pipeline, as the deck chooses it.
struct Pipeline {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int stages = 1, chunks = 1;
  WeightGradients weights = WeightGradients::late;  // of ScheduleKind::zero_bubble

  int virtual_stages() const { return stages * chunks; }
  int virtual_stage(int stage, int chunk) const { return chunk * stages + stage; }
};
Program training_program(const Pipeline&, int microbatches, int stage, int first_trainable = 0);
Program forward_program(const Pipeline&, int microbatches, int stage);
// Why no schedule of this kind has these chunks or, where they are known, microbatches; or empty.
std::string pipeline_fault(ScheduleKind, std::int64_t stages, std::int64_t chunks,
                           std::int64_t microbatches = 0);

std::string_view name_of(Do);
// "send_activation 3"
std::string describe(const Instruction&);

}  // namespace trireme
