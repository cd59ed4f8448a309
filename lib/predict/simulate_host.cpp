// Simulation of a step on backends that compute at once. The earliest rank always continues, so
// that a rank sees the messages of others as they were at that time.
#include <algorithm>
#include <cmath>

#include "lib/predict/peers.hpp"

namespace trireme {
namespace {

using What = Action::What;
using Pattern = Transfer::Pattern;

// Bytes that are copied each time that an operation may progress. An operation then tests its sends
// and its receives, and MPICH copies one piece of a large message in each test.
constexpr double bytes_a_poll = 2 * (512 << 10);

// A transfer in flight on one rank.
struct Moving {
  double called = 0, begun = never, complete = never;
  double left = 0;  // bytes from this node that are still to be copied
};

struct HostRank : SimulatedKind {
  using SimulatedKind::SimulatedKind;
  std::vector<Moving> moving;  // by transfer
  std::vector<std::int32_t> in_flight;
  double now = 0;
  bool asleep = false;
  double waits_since = never;

  double& exposed(Comm n) { return SimulatedKind::exposed(axis_of(n)); }
};

class HostSimulation {
 public:
  HostSimulation(const MachineModel& m, std::span<const Recording> kinds)
      : machine_(m), peers_(m, kinds) {
    for (const auto& k : kinds) {
      ranks_.emplace_back(m, k, m.operation.value_or(0));
      ranks_.back().moving.resize(k.transfers.size());
    }
  }

  Simulated run() {
    for (auto first = earliest(); first < ranks_.size(); first = earliest()) {
      require(wakes(first) < never,
              "the prediction failed: in the simulated step, ranks wait for each other forever "
              "(stage {}, action {}). This is an error in Trireme: please report it",
              ranks_[first].recording->at.pipe, ranks_[first].next);
      step(first);
    }
    Simulated all;
    for (auto& r : ranks_) {
      r.times.end = r.now;
      all.seconds = std::max(all.seconds, r.now);
      all.kinds.push_back(std::move(r.times));
    }
    return all;
  }

 private:
  std::size_t earliest() {
    std::size_t first = ranks_.size();
    double at = never;
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
      if (ranks_[k].done()) continue;
      const double wake = wakes(k);
      if (first < ranks_.size() && wake >= at) continue;
      first = k;
      at = wake;
    }
    return first;
  }

  Moving& moving(std::size_t k, std::int32_t i) {
    return ranks_[k].moving[static_cast<std::size_t>(i)];
  }

  // Returns when the last participant began, or `never` if that is not yet known.
  double all_begun(std::size_t k, std::int32_t i) {
    double begun = moving(k, i).begun;
    peers_.each_peer(k, i, [&](std::size_t j, std::int32_t theirs) {
      begun = std::max(begun, moving(j, theirs).begun);
    });
    return begun;
  }

  double ready(std::size_t k, std::int32_t i) {
    const double begun = all_begun(k, i);
    if (begun == never) return never;
    const bool far = ranks_[k].transfer(i).in_far.messages > 0;
    return begun + required(machine_, (far ? machine_.far : machine_.near).latency,
                            far ? "far.latency" : "near.latency", "a message");
  }

  // Returns when all data from other nodes has arrived.
  double far_arrival(std::size_t k, std::int32_t i) {
    const auto& in = ranks_[k].transfer(i).in_far;
    if (in.messages == 0) return 0;
    return ready(k, i) + in.bytes / share_of(machine_, machine_.far, "far");
  }

  // Returns when the receiver has all data of a send.
  double received(std::size_t k, std::int32_t i) {
    double at = 0;
    peers_.each_peer(k, i, [&](std::size_t j, std::int32_t theirs) {
      at = std::max(at, moving(j, theirs).complete);
    });
    return at;
  }

  // Returns true if a transfer may begin. Collectives of one communicator run one after another.
  bool may_begin(const HostRank& r, std::int32_t i) const {
    if (r.transfer(i).peer >= 0) return true;
    for (const auto j : r.in_flight) {
      if (j == i) return true;
      if (r.transfer(j).comm == r.transfer(i).comm && r.transfer(j).peer < 0) return false;
    }
    return true;
  }

  static void spend(HostRank& r, Comm comm, double seconds) {
    r.now += seconds;
    r.exposed(comm) += seconds;
  }

  // Makes progress with a transfer. Returns true if anything changed.
  bool look_at(std::size_t k, std::int32_t i) {
    auto& m = moving(k, i);
    auto& r = ranks_[k];
    const auto& t = r.transfer(i);
    bool changed = false;
    if (m.begun == never) {
      if (!may_begin(r, i)) return false;
      spend(r, t.comm, r.cost(t.own) + r.cost(t.cast));
      m.begun = r.now;
      m.left = t.in_near.bytes;
      changed = true;
    }
    const auto arrived = [&](double bytes) {
      spend(r, t.comm, r.cost(t.sum) * bytes / t.bytes_in());
    };
    if (m.left > 0 && ready(k, i) <= r.now) {
      const double bytes = std::min(m.left, bytes_a_poll);
      spend(r, t.comm, bytes / share_of(machine_, machine_.near, "near"));
      arrived(bytes);
      m.left -= bytes;
      changed = true;
    }
    if (m.left > 0 || far_arrival(k, i) > r.now) return changed;
    if (t.pattern == Pattern::send && received(k, i) > r.now) return changed;
    if (t.in_far.messages > 0) arrived(t.in_far.bytes);
    m.complete = r.now;
    r.times.transfers[static_cast<std::size_t>(i)] = {m.called, m.complete};
    return true;
  }

  bool poll(std::size_t k) {
    auto& r = ranks_[k];
    bool changed = false;
    for (std::size_t n = 0; n < r.in_flight.size(); ++n)
      changed = look_at(k, r.in_flight[n]) || changed;
    std::erase_if(r.in_flight, [&](std::int32_t i) { return moving(k, i).complete < never; });
    return changed;
  }

  // Returns the next time at which a rank can continue.
  double wakes(std::size_t k) {
    const auto& r = ranks_[k];
    if (!r.asleep) return r.now;
    if (r.action().what == What::agree) return peers_.last_arrival(k) + peers_.agreement();
    double at = never;
    for (const auto i : r.in_flight) {
      const auto& m = moving(k, i);
      if (m.begun == never) continue;
      // Data of a transfer that another rank began after this rank fell asleep may have arrived.
      double next = m.left > 0 ? ready(k, i) : far_arrival(k, i);
      if (m.left == 0 && next <= r.now && r.transfer(i).pattern == Pattern::send)
        next = received(k, i);
      at = std::min(at, next);
    }
    return std::max(at, r.now);
  }

  // Wakes a rank. The time that it slept is a bubble until the other stage began its part of the
  // transfer.
  void wake(std::size_t k) {
    auto& r = ranks_[k];
    const double begin = r.now, end = wakes(k);
    const auto& a = r.action();
    r.now = end;
    r.asleep = false;
    if (a.what == What::agree) {
      const double alone = std::max(0.0, end - peers_.agreement() - begin);
      (peers_.pipelined() ? r.times.bubble : r.exposed(Comm::world)) += alone;
      r.exposed(Comm::world) += end - begin - alone;
      return;
    }
    const auto& t = r.transfer(a.index);
    const double begun = std::clamp(all_begun(k, a.index), begin, end);
    if (axis_of(t.comm) == Axis::pipe)
      r.times.bubble += begun - begin;
    else
      r.exposed(t.comm) += begun - begin;
    r.exposed(t.comm) += end - begun;
  }

  void go_on(HostRank& r) {
    if (r.waits_since < r.now) {
      const auto& a = r.action();
      if (a.what == What::agree)
        r.times.waits.push_back({Axis::all, {}, -1, {r.waits_since, r.now}});
      else
        r.times.waits.push_back({axis_of(r.transfer(a.index).comm),
                                 r.transfer(a.index).doing,
                                 a.index,
                                 {r.waits_since, r.now}});
    }
    r.waits_since = never;
    r.times.actions[r.next].end = r.now;
    ++r.next;
    if (!r.done()) r.times.actions[r.next].begin = r.now;
  }

  // Simulates one action, or a part of an action that waits. Operations are simulated up to the
  // next action that other ranks may see.
  void step(std::size_t k) {
    auto& r = ranks_[k];
    if (r.asleep) wake(k);
    while (r.action().what == What::compute) {
      r.now += r.cost(r.action().index);
      go_on(r);
      if (r.done()) return;
    }
    const auto& a = r.action();
    switch (a.what) {
      case What::call: {
        moving(k, a.index).called = r.now;
        r.in_flight.push_back(a.index);
        look_at(k, a.index);
        std::erase_if(r.in_flight, [&](std::int32_t i) { return moving(k, i).complete < never; });
        break;
      }
      case What::poll:
        poll(k);
        break;
      case What::finish:
        if (moving(k, a.index).complete < never) break;
        r.waits_since = std::min(r.waits_since, r.now);
        if (!poll(k)) r.asleep = true;
        return;
      case What::agree:
        if (r.waits_since == never) {
          r.waits_since = r.now;
          peers_.arrive(k, r.now);
          r.asleep = true;
          return;
        }
        break;
      default:
        break;
    }
    go_on(r);
  }

  const MachineModel& machine_;
  Peers peers_;
  std::vector<HostRank> ranks_;
};

}  // namespace

Simulated simulate_host(const MachineModel& machine, std::span<const Recording> kinds) {
  return HostSimulation(machine, kinds).run();
}

}  // namespace trireme
