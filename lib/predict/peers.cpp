#include "lib/predict/peers.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "lib/base/error.hpp"

namespace trireme {

SimulatedKind::SimulatedKind(const MachineModel& m, const Recording& r, double beside_each)
    : recording(&r) {
  for (const auto& w : r.workloads) seconds.push_back(seconds_of(m, w) + beside_each);
  times.actions.resize(r.actions.size());
  times.transfers.resize(r.transfers.size());
}

static std::vector<std::vector<std::int32_t>> match_transfers(std::span<const Recording> kinds) {
  using Pattern = Transfer::Pattern;
  std::vector<std::vector<std::int32_t>> other(kinds.size());
  // Messages of one micro-batch between two kinds, in the order of the calls.
  using Key = std::tuple<std::size_t, std::size_t, Comm, int>;  // from, to
  std::map<Key, std::vector<std::int32_t>> sends, receives;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto& transfers = kinds[k].transfers;
    other[k].assign(transfers.size(), -1);
    std::array<std::int32_t, comm_count> count{};
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const auto& t = transfers[i];
      const auto number = static_cast<std::int32_t>(i);
      const auto peer = static_cast<std::size_t>(t.peer);
      if (t.pattern == Pattern::send)
        sends[{k, peer, t.comm, t.microbatch}].push_back(number);
      else if (t.pattern == Pattern::receive)
        receives[{peer, k, t.comm, t.microbatch}].push_back(number);
      else
        other[k][i] = count[static_cast<std::size_t>(t.comm)]++;
    }
  }
  for (const auto& [key, out] : sends) {
    const auto& [from, to, comm, microbatch] = key;
    const auto& in = receives[key];
    require(in.size() == out.size(),
            "the prediction failed: stages send {} messages, but receive {}. This is an error in "
            "Trireme: please report it",
            out.size(), in.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      other[from][static_cast<std::size_t>(out[i])] = in[i];
      other[to][static_cast<std::size_t>(in[i])] = out[i];
    }
  }
  return other;
}

Peers::Peers(const MachineModel& m, std::span<const Recording> kinds)
    : kinds_(kinds),
      other_(match_transfers(kinds)),
      collectives_(kinds.size()),
      agreements_(kinds.size()),
      agreement_(agreement_seconds(m, kinds[0])) {
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto& transfers = kinds[k].transfers;
    for (std::size_t i = 0; i < transfers.size(); ++i)
      if (const auto& t = transfers[i]; t.peer < 0)
        collectives_[k][static_cast<std::size_t>(t.comm)].push_back(static_cast<std::int32_t>(i));
    stages_ = std::max(stages_, kinds[k].at.pipe + 1);
  }
}

double Peers::last_arrival(std::size_t kind) const {
  const auto number = agreements_[kind].size() - 1;
  double last = 0;
  for (const auto& came : agreements_)
    last = std::max(last, number < came.size() ? came[number] : never);
  return last;
}

}  // namespace trireme
