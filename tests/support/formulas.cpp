#include "tests/support/formulas.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "kernels/arena.hpp"
#include "tests/support/matrix_traffic.hpp"
#include "tests/support/mixture_formulas.hpp"
#include "tests/support/sequence_formulas.hpp"

namespace trireme {

namespace {

std::int64_t count(const RankStep& s, Do what) {
  return std::ranges::count(s.program, what, &Instruction::what);
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

// That weights are computed with.
DType type_of(const RankStep& s, const Segment& g) {
  return g.wide ? s.master : s.compute;
}

// As what adapters stand beside is kept: 4 bits, a byte for 64 and 8 bytes for 16,384 weights, on
// 64 bytes.
bool is_narrow(const RankStep& s, const Segment& g) {
  return g.kept == BaseType::nf4 || (g.kept == BaseType::bf16 && s.compute != DType::bf16);
}
std::int64_t kept_bytes(const RankStep& s, const Segment& g, std::int64_t weights) {
  if (g.kept == BaseType::nf4) return weights / 16384 * (8192 + 256 + 64);
  return weights * (g.kept == BaseType::bf16 ? 2 : bytes(type_of(s, g)));
}

bool is_sent_in_fp8(const RankStep& s, const Segment& g) {
  return g.sent_in_fp8 && s.of(g).ranks > 1;
}
std::int64_t sent_bytes(const RankStep& s, const Segment& g, std::int64_t weights) {
  return is_sent_in_fp8(s, g) ? weights : kept_bytes(s, g, weights);
}

// Tiles of 128 x 128 weights, each matrix with a multiple of four in a row of tiles.
std::int64_t up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}
std::int64_t tiles_in_row(const RankStep& s, const Slot& slot) {
  return up(up(s.spec.params[slot.param.index()].shape[1], 128) / 128, 4);
}
std::int64_t tiles_of(const RankStep& s, const Segment& g) {
  std::int64_t n = 0;
  for (const auto& slot : g.slots)
    n += up(s.spec.params[slot.param.index()].shape[0], 128) / 128 * tiles_in_row(s, slot);
  return n;
}
// The most that rows of tiles with weights of one rank have, those between them included.
std::int64_t most_tiles_of_a_rank(const RankStep& s, const Segment& g) {
  const auto ranks = s.of(g).ranks, n = g.elements / ranks;
  std::int64_t most = 1;
  for (std::int64_t r = 0; r < ranks; ++r) {
    std::int64_t first = -1, end = 0, at = 0;
    for (const auto& slot : g.slots) {
      const auto& shape = s.spec.params[slot.param.index()].shape;
      for (std::int64_t row = 0; row < shape[0]; row += 128, at += tiles_in_row(s, slot)) {
        const auto begin = slot.begin + row * shape[1],
                   stop = slot.begin + std::min(shape[0], row + 128) * shape[1];
        if (stop <= r * n || begin >= (r + 1) * n) continue;
        if (first < 0) first = at;
        end = at + tiles_in_row(s, slot);
      }
    }
    if (first >= 0) most = std::max(most, end - first);
  }
  return most;
}

std::int64_t shard_traffic(const RankStep& s) {
  const auto gathers = gathers_of(s);
  std::int64_t sum = 0;
  for (const auto& g : s.layout.segments) {
    const auto [ranks, copies] = s.of(g);
    const auto n = g.elements / ranks;
    sum += (ranks - 1) * sent_bytes(s, g, n) * std::ranges::count(gathers, g.unit);
    if (is_sent_in_fp8(s, g)) sum += (ranks - 1) * 4 * most_tiles_of_a_rank(s, g);
    if (!trains(s, g)) continue;
    sum += (ranks - 1) * n * bytes(s.reduce) * scatters_of(s, g.unit);
    // Another stage with a tied table gets the sum from the first.
    if (is_tied(s, g.unit) && s.at.pipe > 0) continue;
    sum += (copies - 1) * n / copies * (bytes(s.reduce) + bytes(s.master));
  }
  return sum;
}

std::int64_t pipe_traffic(const RankStep& s) {
  const auto messages = count(s, Do::send_activation) + count(s, Do::send_gradient);
  auto sum = messages * s.positions * s.spec.config.width * bytes(s.compute);
  for (const auto& g : s.layout.segments)
    if (is_tied(s, g.unit) && trains(s, g) && !has_both_ends(s))
      sum += g.elements / s.stage.ranks * bytes(s.master);
  return sum;
}

std::size_t block_of_bytes(std::int64_t bytes) {
  const auto n = static_cast<std::size_t>(bytes);
  return std::max<std::size_t>(1, (n + Arena::granule - 1) / Arena::granule) * Arena::granule;
}
std::size_t block(std::int64_t elements, DType t) {
  return block_of_bytes(elements * bytes(t));
}

// The most whole units held at once, as they are kept: those that a turn reads and those gathered
// ahead of it; and what it reads, widened.
std::size_t most_gathered(const RankStep& s) {
  const auto gathers = gathers_of(s);
  const auto whole = [&](std::size_t from, std::size_t to) {
    std::size_t sum = 0;
    for (auto i = from; i < std::min(to, gathers.size()); ++i)
      for (const auto k : s.layout.of_unit[gathers[i].index()])
        if (const auto& g = s.layout.segments[k]; s.of(g).ranks > 1)
          sum += block_of_bytes(sent_bytes(s, g, g.elements));
    return sum;
  };
  const auto widened = [&](UnitId u) {
    std::size_t sum = 0;
    for (const auto k : s.layout.of_unit[u.index()])
      if (const auto& g = s.layout.segments[k]; is_narrow(s, g) || is_sent_in_fp8(s, g))
        sum += block(g.elements, type_of(s, g));
    return sum;
  };
  std::size_t most = s.gather_once ? whole(0, gathers.size()) : 0, next = 0;  // gather
  for (const auto& t : s.turns) {
    if (!t.weights) continue;
    const auto& units = s.parts[t.part].units;
    std::size_t begin = 0, here = 0;
    for (const auto& b : units) here += widened(b.unit);
    if (s.gather_once) {
      for (const auto& b : units)
        next = std::max(next, static_cast<std::size_t>(std::ranges::find(gathers, b.unit) -
                                                       gathers.begin() + 1));
    } else {
      if (next > 0 && gathers[next - 1] == units[0].unit) --next;  // shared with the turn before
      begin = next;
      next += units.size();
    }
    most = std::max(most, whole(begin, next + static_cast<std::size_t>(s.prefetch)) + here);
  }
  // Own codes and the scales of all, for the whole step.
  for (const auto& g : s.layout.segments)
    if (is_sent_in_fp8(s, g))
      most += block_of_bytes(g.elements / s.of(g).ranks) + block(tiles_of(s, g), DType::f32);
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
      if (const auto& g = s.layout.segments[k]; trains(s, g) && s.of(g).ranks > 1)
        sum += block(g.elements, s.master);
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
  return {shard_traffic(s) + matrix_traffic(s), seq_traffic(s) + choices_traffic(s),
          pipe_traffic(s), expert_traffic(s)};
}

// FLOPs of the adapter of the embedding or the head. The embedding looks up rows of b, so only a is
// a product. The head computes its gradients in the forward pass.
static double table_adapter_flops(const RankStep& s, ParamId table, double forwards,
                                  double backwards) {
  const auto* a = s.spec.adapter_of(table);
  if (!a) return 0;
  const auto inner = 2 * static_cast<double>(s.positions * a->rank);
  const auto width = static_cast<double>(s.spec.config.width),
             vocab = static_cast<double>(s.spec.config.vocab);
  const double of_a = s.trainable[a->a.index()], of_b = s.trainable[a->b.index()];
  if (table == s.spec.table) return inner * width * (forwards + backwards * (of_a + of_b));
  return inner * forwards * ((2 + of_a) * width + (2 + of_b) * vocab);
}

double step_flops(const RankStep& s) {
  const auto& c = s.spec.config;
  const auto t = static_cast<double>(s.positions), width = static_cast<double>(c.width);
  const auto rows = expert_rows(s);
  const auto expert = static_cast<double>(c.expert_width) * width;  // weights of a third
  const bool adapts = s.spec.adapter.rank > 0;  // all else has no gradient of its own
  double sum = 0;
  for (const auto& p : s.parts) {
    const auto forwards = static_cast<double>(passes_of(s, p).forward),
               backwards = static_cast<double>(passes_of(s, p).backward);
    if (p.units[0].unit == s.spec.head_unit && p.gradient_in_forward)
      sum += forwards * (adapts ? 2 : 3) * 2 * t * width * static_cast<double>(c.vocab) +
             table_adapter_flops(s, s.spec.head, forwards, backwards);
    else if (p.units[0].unit == s.spec.table_unit)
      sum += table_adapter_flops(s, s.spec.table, forwards, backwards);
    const auto* b = block_of(s, p);
    if (!b) continue;
    const double attention = attention_flops_of(s, b - s.spec.blocks.data());
    const auto count = [&](ParamId id) {
      return static_cast<double>(s.spec.params[id.index()].shape.count());
    };
    // DoRA: each forward pass takes s b a of every row, for the norms.
    double weights = 0, adapters = 0, norms = 0;
    for (const auto& a : s.spec.adapters)
      if (a.norms != ParamId{} && s.spec.params[a.weight.index()].unit == b->unit)
        norms += 2 * count(a.b) * static_cast<double>(s.spec.params[a.weight.index()].shape[1]);
    for (const auto& param : s.spec.params)
      if (param.unit == b->unit && param.shape.dims() == 2 && param.expert < 0)
        (is_of_adapter(param) ? adapters : weights) += static_cast<double>(param.shape.count());
    double products = 2 * t * weights;
    if (!b->expert_in.empty()) {
      products += 2 * static_cast<double>(rows.all) * 3 * expert;
      sum += backwards * 2 * static_cast<double>(rows.later) * 2 * expert;
      // Backward an adapter's a and b are each multiplied three times: for what lies before them,
      // for t and u, and for their own gradients. Rows of later rounds pass the first layer again.
      const auto low = [&](ParamId weight) {
        const auto* a = s.spec.adapter_of(weight);
        return a ? count(a->a) + count(a->b) : 0;
      };
      const double in = low(b->expert_in[0]), out = low(b->expert_out[0]);
      sum += (forwards + 3 * backwards) * 2 * static_cast<double>(rows.all) * (in + out) +
             backwards * 2 * static_cast<double>(rows.later) * in;
    }
    sum += forwards * (products + norms + 2 * t * adapters + 2 * attention) +
           backwards * ((adapts ? 1 : 2) * products + 2 * 2 * t * adapters + 5 * attention);
    // Each chunk forward once more: all but attention. Recompute leaves to it what ends a block.
    auto qkv = count(b->qkv);
    if (const auto* a = s.spec.adapter_of(b->qkv)) {
      // The first block's input has no gradient where the embedding is frozen.
      if (!p.passes_down) sum -= backwards * 2 * t * (qkv + count(a->a));
      qkv += count(a->a) + count(a->b);
    }
    const bool whole = !b->expert_in.empty() || s.recompute == Recompute::block;
    if (s.in_chunks) sum += backwards * 2 * t * (whole ? qkv : weights + adapters);
  }
  return sum + muon_flops(s);
}

StateBytes state_bytes(const RankStep& s) {
  StateBytes most;
  const auto& c = s.spec.config;
  if (c.positions == Positions::rotary)
    most.weights += (c.window > 0 && c.window_rope_theta > 0 ? 2 : 1) *
                    block(s.context * 2 * (c.head_dim / 2), s.master);
  for (const auto& g : s.layout.segments) {
    const auto n = g.elements / s.of(g).ranks;
    const bool learns = g.learns_from != LearnsFrom::nothing;
    if (learns) most.weights += block(n, s.master);
    if (!learns || type_of(s, g) != s.master) most.weights += block_of_bytes(kept_bytes(s, g, n));
    if (!trains(s, g)) continue;
    most.optimizer += static_cast<std::size_t>(s.averages) * block(n, s.master);
    most.optimizer += matrix_state_bytes(s, g);
    // On the first rank, whose shard has most of what no rule for matrices updates.
    if (const auto others = std::min(n, g.matrices_begin); others > 0)
      most.optimizer += static_cast<std::size_t>(s.state_arrays) * block(others, s.master);
    most.gradients += (is_tied(s, g.unit) ? 2 : 1) * block(n, s.master);
  }
  most.gathered = most_gathered(s);
  if (s.stage.ranks == 1) return most;
  most.gradients += most_whole_gradients(s);
  return most;
}

}  // namespace trireme
