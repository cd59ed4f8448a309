#pragma once
// What simulations of steps on hosts and on devices share: a kind of rank at a point of its
// recording, and who takes part in what.
#include <array>
#include <limits>
#include <span>
#include <vector>

#include "lib/predict/simulate.hpp"

namespace trireme {

inline constexpr double never = std::numeric_limits<double>::infinity();

struct SimulatedKind {
  // An operation takes `beside_each` seconds more than the machine says.
  SimulatedKind(const MachineModel&, const Recording&, double beside_each);

  const Recording* recording;
  KindTimes times;
  std::vector<double> seconds;  // by workload
  std::size_t next = 0;         // action

  bool done() const { return next == recording->actions.size(); }
  const Action& action() const { return recording->actions[next]; }
  const Transfer& transfer(std::int32_t i) const {
    return recording->transfers[static_cast<std::size_t>(i)];
  }
  // Of a workload; -1: nothing is asked.
  double cost(int workload) const {
    return workload < 0 ? 0 : seconds[static_cast<std::size_t>(workload)];
  }
  double& exposed(Axis a) { return times.exposed[static_cast<std::size_t>(a)]; }
};

class Peers {
 public:
  // Error where transfers of the kinds do not match.
  Peers(const MachineModel&, std::span<const Recording>);

  // f(kind, transfer) for the other side of a send or receive, and for all kinds that take part in
  // a collective, its own too.
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

  // A kind comes to its next agreement of all ranks.
  void arrive(std::size_t kind, double at) { agreements_[kind].push_back(at); }
  // When the last kind came to the agreement that this one came to last; never: not known yet.
  double last_arrival(std::size_t kind) const;
  double agreement() const { return agreement_; }  // seconds, once all have come

  bool pipelined() const { return stages_ > 1; }

 private:
  std::span<const Recording> kinds_;
  // By kind and transfer: the other side of a send or receive (an index into the peer's transfers),
  // and for a collective its number on its communicator.
  std::vector<std::vector<std::int32_t>> other_;
  std::vector<std::array<std::vector<std::int32_t>, comm_count>> collectives_;
  std::vector<std::vector<double>> agreements_;
  double agreement_;
  int stages_ = 1;
};

}  // namespace trireme
