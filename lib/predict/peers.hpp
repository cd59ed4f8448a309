#pragma once
// Code shared by the simulations of steps on hosts and on devices: the progress of each kind of
// rank through its recording, and the matching of transfers between kinds. A kind is a set of ranks
// whose steps are alike.
#include <array>
#include <limits>
#include <span>
#include <vector>

#include "lib/predict/simulate.hpp"

namespace trireme {

// Time of an event that is not known yet.
inline constexpr double never = std::numeric_limits<double>::infinity();

// Progress of one kind of rank through its recording.
struct SimulatedKind {
  // `beside_each` is the number of seconds that is added to every operation.
  SimulatedKind(const MachineModel&, const Recording&, double beside_each);

  const Recording* recording;
  KindTimes times;
  std::vector<double> seconds;  // time of each workload
  std::size_t next = 0;         // index of the next action

  bool done() const { return next == recording->actions.size(); }
  const Action& action() const { return recording->actions[next]; }
  const Transfer& transfer(std::int32_t i) const {
    return recording->transfers[static_cast<std::size_t>(i)];
  }
  // Returns the seconds of a workload, or 0 for index -1.
  double cost(int workload) const {
    return workload < 0 ? 0 : seconds[static_cast<std::size_t>(workload)];
  }
  double& exposed(Axis a) { return times.exposed[static_cast<std::size_t>(a)]; }
};

// Finds the participants of each transfer. One rank is simulated for each kind of rank, which is a
// set of ranks whose steps are alike.
class Peers {
 public:
  // Throws Error if the transfers of the kinds do not match. The recordings must outlive this
  // object.
  Peers(const MachineModel&, std::span<const Recording>);

  // Calls f(kind, transfer) for each participant of a transfer. For a send or receive, the
  // participant is the other side. For a collective, the participants are all participating kinds,
  // including `kind` itself.
  template <class F>
  void each_peer(std::size_t kind, std::int32_t transfer, const F& f) const {
    const auto& t = kinds_[kind].transfers[static_cast<std::size_t>(transfer)];
    const auto other = other_[kind][static_cast<std::size_t>(transfer)];
    if (t.peer >= 0) return f(static_cast<std::size_t>(t.peer), other);
    const auto comm = static_cast<std::size_t>(t.comm);
    for (const int j : kinds_[kind].members[comm])
      f(static_cast<std::size_t>(j),
        collectives_[static_cast<std::size_t>(j)][comm].at(static_cast<std::size_t>(other)));
  }

  // Records that a kind reached its next global agreement (a collective of all ranks) at time `at`.
  void arrive(std::size_t kind, double at) { agreements_[kind].push_back(at); }
  // Returns the time at which the last kind reached the agreement that `kind` reached last. Returns
  // `never` if some kind has not reached it.
  double last_arrival(std::size_t kind) const;
  // Returns the seconds that a global agreement takes after all ranks have arrived.
  double agreement() const { return agreement_; }

  bool pipelined() const { return stages_ > 1; }

 private:
  std::span<const Recording> kinds_;
  // Partners, indexed by kind and transfer. For a send or receive, the index of the matching
  // transfer in the peer's recording. For a collective, its sequence number on its communicator.
  std::vector<std::vector<std::int32_t>> other_;
  std::vector<std::array<std::vector<std::int32_t>, comm_count>> collectives_;
  std::vector<std::vector<double>> agreements_;
  double agreement_;
  int stages_ = 1;
};

}  // namespace trireme
