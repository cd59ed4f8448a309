#include "lib/comm/grid.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"

namespace trireme {
namespace {

constexpr std::size_t most_listed = 8;

// Returns the sum of |log2| of the axes' ratios. By this measure, 1 x 2 x 1 is as far from 1 x 4 x
// 1 as from 2 x 2 x 1.
double distance(const Grid& a, const Grid& b) {
  const auto apart = [](int x, int y) {
    return x == 0 || y == 0 ? 0 : std::abs(std::log2(x) - std::log2(y));
  };
  return apart(a.pipe, b.pipe) + apart(a.data, b.data) + apart(a.seq, b.seq);
}

class Checker {
 public:
  Checker(const Grid& grid, const GridLimits& limits) : g_(grid), l_(limits) {}

  std::vector<GridProblem> all() {
    pipe();
    seq();
    batches();
    shard();
    expert();
    return std::move(problems_);
  }

 private:
  template <class... A>
  void problem(std::vector<std::string> keys, fmt::format_string<A...> text, A&&... args) {
    problems_.push_back({std::move(keys), fmt::format(text, std::forward<A>(args)...)});
  }

  void pipe() {
    if (l_.layers == 0 || g_.pipe <= l_.layers) return;
    problem(
        {"parallel.pipe", "model.layers"},
        "parallel.pipe = {} is more than model.layers = {}; each stage needs at least one block",
        g_.pipe, l_.layers);
  }

  void seq() {
    if (l_.tokens == 0 || l_.tokens % g_.seq == 0) return;
    problem({"parallel.seq", "model.context"},
            "parallel.seq = {} does not divide model.context = {}; degrees that do: {}", g_.seq,
            l_.tokens, legal_text(divisors(l_.tokens), g_.seq));
  }

  void batches() {
    if (l_.batch == 0) return;
    batch("train.batch", l_.batch, fmt::format("train.batch = {}", l_.batch));
    for (const auto smaller : l_.smaller_batches)
      batch("train.batch_ramp", smaller, fmt::format("the batch {} of train.batch_ramp", smaller));
  }

  void batch(const char* key, std::int64_t batch, const std::string& name) {
    const std::int64_t data = std::max(g_.data, 1);
    if (batch % data != 0) {
      const std::int64_t step = data * std::max<std::int64_t>(l_.microbatch, 1);
      std::vector<std::int64_t> batches = {batch / step * step, (batch / step + 1) * step};
      std::erase(batches, 0);
      problem({key, "parallel.data"},
              "{} is not divisible by parallel.data = {}; batches that are: {}; data degrees that "
              "divide it: {}",
              name, data, legal_text(batches, batch), legal_text(divisors(batch), data));
    } else if (l_.microbatch > 0 && batch / data % l_.microbatch != 0) {
      problem({"train.microbatch", key, "parallel.data"},
              "train.microbatch = {} does not divide the {} samples of a data rank ({}, "
              "parallel.data = {}); microbatches that do: {}",
              l_.microbatch, batch / data, name, data,
              legal_text(divisors(batch / data), l_.microbatch));
    }
  }

  void shard() {
    const std::int64_t places = std::int64_t{g_.data} * g_.seq;
    if (l_.shard == 0 || g_.data == 0 || places % l_.shard == 0) return;
    problem({"zero.shard", "parallel.data", "parallel.seq"},
            "zero.shard = {} does not divide the parallel.data x parallel.seq = {} x {} ranks of a "
            "stage; sizes that do: {}",
            l_.shard, g_.data, g_.seq, legal_text(divisors(places), l_.shard));
  }

  void expert() {
    if (g_.expert == 1) return;
    if (l_.experts > 0 && g_.expert > l_.experts)
      problem({"parallel.expert", "model.experts"},
              "parallel.expert = {} is more than model.experts = {}; each rank needs at least one "
              "expert",
              g_.expert, l_.experts);
    const std::int64_t places = std::int64_t{g_.data} * g_.seq;
    if (g_.data == 0) return;
    if (places % g_.expert != 0)
      problem({"parallel.expert", "parallel.data", "parallel.seq"},
              "parallel.expert = {} does not divide the parallel.data x parallel.seq = {} x {} "
              "ranks of a stage; sizes that do: {}",
              g_.expert, g_.data, g_.seq, legal_text(divisors(places), g_.expert));
    else if (l_.shard > 0 && l_.shard % g_.expert != 0 && g_.expert % l_.shard != 0)
      problem({"parallel.expert", "zero.shard"},
              "one of parallel.expert = {} and zero.shard = {} must divide the other", g_.expert,
              l_.shard);
  }

  const Grid& g_;
  const GridLimits& l_;
  std::vector<GridProblem> problems_;
};

}  // namespace

Grid::At Grid::at(int rank) const {
  expect(rank >= 0 && rank < ranks(), "a rank lies in its grid");
  return {rank / places(), rank / seq % data, rank % seq};
}

int Grid::rank(At a) const {
  expect(a.pipe >= 0 && a.pipe < pipe && a.data >= 0 && a.data < data && a.seq >= 0 && a.seq < seq,
         "a place lies in its grid");
  return (a.pipe * data + a.data) * seq + a.seq;
}

Group shard_group(const Grid& g, int shard, int rank) {
  expect(shard >= 1 && g.places() % shard == 0, "shard groups fill a stage");
  return {rank / shard, rank % shard, shard};
}

Group replica_group(const Grid& g, int shard, int rank) {
  expect(shard >= 1 && g.places() % shard == 0, "shard groups fill a stage");
  const int stage = g.at(rank).pipe, place = g.place(rank);
  return {stage * shard + place % shard, place / shard, g.places() / shard};
}

OwnedExperts owned_experts(std::int64_t experts, int rank, int ranks) {
  const auto each = experts / ranks, more = experts % ranks;
  const auto first = rank * each + std::min<std::int64_t>(rank, more);
  return {first, first + each + (rank < more ? 1 : 0)};
}

Group expert_group(const Grid& g, int rank) {
  expect(g.expert >= 1 && g.places() % g.expert == 0, "expert groups fill a stage");
  return {rank / g.expert, rank % g.expert, g.expert};
}

Group expert_shard_group(const Grid& g, int shard, int rank) {
  if (shard < g.expert) return {rank, 0, 1};
  expect(shard % g.expert == 0, "a shard group has whole expert groups");
  return {rank / shard * g.expert + rank % g.expert, rank % shard / g.expert, shard / g.expert};
}

Group expert_replica_group(const Grid& g, int shard, int rank) {
  return replica_group(g, std::max(shard, g.expert), rank);
}

Group seq_group(const Grid& g, int rank) {
  return {rank / g.seq, g.at(rank).seq, g.seq};
}

Group pipe_group(const Grid& g, int rank) {
  return {g.place(rank), g.at(rank).pipe, g.pipe};
}

std::vector<GridProblem> grid_problems(const Grid& grid, const GridLimits& limits) {
  return Checker(grid, limits).all();
}

std::vector<Grid> legal_grids(const GridLimits& limits, std::int64_t ranks, int expert) {
  std::vector<Grid> grids;
  for (const std::int64_t pipe : divisors(ranks)) {
    for (const std::int64_t seq : divisors(ranks / pipe)) {
      const Grid g{static_cast<int>(pipe), static_cast<int>(ranks / pipe / seq),
                   static_cast<int>(seq), expert};
      if (grid_problems(g, limits).empty()) grids.push_back(g);
    }
  }
  return grids;
}

void nearest_first(std::vector<Grid>& grids, const Grid& asked) {
  std::ranges::stable_sort(grids, {}, [&](const Grid& g) { return distance(g, asked); });
}

Grid fit_grid(const Grid& asked, const GridLimits& limits, std::int64_t ranks) {
  require(ranks >= 1 && ranks <= 1 << 30, "a run has between 1 and 2^30 ranks, not {}", ranks);
  const std::int64_t others = std::int64_t{asked.pipe} * asked.seq;
  const bool fits = asked.data == 0 ? ranks % others == 0 : ranks == others * asked.data;
  if (fits) return {asked.pipe, static_cast<int>(ranks / others), asked.seq, asked.expert};

  auto grids = legal_grids(limits, ranks, asked.expert);
  nearest_first(grids, asked);
  if (grids.size() > most_listed) grids.resize(most_listed);
  std::vector<std::string> texts;
  for (const Grid& g : grids) texts.push_back(fmt::format("{} x {} x {}", g.pipe, g.data, g.seq));
  const auto needs = others * std::max(1, asked.data);
  fail(
      "a grid of {} does not fill {}: start {}{} (mpiexec -n {}; for check and plan: --ranks {}). "
      "{}",
      describe(asked), counted(ranks, "rank"), asked.data == 0 ? "a multiple of " : "",
      counted(needs, "rank"), needs, needs,
      grids.empty() ? fmt::format("No grid of {} fits this model and batch", counted(ranks, "rank"))
                    : fmt::format("Grids of {} (pipe x data x seq): {}", counted(ranks, "rank"),
                                  fmt::join(texts, ", ")));
}

std::string describe(const Grid& g) {
  return fmt::format("pipe {} x data {} x seq {}{}", g.pipe,
                     g.data == 0 ? "auto" : std::to_string(g.data), g.seq,
                     g.expert > 1 ? fmt::format(" with experts over {}", g.expert) : "");
}

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> small, large;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d * d != n) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::string legal_text(std::vector<std::int64_t> legal, std::int64_t asked) {
  std::ranges::stable_sort(legal, {}, [&](std::int64_t n) { return std::abs(n - asked); });
  if (legal.size() > most_listed) legal.resize(most_listed);
  std::ranges::sort(legal);
  return fmt::format("{}", fmt::join(legal, ", "));
}

}  // namespace trireme
