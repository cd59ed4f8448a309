#include "lib/comm/nccl_memory.hpp"

namespace trireme {

std::size_t nccl_memory(const Axes& a, int last_stage) {
  constexpr std::size_t of_two = 544'000'000, of_more = 688'000'000;
  constexpr std::size_t of_peer = std::size_t{32} * (12 << 20);
  std::size_t bytes = 0;
  for (const auto* c : {&a.gather, &a.scatter, &a.replicas})
    if (c->size() > 1) bytes += c->size() == 2 ? of_two : of_more;
  if (a.grid.expert > 1) {
    for (const auto* c : {&a.expert_gather, &a.expert_scatter, &a.expert_replicas})
      if (c->size() > 1) bytes += c->size() == 2 ? of_two : of_more;
    bytes += static_cast<std::size_t>(a.grid.expert - 1) * of_peer;
  }
  // Peers are the other sequence-parallel ranks, the neighboring stages (one peer per direction)
  // and the other stage that uses a tied table.
  const int stage = a.at.pipe;
  const int next = (stage == 0 ? 0 : 1) + (stage == a.grid.pipe - 1 ? 0 : 1);
  const int tied = last_stage > 0 && (stage == 0 || stage == last_stage) ? 1 : 0;
  return bytes + static_cast<std::size_t>(a.seq.size() - 1 + 2 * next + tied) * of_peer;
}

}  // namespace trireme
