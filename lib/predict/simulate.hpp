#pragma once
// When everything of a step happens: recordings of all kinds of rank run together, each operation
// taking what the machine takes. Overlap and waiting come of that alone. Pure.
//
// On a backend that computes at once (host), operations run in the program's order and messages
// move only while the program polls or waits, their bytes being copied by the receiver's processor
// within a node. On a device, queues run beside the host and beside each other, ordered by events;
// a collective starts when all that take part have come to it on their queues, and transfers of
// several queues share a rank's links.
#include <array>
#include <span>
#include <vector>

#include "lib/predict/machine.hpp"
#include "lib/predict/recording.hpp"

namespace trireme {

struct Period {
  double begin = 0, end = 0;
  double length() const { return end - begin; }
};

// Time that a kind of rank loses to others.
struct LostPeriod {
  Axis axis{};
  engine::Doing doing{};
  std::int32_t transfer = -1;  // -1: agreement
  Period period;
};

struct KindTimes {
  std::vector<Period> actions;    // by action: on its queue; of the host's own, when it was at it
  std::vector<Period> transfers;  // from the call until it was seen to be complete
  std::vector<LostPeriod> waits;
  std::array<double, axis_count> exposed{};  // messages that computing waits for or makes way for
  double bubble = 0;   // waiting for other stages' work, before any message of it is in flight
  double starved = 0;  // of a device: computing waits for the host to ask for more
  double end = 0;
};

struct Simulated {
  std::vector<KindTimes> kinds;
  double seconds = 0;  // of the step
};

// Seconds of a step in which ranks do not compute.
struct Lost {
  double bubble = 0;                         // the mean of all kinds of rank
  double starved = 0;                        // of a device; here and below the most of any kind
  std::array<double, axis_count> exposed{};  // messages of an axis
};
Lost lost_in(const Simulated&);

// Error naming a field of the machine that is absent and needed.
Simulated simulate(const MachineModel&, std::span<const Recording>);

// The two of which simulate takes one.
Simulated simulate_host(const MachineModel&, std::span<const Recording>);
Simulated simulate_device(const MachineModel&, std::span<const Recording>);

// What a transfer takes once all that take part are there: seconds of latency, and of each
// direction of the rank's links.
struct TransferTime {
  double latency = 0;
  double near_in = 0, near_out = 0, far_in = 0, far_out = 0;
  bool at_once = false;  // on all links: a ring; else within the node, then between nodes
};
TransferTime transfer_time(const MachineModel&, const Transfer&);
// Seconds of one that has the links to itself.
double transfer_seconds(const MachineModel&, const Transfer&);

// Seconds in which all ranks of a step agree on numbers: those of a node, then the nodes by
// recursive doubling (Thakur, Rabenseifner and Gropp 2005), each round a message.
double agreement_seconds(const MachineModel&, const Recording&);

}  // namespace trireme
