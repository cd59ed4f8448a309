#include "tests/support/formulas.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "kernels/arena.hpp"
#include "lib/ops/heads.hpp"

namespace trireme {

namespace {

std::int64_t count(const RankStep& s, Do what) {
  return std::ranges::count(s.program, what, &Instruction::what);
}

std::int64_t count(const RankStep& s, Do what, int chunk) {
  return std::ranges::count_if(s.program,
                               [&](const auto& i) { return i.what == what && i.chunk == chunk; });
}

std::int64_t bytes(DType t) {
  return static_cast<std::int64_t>(bytes_of(t));
}

bool is_tied(const RankStep& s, UnitId u) {
  return s.spec.config.tied && u == s.spec.table_unit;
}

// Of the model: the two uses of a tied table.
bool has_both_ends(const RankStep& s) {
  const auto borrows = [&](Use use) {
    return std::ranges::any_of(s.parts, [&](const StagePart& p) {
      return std::ranges::any_of(
          p.units, [&](const Borrow& b) { return b.unit == s.spec.table_unit && b.use == use; });
    });
  };
  return borrows(Use::own) && borrows(Use::tied);
}

// All gathers, by unit: turns of one unit in a row share one, or all turns do.
std::vector<UnitId> gathers_of(const RankStep& s) {
  std::vector<UnitId> gathers;
  for (const auto& t : s.turns) {
    if (!t.weights) continue;
    for (const auto& b : s.parts[t.part].units) {
      const bool shared = s.gather_once ? std::ranges::find(gathers, b.unit) != gathers.end()
                                        : !gathers.empty() && gathers.back() == b.unit;
      if (!shared) gathers.push_back(b.unit);
    }
  }
  return gathers;
}

std::int64_t scatters_of(const RankStep& s, UnitId u) {
  std::map<Use, std::int64_t> scatters;
  for (const auto& t : s.turns)
    for (const auto& b : s.parts[t.part].units)
      if (t.gradients && b.unit == u) ++scatters[b.use];
  std::int64_t n = 0;
  for (const auto& [use, times] : scatters) n += s.reduce_once ? 1 : times;
  return n;
}

bool trains(const RankStep& s, const Segment& g) {
  return s.trainable[g.slots[0].param.index()] != 0;
}

std::int64_t shard_traffic(const RankStep& s) {
  const auto gathers = gathers_of(s);
  std::int64_t sum = 0;
  for (const auto& g : s.layout.segments) {
    const auto n = g.elements / s.sharers;
    sum += (s.sharers - 1) * n * bytes(s.compute) * std::ranges::count(gathers, g.unit);
    if (!trains(s, g)) continue;
    sum += (s.sharers - 1) * n * bytes(s.reduce) * scatters_of(s, g.unit);
    // Another stage with a tied table gets the sum from the first.
    if (is_tied(s, g.unit) && s.at.pipe > 0) continue;
    sum += (s.copies - 1) * n / s.copies * (bytes(s.reduce) + bytes(s.master));
  }
  return sum;
}

std::int64_t seq_traffic(const RankStep& s) {
  const auto& c = s.spec.config;
  const auto ranks = s.grid.seq;
  const ops::Heads heads{c.heads, c.kv_heads, c.head_dim};
  const auto own = ops::head_share(heads, s.at.seq, ranks);
  std::int64_t kv_of_others = -own.kv.count;
  for (int d = 0; d < ranks; ++d) kv_of_others += ops::head_share(heads, d, ranks).kv.count;
  const auto hq = own.query.count, hk = own.kv.count, others = c.heads - hq;
  const auto forward = others + 2 * kv_of_others + (ranks - 1) * hq;
  std::int64_t sum = 0;
  for (const auto& p : s.parts) {
    const auto block = std::ranges::find(s.spec.blocks, p.units[0].unit, &BlockParams::unit);
    if (block == s.spec.blocks.end()) continue;
    const auto backwards = count(s, Do::backward, p.chunk) + count(s, Do::input_gradients, p.chunk);
    sum += count(s, Do::forward, p.chunk) * forward;
    if (!p.needed) continue;
    if (s.recompute == Recompute::block) sum += backwards * forward;
    // The gradient of attention's input is wanted where something before it trains.
    const auto& b = *block;
    bool wanted = p.passes_down;
    for (const ParamId id :
         {b.attention_norm, b.attention_norm_bias, b.qkv, b.qkv_bias, b.q_norm, b.k_norm})
      wanted = wanted || (id != ParamId{} && s.trainable[id.index()]);
    if (wanted) sum += backwards * (others + (ranks - 1) * (hq + 2 * hk));
  }
  return ranks == 1 ? 0 : sum * s.positions * c.head_dim * bytes(s.compute);
}

std::int64_t pipe_traffic(const RankStep& s) {
  const auto messages = count(s, Do::send_activation) + count(s, Do::send_gradient);
  auto sum = messages * s.positions * s.spec.config.width * bytes(s.compute);
  for (const auto& g : s.layout.segments)
    if (is_tied(s, g.unit) && trains(s, g) && !has_both_ends(s))
      sum += g.elements / s.sharers * bytes(s.master);
  return sum;
}

std::size_t block(std::int64_t elements, DType t) {
  const auto n = static_cast<std::size_t>(elements) * bytes_of(t);
  return std::max<std::size_t>(1, (n + Arena::granule - 1) / Arena::granule) * Arena::granule;
}

// The most whole units held at once: those that a turn reads and those gathered ahead of it.
std::size_t most_gathered(const RankStep& s) {
  const auto gathers = gathers_of(s);
  const auto whole = [&](std::size_t from, std::size_t to) {
    std::size_t sum = 0;
    for (auto i = from; i < to; ++i)
      for (const auto k : s.layout.of_unit[gathers[i].index()])
        sum += block(s.layout.segments[k].elements, s.compute);
    return sum;
  };
  if (s.gather_once) return whole(0, gathers.size());
  std::size_t most = 0, next = 0;  // gather
  for (const auto& t : s.turns) {
    if (!t.weights) continue;
    const auto& units = s.parts[t.part].units;
    if (next > 0 && gathers[next - 1] == units[0].unit) --next;  // shared with the turn before
    const auto begin = next;
    next += units.size();
    most = std::max(
        most, whole(begin, std::min(gathers.size(), next + static_cast<std::size_t>(s.prefetch))));
  }
  return most;
}

// The most whole gradients held at once: those a turn adds to, those that wait for the last
// microbatch, and those being scattered.
std::size_t most_whole_gradients(const RankStep& s) {
  using Key = std::pair<UnitId, Use>;
  std::map<Key, int> turns_left;
  for (const auto& t : s.turns)
    if (t.gradients)
      for (const auto& b : s.parts[t.part].units) ++turns_left[{b.unit, b.use}];
  const auto whole = [&](UnitId u) {
    std::size_t sum = 0;
    for (const auto k : s.layout.of_unit[u.index()])
      if (const auto& g = s.layout.segments[k]; trains(s, g)) sum += block(g.elements, s.master);
    return sum;
  };
  std::size_t most = 0, now = 0;
  std::set<Key> begun;
  std::deque<std::size_t> leaving;
  for (const auto& t : s.turns) {
    if (!t.gradients) continue;
    for (const auto& b : s.parts[t.part].units)
      if (begun.insert({b.unit, b.use}).second) now += whole(b.unit);
    most = std::max(most, now);
    for (const auto& b : s.parts[t.part].units) {
      if (--turns_left[{b.unit, b.use}] > 0 && s.reduce_once) continue;
      begun.erase({b.unit, b.use});
      if (whole(b.unit) == 0) continue;
      for (; std::ssize(leaving) >= s.scatters; leaving.pop_front()) now -= leaving.front();
      leaving.push_back(whole(b.unit));
    }
  }
  return most;
}

}  // namespace

Axes::Traffic step_traffic(const RankStep& s) {
  return {shard_traffic(s), seq_traffic(s), pipe_traffic(s)};
}

StateBytes state_bytes(const RankStep& s) {
  StateBytes most;
  const auto& c = s.spec.config;
  if (c.positions == Positions::rotary)
    most.weights += block(c.context * 2 * (c.head_dim / 2), s.master);
  for (const auto& g : s.layout.segments) {
    const auto n = g.elements / s.sharers;
    most.weights += block(n, s.master);
    if (s.compute != s.master) most.weights += block(n, s.compute);
    if (!trains(s, g)) continue;
    most.optimizer += static_cast<std::size_t>(s.state_arrays) * block(n, s.master);
    most.gradients += (is_tied(s, g.unit) ? 2 : 1) * block(n, s.master);
  }
  if (s.sharers == 1) return most;
  most.gathered = most_gathered(s);
  most.gradients += most_whole_gradients(s);
  return most;
}

}  // namespace trireme
