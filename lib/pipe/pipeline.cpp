#include "lib/pipe/pipeline.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "lib/base/error.hpp"
#include "lib/pipe/schedule.hpp"

namespace trireme {

using enum Do;

// Returns true if the chunk runs through the stages from the last to the first.
static bool runs_back(const Pipeline& p, int chunk) {
  return traits_of(p.schedule).path == Path::fold && chunk % 2 == 1;
}

int Pipeline::virtual_stage(int stage, int chunk) const {
  return chunk * stages + (runs_back(*this, chunk) ? stages - 1 - stage : stage);
}

int Pipeline::stage_of(int virtual_stage) const {
  const int place = virtual_stage % stages;
  return runs_back(*this, chunk_of(virtual_stage)) ? stages - 1 - place : place;
}

Peer peer_of(const Pipeline& p, int stage, const Instruction& message) {
  const bool activation = message.what == send_activation || message.what == receive_activation;
  const bool sends = message.what == send_activation || message.what == send_gradient;
  const int here = p.virtual_stage(stage, message.chunk);
  const int there = activation == sends ? here + 1 : here - 1;
  if (there < 0 || there >= p.virtual_stages()) return {-1, 0, activation};
  return {p.stage_of(there), p.chunk_of(there),
          activation != runs_back(p, p.chunk_of(std::min(here, there)))};
}

// Returns the receive that must precede an instruction, or the send that must follow it. Returns
// nothing if the instruction needs no message to or from another stage.
static std::optional<Instruction> message(const Pipeline& p, int stage, const Instruction& i,
                                          Do of_forward, Do of_backward) {
  if (i.what == weight_gradients) return std::nullopt;
  const Instruction m{i.what == forward ? of_forward : of_backward, i.microbatch, i.chunk};
  const int peer = peer_of(p, stage, m).stage;
  return peer == -1 || peer == stage ? std::nullopt : std::optional(m);
}

Program with_messages(const Pipeline& p, int stage, int first_trainable,
                      const std::function<Program(int stage)>& work) {
  expect(p.stages >= 1 && p.chunks >= 1 && stage >= 0 && stage < p.stages,
         "a program's stage is one of its stages");
  expect(first_trainable >= 0 && first_trainable <= p.virtual_stages(),
         "the first trainable stage is one of the stages or the number of them");
  const auto sent_behind = [&](int s, const Instruction& i) {
    const bool wanted = i.what == forward || p.virtual_stage(s, i.chunk) > first_trainable;
    return wanted ? message(p, s, i, send_activation, send_gradient) : std::nullopt;
  };
  // Messages that arrive at this stage, in the order in which the neighbor sends them. Index 1
  // holds the messages that come down the pipeline, index 0 those that come up.
  struct Arriving {
    Program all, early;  // early: received before needed
    std::size_t next = 0;
  };
  std::array<Arriving, 2> arriving;
  for (const bool down : {false, true}) {
    const int from = (stage + (down ? p.stages - 1 : 1)) % p.stages;
    if (from == stage) continue;
    for (const auto& i : work(from)) {
      const auto sent = sent_behind(from, i);
      if (!sent) continue;
      const Peer to = peer_of(p, from, *sent);
      if (to.down == down)
        arriving[down].all.push_back(
            {sent->what == send_activation ? receive_activation : receive_gradient, i.microbatch,
             to.chunk});
    }
  }
  Program program;
  for (const auto& i : work(stage)) {
    if (const auto read = message(p, stage, i, receive_activation, receive_gradient)) {
      auto& [all, early, next] = arriving[peer_of(p, stage, *read).down];
      for (bool here = std::erase(early, *read) > 0; !here;) {
        if (next == all.size()) fail("the schedule receives a tensor that no stage sends");
        program.push_back(all[next++]);
        here = program.back() == *read;
        if (!here) early.push_back(program.back());
      }
    }
    program.push_back(i);
    if (const auto made = sent_behind(stage, i)) program.push_back(*made);
  }
  return program;
}

}  // namespace trireme
