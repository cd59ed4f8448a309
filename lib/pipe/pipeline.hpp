#pragma once
// Pipeline: which stage runs which part of the model, and the resulting messages. The functions are
// pure.
//
// Each stage runs one or more chunks of the model; a chunk is a range of layers. All chunks,
// numbered in the order of the model, are the virtual stages. Activations move down, from virtual
// stage 0 to the last one. Gradients move up.
#include <cstdint>
#include <functional>

#include "lib/pipe/program.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// The path of a micro-batch from the end of one chunk to the beginning of the next.
enum class Path : std::uint8_t {
  ring,  // back to the first stage
  fold,  // stays on the same stage: odd chunks run from the last stage to the first
};

// When weight gradients run if the backward pass is split: as late as keeps the stage busy, or
// right after the input gradients have been sent.
enum class WeightGradients : std::uint8_t { late, at_once };

// The division of a model into stages and chunks, and its schedule.
struct Pipeline {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int stages = 1, chunks = 1;
  WeightGradients weights = WeightGradients::late;

  int virtual_stages() const { return stages * chunks; }
  int virtual_stage(int stage, int chunk) const;
  int stage_of(int virtual_stage) const;
  int chunk_of(int virtual_stage) const { return virtual_stage / stages; }
  // Returns the stage with the model's last layers.
  int last_stage() const { return stage_of(virtual_stages() - 1); }
  // Returns true if messages must pass through host memory. With several chunks, the queues of
  // devices could wait for each other: around a ring, or, with folded chunks, together with the
  // executor's waits for sends.
  bool through_host() const { return stages > 1 && chunks > 1; }
};

// The other end of a stage's message. A message goes down to the next stage (from the last stage to
// the first) or up to the previous stage.
struct Peer {
  int stage;  // -1 if there is none
  int chunk;
  bool down;
};
// Returns the peer of a message of `stage`.
Peer peer_of(const Pipeline&, int stage, const Instruction& message);

// Returns a stage's program with messages inserted. `work` returns the instructions that a stage
// computes. Each tensor is sent right after it is computed. It is received just before it is
// needed, or earlier if a tensor that was sent later in the same direction is needed first, because
// a device's queue processes messages in order. Gradients are sent to virtual stages from
// `first_trainable` on.
Program with_messages(const Pipeline&, int stage, int first_trainable,
                      const std::function<Program(int stage)>& work);

}  // namespace trireme
