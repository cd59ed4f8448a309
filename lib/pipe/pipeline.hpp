#pragma once
// A pipeline as the deck chooses it: which stage runs which part of the model, and what becomes of
// that in messages. Pure.
//
// A stage may run several chunks of the model, each a range of its layers. Numbered in the order of
// the model they are virtual stages: activations move down them (0 to the last), gradients up.
#include <cstdint>
#include <functional>

#include "lib/pipe/program.hpp"
#include "lib/shard/config.hpp"

namespace trireme {

// From each chunk's last stage to the next chunk's first.
enum class Path : std::uint8_t {
  ring,  // on to the first stage, or within the only one
  fold,  // back: every other chunk runs through the stages from the last to the first
};

// When weight gradients run that come by themselves: as late as keeps the stage busy, or right
// behind the gradients of inputs, which have left by then.
enum class WeightGradients : std::uint8_t { late, at_once };

struct Pipeline {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int stages = 1, chunks = 1;
  WeightGradients weights = WeightGradients::late;

  int virtual_stages() const { return stages * chunks; }
  int virtual_stage(int stage, int chunk) const;
  int stage_of(int virtual_stage) const;
  int chunk_of(int virtual_stage) const { return virtual_stage / stages; }
  // Of the stage with the model's last layers.
  int last_stage() const { return stage_of(virtual_stages() - 1); }
  // Must its messages go through the host? Queues of devices block: around a ring of chunks they
  // wait for each other, and where chunks are folded, too, with the executor's waits for what
  // leaves.
  bool through_host() const { return stages > 1 && chunks > 1; }
};

// The other end of a stage's message. Down are messages to the next stage (after the last: the
// first), up those to the one before.
struct Peer {
  int stage;  // -1: there is none
  int chunk;
  bool down;
};
Peer peer_of(const Pipeline&, int stage, const Instruction& message);

// A stage's program, from what each stage computes: a tensor is sent right after it is made, and
// received just before it is read, or before another one of its direction that was sent later: a
// device's queue takes them in the order in which they were put. Gradients are sent to virtual
// stages from `first_trainable` on.
Program with_messages(const Pipeline&, int stage, int first_trainable,
                      const std::function<Program(int stage)>& work);

}  // namespace trireme
