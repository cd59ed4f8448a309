#pragma once
// Through which stages a microbatch comes, and so where messages go: what programs are judged by.
// It shares nothing with lib/pipe/pipeline.
#include <optional>
#include <utility>
#include <vector>

#include "lib/pipe/program.hpp"

namespace trireme {

enum class Toward : std::uint8_t { down, up };

struct Route {
  // A message from the last stage to the first goes down a ring.
  Route(int stages, std::vector<int> stage_of_virtual, bool ring_of_stages)
      : stage_of(std::move(stage_of_virtual)),
        ring(ring_of_stages),
        of_stage(static_cast<std::size_t>(stages)) {
    for (int v = 0; v < virtual_stages(); ++v) {
      auto& chunks = of_stage[static_cast<std::size_t>(at(v))];
      chunk.push_back(static_cast<int>(chunks.size()));
      chunks.push_back(v);
    }
  }
  std::vector<int> stage_of;  // of each virtual stage
  bool ring;
  std::vector<std::vector<int>> of_stage;  // virtual stages, by chunk
  std::vector<int> chunk;                  // of each virtual stage

  int virtual_stages() const { return static_cast<int>(stage_of.size()); }
  int at(int v) const { return stage_of[static_cast<std::size_t>(v)]; }
  int chunk_of(int v) const { return chunk[static_cast<std::size_t>(v)]; }

  struct Other {
    int stage;
    Instruction sent;  // the message, as its sender names it
    Toward toward;
  };
  // Of a message's other end.
  std::optional<Other> other(int stage, const Instruction& i) const {
    using enum Do;
    const bool activation = i.what == send_activation || i.what == receive_activation;
    const bool sends = i.what == send_activation || i.what == send_gradient;
    const auto& chunks = of_stage[static_cast<std::size_t>(stage)];
    if (i.chunk >= static_cast<int>(chunks.size())) return std::nullopt;
    const int here = chunks[static_cast<std::size_t>(i.chunk)];
    const int there = here + (activation == sends ? 1 : -1);
    if (there < 0 || there >= virtual_stages()) return std::nullopt;
    const int from = sends ? here : there, to = sends ? there : here;
    const bool down = ring ? activation : at(from) < at(to);
    return Other{at(there),
                 {activation ? send_activation : send_gradient, i.microbatch, chunk_of(from)},
                 down ? Toward::down : Toward::up};
  }
};

// In the order of the stages, once a chunk.
inline Route ring_of(int stages, int chunks = 1) {
  std::vector<int> at;
  for (int v = 0; v < stages * chunks; ++v) at.push_back(v % stages);
  return {stages, at, true};
}
// Down the stages and up again.
inline Route fold_of(int stages) {
  std::vector<int> at;
  for (int s = 0; s < stages; ++s) at.push_back(s);
  for (int s = stages; s-- > 0;) at.push_back(s);
  return {stages, at, false};
}

}  // namespace trireme
