#pragma once
// Pipeline: which stage runs which part of the model, and which messages result. The functions are
// pure.
//
// Each stage runs one or more chunks of the model. A chunk is a range of layers. The chunks of all
// stages, numbered in model order, are the virtual stages. Activations move down, from virtual
// stage 0 to the last virtual stage. Gradients move up.
#include <cstdint>
#include <functional>

#include "lib/pipe/program.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// The path of a micro-batch from the end of one chunk to the beginning of the next.
enum class Path : std::uint8_t {
  ring,  // back to the first stage
  fold,  // stays on the same stage: odd chunks run through the stages from last to first
};

// When weight gradients are computed if the backward pass is split. `late` delays them to fill idle
// time of the stage. `at_once` computes them right after the input gradients have been sent.
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
  // Returns true if messages must pass through host memory. With several chunks, device queues
  // could wait for each other in a cycle. With Path::ring, the cycle is the ring of stages. With
  // Path::fold, it includes the executor's waits for sends.
  bool through_host() const { return stages > 1 && chunks > 1; }
};

// The other end of a stage's message. A message goes down to the next stage (from the last stage to
// the first one), or up to the previous stage (from the first stage to the last one).
struct Peer {
  int stage;  // -1 if there is none
  int chunk;
  bool down;
};
// Returns the peer with which `stage` exchanges a message.
Peer peer_of(const Pipeline&, int stage, const Instruction& message);

// Returns a stage's program with messages inserted. `work` returns the instructions that a stage
// computes. Each tensor is sent right after it is computed, and is received just before it is
// needed. A device queue processes messages in order, so a tensor is received earlier if a later
// tensor in the same direction is needed first. Gradients are sent only to virtual stages from
// `first_trainable` on.
Program with_messages(const Pipeline&, int stage, int first_trainable,
                      const std::function<Program(int stage)>& work);

}  // namespace trireme
