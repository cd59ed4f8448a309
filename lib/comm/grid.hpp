#pragma once
// The grid of ranks: pipeline x data x sequence parallelism. The functions map ranks to grid
// coordinates and say which ranks form each communicator. They are pure arithmetic, so tests and
// plans can use them for any rank of any grid without MPI.
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Number of ranks along each axis. Rank = (pipe index * data + data index) * seq + seq index.
struct Grid {
  // Coordinates of a rank.
  struct At {
    int pipe = 0, data = 0, seq = 0;
    bool operator==(const At&) const = default;
  };
  int pipe = 1, data = 1, seq = 1;
  // Number of consecutive ranks of a stage that together hold all its experts (expert parallelism).
  int expert = 1;

  int ranks() const { return pipe * data * seq; }
  // Returns the number of ranks in one pipeline stage. They hold the same layers.
  int places() const { return data * seq; }
  // Returns the coordinates of a rank. The seq index varies fastest, then the data index.
  At at(int rank) const;
  int rank(At) const;
  // Returns the index of a rank within its stage: data index * seq + seq index.
  int place(int rank) const { return rank % places(); }

  bool operator==(const Grid&) const = default;
};

// The arguments with which one rank splits a communicator off the world. The `size` ranks with the
// same `color` form one communicator, ordered by `key` from 0 to size - 1.
struct Group {
  int color, key, size;
  bool operator==(const Group&) const = default;
};

// Returns the group of ranks that share one copy of a stage's parameters: `shard` consecutive ranks
// of the stage. `shard` must divide places().
Group shard_group(const Grid&, int shard, int rank);
// Returns the group of ranks that hold the same slice of different copies. Neighbors are `shard`
// ranks apart.
Group replica_group(const Grid&, int shard, int rank);
// Returns the group of ranks that together hold all experts and send each other their tokens. The
// key is the index of this rank's share of the experts. Grid::expert must divide places().
Group expert_group(const Grid&, int rank);
// The range [first, end) of experts that a rank holds.
struct OwnedExperts {
  std::int64_t first, end;
  std::int64_t count() const { return end - first; }
};
// Returns the experts that rank `rank` of an expert group of `ranks` ranks holds: consecutive ones,
// as many on each rank. If they do not divide evenly, the first ranks hold one more.
OwnedExperts owned_experts(std::int64_t experts, int rank, int ranks);
// Returns the group of ranks that hold the same experts and share one copy of their parameters.
// They are in the same shard group. If the shard group is smaller than the expert group, this rank
// is alone. One of `shard` and Grid::expert must divide the other.
Group expert_shard_group(const Grid&, int shard, int rank);
// Returns the group of ranks that hold the same slice of different copies of the same experts.
Group expert_replica_group(const Grid&, int shard, int rank);
// Returns the group of ranks that share the tokens of each sample (sequence parallelism).
Group seq_group(const Grid&, int rank);
// Returns the group of ranks with the same data and seq index in all stages. The key is the stage.
Group pipe_group(const Grid&, int rank);

// Sizes that limit which grids are possible. 0 means unknown or undecided, and then there is no
// limit.
struct GridLimits {
  std::int64_t layers = 0;      // in the model; each stage needs at least one
  std::int64_t tokens = 0;      // per sample; seq must divide them
  std::int64_t batch = 0;       // samples per step; data * micro-batch must divide them
  std::int64_t microbatch = 0;  // samples per micro-batch on each data rank
  std::int64_t shard = 0;       // ranks that share one copy of a stage; must divide data * seq
  std::int64_t experts = 0;     // per layer; parallel.expert must not exceed them
};

// A rule that a grid violates. `keys` are the deck keys that the rule involves; the first one is
// the one that should be changed.
struct GridProblem {
  std::vector<std::string> keys;
  std::string message;
};

// Returns the rules that the grid violates. Each message lists the legal values. data = 0 means
// that it is undecided. The result is empty if the grid fits the limits.
std::vector<GridProblem> grid_problems(const Grid&, const GridLimits&);

// Returns all grids with `ranks` ranks that fit the limits, ordered by pipe, then seq. All have the
// given `expert`.
std::vector<Grid> legal_grids(const GridLimits&, std::int64_t ranks, int expert = 1);

// Returns the grid for this number of ranks. If data = 0, the data axis gets the ranks that pipe
// and seq leave. Throws Error, naming the nearest legal grids, if the grid does not have `ranks`
// ranks. Other rules are not checked.
Grid fit_grid(const Grid&, const GridLimits&, std::int64_t ranks);

// Sorts grids by distance from `asked`, which is the sum of |log2| of the ratios of the axes.
void nearest_first(std::vector<Grid>&, const Grid& asked);

// Returns a text like "pipe 2 x data auto x seq 4". If experts are distributed, " with experts over
// N" follows.
std::string describe(const Grid&);

// Returns the divisors of n in ascending order. Requires n >= 1.
std::vector<std::int64_t> divisors(std::int64_t n);
// Returns the values of `legal` that are nearest to `asked`, at most eight, ascending and joined by
// commas.
std::string legal_text(std::vector<std::int64_t> legal, std::int64_t asked);

}  // namespace trireme
