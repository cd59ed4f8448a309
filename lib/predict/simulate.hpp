#pragma once
// Simulates a step: computes the time of every action in the recordings. The recordings of all
// kinds of rank are simulated together. Each operation takes the time that the machine model gives.
// The simulation determines overlap and waiting. All functions are pure.
//
// On a backend that computes immediately (host), operations run in program order. Messages move
// only while the program polls or waits, and the receiver's processor copies messages from its own
// node. On a device, queues run concurrently with the host and with each other, ordered by events.
// A collective starts when all participants have reached it on their queues, and transfers on
// several queues share a rank's links.
#include <array>
#include <span>
#include <vector>

#include "lib/predict/machine.hpp"
#include "lib/predict/recording.hpp"

namespace trireme {

// A period of time, in seconds.
struct Period {
  double begin = 0, end = 0;
  double length() const { return end - begin; }
};

// Period in which the ranks of one kind wait for other ranks.
struct LostPeriod {
  Axis axis{};
  engine::OperationKind doing{};
  std::int32_t transfer = -1;  // -1 means an agreement
  Period period;
};

// The simulated times of one kind of rank, which is a set of ranks whose steps are alike.
struct KindTimes {
  // The period in which each action of the recorded step runs, indexed by action. A queue executes
  // an action of a queue, and the host executes an action of the host.
  std::vector<Period> actions;
  std::vector<Period> transfers;  // from the call until the host or queue sees it complete
  std::vector<LostPeriod> waits;
  // Seconds, by axis, in which computation waits for messages or is interrupted by them.
  std::array<double, axis_count> exposed{};
  double bubble = 0;   // seconds of waiting for other stages, without the time of their messages
  double starved = 0;  // seconds in which a device's compute queue waits for the host to issue work
  double end = 0;
};

// The simulated step of all kinds of rank.
struct Simulated {
  std::vector<KindTimes> kinds;
  double seconds = 0;  // of the step
};

// Seconds of a step in which ranks do not compute, by cause.
struct Lost {
  double bubble = 0;   // mean over all kinds of rank
  double starved = 0;  // of a device; here and below the maximum over all kinds of rank
  std::array<double, axis_count> exposed{};  // messages, by axis
};
Lost lost_in(const Simulated&);

// Returns the simulated step. Throws Error, naming the field, if a required field of the machine is
// absent.
Simulated simulate(const MachineModel&, std::span<const Recording>);

// The two implementations of simulate(), chosen by the machine's backend.
Simulated simulate_host(const MachineModel&, std::span<const Recording>);
Simulated simulate_device(const MachineModel&, std::span<const Recording>);

// Time of a transfer after all participants have arrived: seconds of latency, and seconds on each
// direction of the rank's links.
struct TransferTime {
  double latency = 0;
  double near_in = 0, near_out = 0, far_in = 0, far_out = 0;
  // True if all links are used at the same time, as in a ring. False if the links within the node
  // are used before those between nodes.
  bool at_once = false;
};
TransferTime transfer_time(const MachineModel&, const Transfer&);
// Returns the seconds of a transfer that shares its links with no other transfer.
double transfer_seconds(const MachineModel&, const Transfer&);

// Returns the seconds of a global agreement (a collective of all ranks on a few numbers). The ranks
// of a node agree first. Then the nodes agree by recursive doubling (Thakur, Rabenseifner and Gropp
// 2005), with one message per round.
double agreement_seconds(const MachineModel&, const Recording&);

}  // namespace trireme
