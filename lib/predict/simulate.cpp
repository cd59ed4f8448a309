#include "lib/predict/simulate.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "lib/base/error.hpp"

namespace trireme {

// Rings, as NCCL has them: what a rank receives goes through the slowest of its links, and a
// group's ranks of one node share all of their links out. On hosts each rank sends to all others.
double transfer_seconds(const MachineModel& m, const Transfer& t) {
  using Pattern = Transfer::Pattern;
  if (t.ranks == 1 || (t.bytes_in() == 0 && t.bytes_out() == 0)) return 0;
  const auto bandwidth = [&](const LinkRates& link, const char* name) {
    return share_of(m, link, name);
  };
  const auto latency = [&](const LinkRates& link, const char* name) {
    return required(m, link.latency, fmt::format("{}.latency", name), "messages");
  };
  const bool ring = m.backend == "cuda";
  if (ring && (t.pattern == Pattern::gather || t.pattern == Pattern::scatter)) {
    const auto [nodes, fewest] = t.spread;
    double rate = std::numeric_limits<double>::infinity(), wait = 0;
    if (nodes < t.ranks) {
      rate = bandwidth(m.near, "near");
      wait += (t.ranks - nodes) * latency(m.near, "near");
    }
    if (nodes > 1) {
      // The node with the fewest of them has the fewest links.
      rate = std::min(rate, bandwidth(m.far, "far") * fewest);
      wait += (nodes - 1) * latency(m.far, "far");
    }
    return wait + t.bytes_in() / rate;
  }
  double seconds = 0;
  if (t.in_near.messages + t.out_near.messages > 0)
    seconds += latency(m.near, "near") +
               std::max(t.in_near.bytes, t.out_near.bytes) / bandwidth(m.near, "near");
  if (t.in_far.messages + t.out_far.messages > 0)
    seconds +=
        latency(m.far, "far") + std::max(t.in_far.bytes, t.out_far.bytes) / bandwidth(m.far, "far");
  return seconds;
}

double agreement_seconds(const MachineModel& m, const Recording& r) {
  const int nodes = (r.ranks + r.ranks_of_node - 1) / r.ranks_of_node;
  const auto rounds = std::bit_width(static_cast<unsigned>(nodes - 1));  // log2, rounded up
  const double near = m.agreement.value_or(0);
  if (rounds == 0) return near;
  return near + rounds * required(m, m.far.latency, "far.latency", "agreement");
}

Lost lost_in(const Simulated& s) {
  Lost l;
  for (const auto& k : s.kinds) {
    l.bubble += k.bubble / static_cast<double>(s.kinds.size());
    l.starved = std::max(l.starved, k.starved);
    for (std::size_t a = 0; a < axis_count; ++a)
      l.exposed[a] = std::max(l.exposed[a], k.exposed[a]);
  }
  return l;
}

Simulated simulate(const MachineModel& machine, std::span<const Recording> kinds) {
  return machine.backend == "cuda" ? simulate_device(machine, kinds)
                                   : simulate_host(machine, kinds);
}

}  // namespace trireme
