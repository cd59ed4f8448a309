#include "lib/predict/simulate.hpp"

#include <map>
#include <tuple>

#include "lib/base/error.hpp"

namespace trireme {

std::vector<std::vector<std::int32_t>> match_transfers(std::span<const Recording> kinds) {
  using Pattern = Transfer::Pattern;
  std::vector<std::vector<std::int32_t>> other(kinds.size());
  // Messages of one microbatch between two kinds in order of the calls.
  using Key = std::tuple<std::size_t, std::size_t, Way, int>;  // from, to
  std::map<Key, std::vector<std::int32_t>> sends, receives;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto& transfers = kinds[k].transfers;
    other[k].assign(transfers.size(), -1);
    std::array<std::int32_t, way_count> count{};
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const auto& t = transfers[i];
      const auto number = static_cast<std::int32_t>(i);
      const auto peer = static_cast<std::size_t>(t.peer);
      if (t.pattern == Pattern::send)
        sends[{k, peer, t.way, t.microbatch}].push_back(number);
      else if (t.pattern == Pattern::receive)
        receives[{peer, k, t.way, t.microbatch}].push_back(number);
      else
        other[k][i] = count[static_cast<std::size_t>(t.way)]++;
    }
  }
  for (const auto& [key, out] : sends) {
    const auto& [from, to, way, microbatch] = key;
    const auto& in = receives[key];
    require(in.size() == out.size(), "a prediction's stages send {} and receive {} messages",
            out.size(), in.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      other[from][static_cast<std::size_t>(out[i])] = in[i];
      other[to][static_cast<std::size_t>(in[i])] = out[i];
    }
  }
  return other;
}

Simulated simulate(const Machine& machine, std::span<const Recording> kinds) {
  return machine.backend == "cuda" ? simulate_device(machine, kinds)
                                   : simulate_host(machine, kinds);
}

}  // namespace trireme
