#pragma once
// The grid of ranks: pipeline x data x sequence parallelism. The functions map ranks to grid
// coordinates and determine which ranks form each communicator. They only do arithmetic, so tests
// and plans can use them for any rank of any grid without MPI.
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
  // Expert parallelism: number of consecutive ranks of a stage that together hold all its experts.
  int expert = 1;

  int ranks() const { return pipe * data * seq; }
  // Returns the number of ranks in one pipeline stage. All of them hold the same layers.
  int places() const { return data * seq; }
  // Returns the coordinates of a rank. The seq index varies fastest, then the data index.
  At at(int rank) const;
  int rank(At) const;
  // Returns the index of a rank within its stage: data index * seq + seq index.
  int place(int rank) const { return rank % places(); }

  bool operator==(const Grid&) const = default;
};

// Arguments for splitting a communicator off the world communicator. The `size` ranks with the same
// `color` form one communicator, in which ranks are ordered by `key` from 0 to size - 1.
struct Group {
  int color, key, size;
  bool operator==(const Group&) const = default;
};

// Returns the group of ranks that share one copy of a stage's parameters: `shard` consecutive ranks
// of the stage. `shard` must divide places(), the number of ranks in a stage.
Group shard_group(const Grid&, int shard, int rank);
// Returns the group of ranks that hold the same slice of different copies (replicas). Neighbors in
// this group are `shard` ranks apart in the stage.
Group replica_group(const Grid&, int shard, int rank);
// Returns the group of ranks that together hold all experts and send tokens to each other. The key
// is the index that owned_experts() takes. Grid::expert must divide places(), the number of ranks
// in a stage.
Group expert_group(const Grid&, int rank);
// The range [first, end) of experts that a rank holds.
struct OwnedExperts {
  std::int64_t first, end;
  std::int64_t count() const { return end - first; }
};
// Returns the experts that rank `rank` in an expert group of `ranks` ranks holds. The experts of a
// rank are consecutive. They are divided as evenly as possible: if the number of experts is not
// divisible by `ranks`, the first ranks hold one more.
OwnedExperts owned_experts(std::int64_t experts, int rank, int ranks);
// Returns the group of ranks that hold the same experts and share one copy of their parameters. The
// group is a subset of the shard group. If the shard group is smaller than the expert group, this
// rank is alone. One of `shard` and Grid::expert must divide the other.
Group expert_shard_group(const Grid&, int shard, int rank);
// Returns the group of ranks that hold the same slice of different copies (replicas) of the same
// experts.
Group expert_replica_group(const Grid&, int shard, int rank);
// Returns the group of ranks that divide the tokens of each sample among them (sequence
// parallelism).
Group seq_group(const Grid&, int rank);
// Returns the group of ranks that have the same data and seq indices in all stages. The key is the
// stage.
Group pipe_group(const Grid&, int rank);

// Sizes that limit which grids are possible. 0 means that a size is unknown or undecided and
// imposes no limit.
struct GridLimits {
  std::int64_t layers = 0;  // in the model; each stage needs at least one
  std::int64_t tokens = 0;  // per sample; seq must divide them
  std::int64_t batch = 0;   // samples per step; data * micro-batch must divide them
  // Smaller batches at the start of the run, which data * micro-batch must also divide.
  std::vector<std::int64_t> smaller_batches{};
  std::int64_t microbatch = 0;  // samples per micro-batch on each data rank
  std::int64_t shard = 0;       // ranks that share one copy of a stage; must divide data * seq
  std::int64_t experts = 0;     // per layer; parallel.expert must not exceed them
};

// A rule that a grid violates. `keys` are the deck keys that the rule involves, beginning with the
// key that the user should change.
struct GridProblem {
  std::vector<std::string> keys;
  std::string message;
};

// Returns the rules that the grid violates, or an empty vector if there are none. Each message
// lists the legal values. data = 0 means that the data axis is undecided.
std::vector<GridProblem> grid_problems(const Grid&, const GridLimits&);

// Returns all grids with `ranks` ranks that fit the limits, ordered by pipe, then by seq. All of
// them have the given `expert`.
std::vector<Grid> legal_grids(const GridLimits&, std::int64_t ranks, int expert = 1);

// Returns the grid for this number of ranks. If data = 0, the data axis gets all ranks that pipe
// and seq do not use. Throws Error, naming the nearest legal grids, if the grid does not have
// `ranks` ranks. Does not check other rules.
Grid fit_grid(const Grid&, const GridLimits&, std::int64_t ranks);

// Sorts grids by their distance from `asked`: the sum over the axes of |log2(ratio of the sizes)|.
void nearest_first(std::vector<Grid>&, const Grid& asked);

// Returns a text like "pipe 2 x data auto x seq 4". If experts are distributed, " with experts over
// N" follows.
std::string describe(const Grid&);

// Returns the divisors of n in ascending order. Requires n >= 1.
std::vector<std::int64_t> divisors(std::int64_t n);
// Returns the values of `legal` that are nearest to `asked`: at most eight, in ascending order and
// joined by commas.
std::string legal_text(std::vector<std::int64_t> legal, std::int64_t asked);

}  // namespace trireme
