// Simulation of a step on devices. The host puts work on queues and continues. Each queue runs its
// work in order. Times depend on other ranks only by order or by a shared link, so everything that
// can continue may be simulated first.
#include <algorithm>
#include <deque>
#include <map>

#include "lib/predict/link.hpp"
#include "lib/predict/peers.hpp"

namespace trireme {
namespace {

using What = Action::What;

struct Command {
  std::size_t action;
  double issued;
  double free_since;  // when the host's last wait before that ended
};

struct Stream {
  std::deque<Command> commands;
  double now = 0;
  std::int32_t last_transfer = -1;
};

// What an event records: when its queue reached it, and the queue's last transfer before it.
struct Passed {
  double at = never;
  std::int32_t transfer = -1;
};

// When the host arrived, when the last rank arrived, and when computing had ended.
struct Agreement {
  double came, last = 0, idle = 0;
};

struct DeviceRank : SimulatedKind {
  using SimulatedKind::SimulatedKind;
  std::vector<Agreement> agreements;
  std::size_t idled = 0;  // number of agreements that computing has reached
  std::array<Stream, queue_count> streams;
  std::map<std::pair<Queue, std::uint64_t>, Passed> events;  // events that are recorded in the step
  std::vector<double> arrived, started;                      // by transfer
  Link near_in, near_out, far_in, far_out;
  double host = 0, free_since = 0;
  bool agreeing = false;

  Stream& stream(Queue q) { return streams[static_cast<std::size_t>(q)]; }
};

Axis axis_of(Queue q) {
  if (q == Queue::exchange) return Axis::seq;
  return q == Queue::down || q == Queue::up ? Axis::pipe : Axis::shard;
}

class DeviceSimulation {
 public:
  DeviceSimulation(const MachineModel& m, std::span<const Recording> kinds)
      : machine_(m),
        launch_(required(m, m.launch, "host.launch", "a step on a device")),
        peers_(m, kinds) {
    for (const auto& k : kinds) {
      auto& r = ranks_.emplace_back(m, k, 0);
      r.arrived.assign(k.transfers.size(), never);
      r.started.assign(k.transfers.size(), never);
      for (const auto& a : k.actions)
        if (a.what == What::record) r.events[{a.event.queue, a.event.ticket}] = {};
    }
  }

  Simulated run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t k = 0; k < ranks_.size(); ++k) {
        while (host(k)) moved = true;
        for (int q = 0; q < queue_count; ++q)
          while (command(k, static_cast<Queue>(q))) moved = true;
      }
    }
    Simulated all;
    for (auto& r : ranks_) {
      require(r.done(),
              "the prediction failed: in the simulated step, ranks wait for each other forever "
              "(stage {}, action {}). This is an error in Trireme: please report it",
              r.recording->at.pipe, r.next);
      charge_agreements(r);
      r.times.end = r.host;
      for (const auto& s : r.streams) r.times.end = std::max(r.times.end, s.now);
      all.seconds = std::max(all.seconds, r.times.end);
    }
    for (auto& r : ranks_) all.kinds.push_back(std::move(r.times));
    return all;
  }

 private:
  // Simulates the host's next action. Returns false if the host is at its end or waits.
  bool host(std::size_t k) {
    auto& r = ranks_[k];
    if (r.done()) return false;
    const auto& a = r.action();
    auto& period = r.times.actions[r.next];
    const double begin = r.host;
    switch (a.what) {
      case What::compute:
      case What::call:
        r.host += launch_;
        [[fallthrough]];
      case What::record:
      case What::wait:
        r.stream(a.queue).commands.push_back({r.next, r.host, r.free_since});
        break;
      case What::download:
        if (!r.stream(a.queue).commands.empty()) return false;
        r.free_since = r.host = std::max(r.host, r.stream(a.queue).now) + launch_;
        break;
      case What::agree: {
        if (!r.agreeing) {
          peers_.arrive(k, r.host);
          r.agreements.push_back({r.host});
          r.stream(Queue::compute).commands.push_back({r.next, r.host, r.free_since});
        }
        r.agreeing = true;
        const double last = peers_.last_arrival(k);
        if (last == never) return false;
        r.agreeing = false;
        r.agreements.back().last = last;
        r.free_since = r.host = last + peers_.agreement();
        break;
      }
      default:
        break;
    }
    if (a.what != What::compute) period = {begin, r.host};
    ++r.next;
    return true;
  }

  // Simulates the queue's next command. Returns false if the queue is empty or waits.
  bool command(std::size_t k, Queue q) {
    auto& r = ranks_[k];
    auto& s = r.stream(q);
    if (s.commands.empty()) return false;
    const auto [number, issued, free_since] = s.commands.front();
    const auto& a = r.recording->actions[number];
    switch (a.what) {
      case What::compute: {
        const double begin = std::max(s.now, issued);
        if (q == Queue::compute)
          r.times.starved += std::max(0.0, begin - std::max(s.now, free_since));
        s.now = begin + r.cost(a.index);
        r.times.actions[number] = {begin, s.now};
        break;
      }
      case What::agree:  // no queue waits here: this shows when the work before it ends
        r.agreements[r.idled++].idle = s.now;
        break;
      case What::record:
        r.events[{a.event.queue, a.event.ticket}] = {std::max(s.now, issued), s.last_transfer};
        break;
      case What::wait: {
        const auto it = r.events.find({a.event.queue, a.event.ticket});
        if (it == r.events.end()) break;  // recorded before the step
        if (it->second.at == never) return false;
        if (q == Queue::compute) charge(r, std::max(s.now, issued), a.event.queue, it->second);
        s.now = std::max(s.now, it->second.at);
        break;
      }
      default:
        if (!transfer(k, a.index, s, issued)) return false;
        break;
    }
    s.commands.pop_front();
    return true;
  }

  // Charges the time of agreements. Hosts run ahead, so only a device that has no work left waits
  // for an agreement.
  void charge_agreements(DeviceRank& r) const {
    for (const auto& a : r.agreements) {
      const double idle = std::max(a.came, a.idle), end = a.last + peers_.agreement();
      const double alone = std::max(0.0, a.last - idle);
      (peers_.pipelined() ? r.times.bubble : r.exposed(Axis::all)) += alone;
      r.exposed(Axis::all) += std::max(0.0, end - std::max(idle, a.last));
      if (end > idle) r.times.waits.push_back({Axis::all, {}, -1, {idle, end}});
    }
  }

  // Charges the time for which computing waits from `from` on.
  void charge(DeviceRank& r, double from, Queue queue, const Passed& passed) {
    if (passed.at <= from) return;
    // Messages of a tied table use the queue of sharding.
    const auto axis =
        passed.transfer < 0 ? axis_of(queue) : axis_of(r.transfer(passed.transfer).comm);
    double bubble = 0;
    if (axis == Axis::pipe && passed.transfer >= 0)
      bubble =
          std::clamp(r.started[static_cast<std::size_t>(passed.transfer)], from, passed.at) - from;
    r.times.bubble += bubble;
    r.exposed(axis) += passed.at - from - bubble;
    const auto doing =
        passed.transfer < 0 ? engine::OperationKind{} : r.transfer(passed.transfer).doing;
    r.times.waits.push_back({axis, doing, passed.transfer, {from, passed.at}});
  }

  bool transfer(std::size_t k, std::int32_t i, Stream& s, double issued) {
    auto& r = ranks_[k];
    const auto at = static_cast<std::size_t>(i);
    const auto& t = r.transfer(i);
    if (r.arrived[at] == never)
      r.arrived[at] = std::max(s.now, issued) + r.cost(t.own) + r.cost(t.cast);
    double start = r.arrived[at];
    peers_.each_peer(k, i, [&](std::size_t j, std::int32_t theirs) {
      start = std::max(start, ranks_[j].arrived[static_cast<std::size_t>(theirs)]);
    });
    if (start == never) return false;
    r.started[at] = start;
    s.now = on_links(r, t, start) + r.cost(t.sum);
    s.last_transfer = i;
    r.times.transfers[at] = {start, s.now};
    return true;
  }

  // Returns when a transfer that starts at `start` arrives, given this rank's other transfers on
  // the same links.
  double on_links(DeviceRank& r, const Transfer& t, double start) const {
    const auto time = transfer_time(machine_, t);
    const double near =
        std::max(r.near_in.add(start, time.near_in), r.near_out.add(start, time.near_out));
    const double from = time.at_once ? start : near;
    const double last =
        std::max({near, r.far_in.add(from, time.far_in), r.far_out.add(from, time.far_out)});
    return std::max(start + transfer_seconds(machine_, t), last + time.latency);
  }

  const MachineModel& machine_;
  double launch_;
  Peers peers_;
  std::vector<DeviceRank> ranks_;
};

}  // namespace

Simulated simulate_device(const MachineModel& machine, std::span<const Recording> kinds) {
  return DeviceSimulation(machine, kinds).run();
}

}  // namespace trireme
