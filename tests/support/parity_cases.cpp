#include "tests/support/parity_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "lib/base/rng.hpp"

namespace trireme::test {

static std::string text(const ZeroConfig& z) {
  auto s = fmt::format("zero{}", z.stage);
  if (z.stage == 3) {
    if (z.gather == ZeroCadence::step) s += "_gather_step";
    if (z.reduce == ZeroCadence::step) s += "_reduce_step";
  }
  if (z.shard) s += fmt::format("_shard{}", z.shard);
  if (z.prefetch != 1 || z.scatters != 1) s += fmt::format("_ahead{}_{}", z.prefetch, z.scatters);
  return s;
}

static const char* word_of(const ParityCase& c) {
  if (c.optimizer == OptimizerKind::adamw) return "adamw";
  if (c.optimizer == OptimizerKind::lion) return "lion";
  return c.momentum > 0 ? "nesterov" : "sgd";
}

std::string name_of(const ParityCase& c) {
  return fmt::format(
      "pipe{}_data{}_seq{}_{}_{}_m{}{}{}_{}{}{}", c.grid.pipe, c.grid.data, c.grid.seq, c.flavour,
      text(c.zero), c.microbatches, c.recompute == Recompute::block ? "_recompute" : "",
      c.dropout > 0 ? "_dropout" : "", word_of(c),
      c.freeze.empty() ? "" : fmt::format("_freeze{}", c.freeze.size()),
      (c.backend == "ref" ? "" : "_" + c.backend) + (c.exact_chunk > 0 ? "_exact" : "") +
          (c.reduce == DType::bf16 ? "_wire16" : "") +
          (c.transport == TransportKind::device ? "_between_devices" : ""));
}

ModelConfig parity_model(const ParityCase& p) {
  ModelConfig c;
  c.layers = 8;
  c.width = 24;
  c.heads = 12;
  c.vocab = 29;
  c.context = p.size;
  c.ffn_width = 40;
  if (p.flavour != "gpt2") c.kv_heads = 3;
  if (p.flavour == "llama") {
    c.norm = NormKind::rms;
    c.bias = false;
    c.activation = ActivationKind::swiglu;
    c.positions = Positions::rotary;
    c.tied = false;
  }
  c.dropout = p.dropout;
  c.recompute = p.recompute;
  return resolved(c);
}

TrainerSetup parity_setup(const ParityCase& p) {
  TrainerSetup s;
  s.model = parity_model(p);
  s.optimizer.name = p.optimizer;
  s.optimizer.momentum = p.momentum;
  s.optimizer.nesterov = p.momentum > 0;
  const bool plain = p.optimizer == OptimizerKind::sgd;
  if (plain) {  // Adam and clipping hide constant factors
    s.optimizer.weight_decay = 0;
    s.optimizer.clip = 0;
  }
  s.zero = p.zero;
  s.freeze = p.freeze;
  s.stage_layers = p.stage_layers;
  s.compute = p.compute;
  s.reduce = p.reduce;
  s.exact_chunk = p.exact_chunk;
  s.seed = 11;
  return s;
}

PlanInput plan_input(const ParityCase& p) {
  PlanInput in;
  in.setup = parity_setup(p);
  in.train.batch = p.size;
  in.train.steps = p.steps;
  in.train.microbatch = p.size / (p.grid.data * p.microbatches);
  in.grid = p.grid;
  in.evaluation = PlanEvaluation::left_out;
  in.transport = p.transport;
  return in;
}

namespace {

using Change = std::function<void(ParityCase&)>;
using Factor = std::vector<Change>;  // its settings

ZeroConfig zero(int stage, ZeroCadence gather = ZeroCadence::microbatch,
                ZeroCadence reduce = ZeroCadence::microbatch) {
  ZeroConfig z;
  z.stage = stage;
  z.gather = gather;
  z.reduce = reduce;
  return z;
}

// Four microbatches of a sample on each rank, and two positions at least.
std::int64_t size_for(const Grid& g) {
  for (const int odd : {3, 5, 7})
    if (g.ranks() % odd == 0) return odd == 3 ? 24 : 4 * odd;
  return 16;
}

Factor grids(int ranks) {
  Factor f;
  for (const auto& g : parity_grids({ranks}))
    f.push_back([g](ParityCase& c) {
      c.grid = g;
      c.size = size_for(g);
    });
  return f;
}

std::vector<Factor> factors(int ranks) {
  constexpr auto step = ZeroCadence::step, micro = ZeroCadence::microbatch;
  Factor zeros;
  for (const auto& z : {zero(0), zero(1), zero(2), zero(3), zero(3, step), zero(3, micro, step),
                        zero(3, step, step)})
    zeros.push_back([z](ParityCase& c) { c.zero = z; });
  zeros.push_back([](ParityCase& c) {  // two copies, or as good as that on this grid
    c.zero = zero(3);
    if (c.grid.places() % 2 == 0) c.zero.shard = c.grid.places() / 2;
  });
  zeros.push_back([](ParityCase& c) {
    c.zero = zero(3);
    c.zero.prefetch = 3;
    c.zero.scatters = 2;
  });
  const auto flavour = [](const char* name) { return [name](ParityCase& c) { c.flavour = name; }; };
  const auto microbatches = [](int m) {
    return [m](ParityCase& c) {
      c.microbatches = std::min(m, static_cast<int>(c.size) / c.grid.data);
    };
  };
  return {grids(ranks),
          zeros,
          {flavour("gpt2"), flavour("llama"), flavour("gqa")},
          {microbatches(1), microbatches(2), microbatches(4)},
          {[](ParityCase&) {}, [](ParityCase& c) { c.recompute = Recompute::block; }},
          {[](ParityCase&) {}, [](ParityCase& c) { c.dropout = 0.1; }},
          {[](ParityCase&) {}, [](ParityCase& c) { c.optimizer = OptimizerKind::adamw; }}};
}

using Choice = std::vector<std::size_t>;  // of a setting, by factor

ParityCase make_case(const std::vector<Factor>& all, const Choice& choice) {
  ParityCase c;
  for (std::size_t f = 0; f < all.size(); ++f) all[f][choice[f]](c);
  return c;
}

// Settings of a few factors, each with its factor.
using Meeting = std::vector<std::pair<std::size_t, std::size_t>>;

// All of `size` factors that a choice makes.
void add_meetings(const Choice& c, std::size_t size, std::size_t from, Meeting& so_far,
                  std::vector<Meeting>& all) {
  if (so_far.size() == size) {
    all.push_back(so_far);
    return;
  }
  for (auto f = from; f < c.size(); ++f) {
    so_far.emplace_back(f, c[f]);
    add_meetings(c, size, f + 1, so_far, all);
    so_far.pop_back();
  }
}

std::vector<Meeting> meetings_of(const Choice& c, std::size_t size, std::size_t first) {
  Meeting so_far;
  std::vector<Meeting> all;
  add_meetings(c, size, first, so_far, all);
  return all;
}

// Every choice there is, in the order of an odometer.
void for_each_choice(const std::vector<Factor>& all, const std::function<void(const Choice&)>& f) {
  Choice c(all.size(), 0);
  for (std::size_t i = 0; i < all.size();) {
    f(c);
    for (i = 0; i < all.size() && ++c[i] == all[i].size(); ++i) c[i] = 0;
  }
}

// Every setting of every `size` factors meets at least once. Greedy: from pseudo-random candidates
// the one that covers most that is not covered yet.
std::vector<ParityCase> covering_cases(const std::vector<Factor>& all, std::size_t size) {
  const std::size_t first = all[0].size() > 1 ? 0 : 1;  // one grid: it meets all
  std::set<Meeting> missing;
  for_each_choice(all, [&](const Choice& c) {
    for (auto& m : meetings_of(c, size, first)) missing.insert(std::move(m));
  });
  std::vector<ParityCase> cases;
  std::uint64_t draw = 0;
  while (!missing.empty()) {
    Choice best;
    std::size_t most = 0;
    for (int candidate = 0; candidate < 60; ++candidate) {
      Choice c;
      for (const auto& f : all) c.push_back(mix64(++draw) % f.size());
      // Every candidate covers the first that is missing, so the search ends.
      for (const auto& [f, setting] : *missing.begin()) c[f] = setting;
      const auto meetings = meetings_of(c, size, first);
      const auto gain = static_cast<std::size_t>(
          std::ranges::count_if(meetings, [&](const Meeting& m) { return missing.contains(m); }));
      if (gain > most) {
        most = gain;
        best = c;
      }
    }
    for (const auto& m : meetings_of(best, size, first)) missing.erase(m);
    cases.push_back(make_case(all, best));
  }
  return cases;
}

// Of those that mean the same on their grid, one.
std::vector<ParityCase> without_repeats(std::vector<ParityCase> cases) {
  std::set<std::string> names;
  std::erase_if(cases, [&](const ParityCase& c) { return !names.insert(name_of(c)).second; });
  return cases;
}

std::vector<Factor> factors_on(const Grid& grid) {
  auto all = factors(grid.ranks());
  std::erase_if(all[0], [&](const Change& choose) {
    ParityCase c;
    choose(c);
    return c.grid != grid;
  });
  return all;
}

}  // namespace

std::vector<ParityCase> pairwise_cases(int ranks) {
  return covering_cases(factors(ranks), 2);
}

std::vector<ParityCase> exact_cases(std::vector<ParityCase> cases, const char* backend,
                                    DType compute) {
  for (auto& c : cases) {
    c.backend = backend;
    c.compute = compute;
    c.reduce = DType::f32;
    c.exact_chunk = 2;  // divides what each of up to 8 ranks has
    c.steps = 3;
  }
  return cases;
}

std::vector<ParityCase> triple_cases(const Grid& grid) {
  return without_repeats(covering_cases(factors_on(grid), 3));
}

std::vector<ParityCase> all_cases(const Grid& grid) {
  const auto all = factors_on(grid);
  std::vector<ParityCase> cases;
  for_each_choice(all, [&](const Choice& c) { cases.push_back(make_case(all, c)); });
  return without_repeats(std::move(cases));
}

// One for each grid, the other settings drawn.
static std::vector<ParityCase> f32_cases(int ranks, std::uint64_t draw) {
  const auto all = factors(ranks);
  std::vector<ParityCase> cases;
  for (std::size_t grid = 0; grid < all[0].size(); ++grid) {
    Choice choice{grid};
    for (std::size_t f = 1; f < all.size(); ++f) choice.push_back(mix64(++draw) % all[f].size());
    auto c = make_case(all, choice);
    c.compute = DType::f32;
    c.reduce = grid % 3 == 2 ? DType::bf16 : DType::f32;
    c.optimizer = OptimizerKind::sgd;  // Adam divides rounding by rounding where a gradient is 0
    c.steps = 2;
    cases.push_back(c);
  }
  return cases;
}

std::vector<ParityCase> fenced_cases(int ranks) {
  auto cases = f32_cases(ranks, 0);
  for (auto& c : cases) c.backend = "fenced";
  return cases;
}

std::vector<ParityCase> device_wire_cases(int ranks) {
  auto cases = f32_cases(ranks, 1000);
  for (auto& c : cases) {
    c.backend = "host";
    c.transport = TransportKind::device;
  }
  return cases;
}

std::vector<Grid> parity_grids(const std::vector<int>& ranks) {
  std::vector<Grid> grids;
  for (const int n : ranks)
    for (int pipe = 1; pipe <= n; ++pipe)
      for (int seq = 1; pipe * seq <= n; ++seq)
        if (n % (pipe * seq) == 0) grids.push_back({pipe, n / (pipe * seq), seq});
  return grids;
}

}  // namespace trireme::test
