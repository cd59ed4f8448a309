#include "lib/predict/simulate.hpp"

#include <algorithm>
#include <bit>

#include "lib/base/error.hpp"

namespace trireme {

// Returns the time of a transfer. NCCL uses rings: what a rank receives passes through the slowest
// of its links, and a group's ranks on one node share all of their links to other nodes. On hosts,
// each rank sends to all others.
TransferTime transfer_time(const MachineModel& m, const Transfer& t) {
  using Pattern = Transfer::Pattern;
  TransferTime time;
  if (t.ranks == 1 || (t.bytes_in() == 0 && t.bytes_out() == 0)) return time;
  const auto bandwidth = [&](const LinkRates& link, const char* name) {
    return share_of(m, link, name);
  };
  const auto latency = [&](const LinkRates& link, const char* name) {
    return required(m, link.latency, fmt::format("{}.latency", name), "messages");
  };
  const bool ring = m.backend == "cuda";
  if (ring && (t.pattern == Pattern::gather || t.pattern == Pattern::scatter)) {
    const auto [nodes, fewest] = t.spread;
    time.at_once = true;
    if (nodes < t.ranks) {
      time.near_in = time.near_out = t.bytes_in() / bandwidth(m.near, "near");
      time.latency += (t.ranks - nodes) * latency(m.near, "near");
    }
    if (nodes > 1) {
      // The node with the fewest ranks of the group has the fewest links.
      time.far_in = time.far_out = t.bytes_in() / (bandwidth(m.far, "far") * fewest);
      time.latency += (nodes - 1) * latency(m.far, "far");
    }
    return time;
  }
  if (t.in_near.messages + t.out_near.messages > 0) {
    time.latency += latency(m.near, "near");
    time.near_in = t.in_near.bytes / bandwidth(m.near, "near");
    time.near_out = t.out_near.bytes / bandwidth(m.near, "near");
  }
  if (t.in_far.messages + t.out_far.messages > 0) {
    time.latency += latency(m.far, "far");
    time.far_in = t.in_far.bytes / bandwidth(m.far, "far");
    time.far_out = t.out_far.bytes / bandwidth(m.far, "far");
  }
  return time;
}

double transfer_seconds(const MachineModel& m, const Transfer& t) {
  const auto time = transfer_time(m, t);
  const double near = std::max(time.near_in, time.near_out),
               far = std::max(time.far_in, time.far_out);
  return time.latency + (time.at_once ? std::max(near, far) : near + far);
}

double agreement_seconds(const MachineModel& m, const Recording& r) {
  const int nodes = (r.ranks + r.ranks_of_node - 1) / r.ranks_of_node;
  const auto rounds = std::bit_width(static_cast<unsigned>(nodes - 1));  // log2, rounded up
  const double near = m.agreement.value_or(0);
  if (rounds == 0) return near;
  return near + rounds * required(m, m.far.latency, "far.latency", "agreement between ranks");
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
