#pragma once
// Rank <-> coordinates in the grid pipe x data x seq, and which ranks form each communicator.
// Arithmetic only: tests and plans use it for any rank of any grid without MPI.
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct Grid {
  struct At {
    int pipe = 0, data = 0, seq = 0;
    bool operator==(const At&) const = default;
  };
  int pipe = 1, data = 1, seq = 1;  // ranks along each axis
  // Ranks that hold all experts of a stage between them: so many places in a row.
  int expert = 1;

  int ranks() const { return pipe * data * seq; }
  // Ranks of one stage; they hold the same layers.
  int places() const { return data * seq; }
  // seq is fastest, then data.
  At at(int rank) const;
  int rank(At) const;
  // A rank's place among those of its stage: data index * seq + seq index.
  int place(int rank) const { return rank % places(); }

  bool operator==(const Grid&) const = default;
};

// One rank's arguments to split a communicator off the world: the `size` ranks with the same color
// form one, ordered by key = 0 .. size-1.
struct Group {
  int color, key, size;
  bool operator==(const Group&) const = default;
};

// The ranks that share one copy of a stage's parameters: `shard` consecutive places of a stage.
// `shard` divides places().
Group shard_group(const Grid&, int shard, int rank);
// The ranks that hold the same slice of other copies: places a stride of `shard` apart.
Group replica_group(const Grid&, int shard, int rank);
// The ranks that hold all experts between them, and send each other their tokens; key is the share
// of the experts. Grid::expert divides places().
Group expert_group(const Grid&, int rank);
// Experts [first, end).
struct OwnedExperts {
  std::int64_t first, end;
  std::int64_t count() const { return end - first; }
};
// Of rank `rank` of the `ranks` that hold them all: so many in a row, the first ranks one more
// where they do not divide.
OwnedExperts owned_experts(std::int64_t experts, int rank, int ranks);
// Of the ranks that hold the same experts, those that share one copy of it: the ones in the
// same shard group, or none but this one where that is smaller than an expert group. One of `shard`
// and Grid::expert divides the other.
Group expert_shard_group(const Grid&, int shard, int rank);
// Those that hold the same slice of other copies.
Group expert_replica_group(const Grid&, int shard, int rank);
// The ranks that share each sample's tokens.
Group seq_group(const Grid&, int rank);
// The ranks at the same place of every stage; key is the stage.
Group pipe_group(const Grid&, int rank);

// What a grid must fit. 0: not known or decided yet, no limit.
struct GridLimits {
  std::int64_t layers = 0;      // of the model: a stage needs a block
  std::int64_t tokens = 0;      // of a sample; seq divides them
  std::int64_t batch = 0;       // samples a step; data * microbatch divides them
  std::int64_t microbatch = 0;  // samples of a microbatch on a data rank
  std::int64_t shard = 0;       // zero.shard; divides data * seq
  std::int64_t experts = 0;     // of a mixture: parallel.expert is at most that
};

// `keys`: the deck's keys of the rule, first the one to change.
struct GridProblem {
  std::vector<std::string> keys;
  std::string message;
};

// Why the grid does not fit the limits, each with the legal values. data = 0: not decided yet.
// Empty: it fits.
std::vector<GridProblem> grid_problems(const Grid&, const GridLimits&);

// All grids of that many ranks that fit the limits, by pipe, then seq; with `expert` as it is.
std::vector<Grid> legal_grids(const GridLimits&, std::int64_t ranks, int expert = 1);

// The grid on that many ranks: data = 0 becomes what pipe and seq leave. Throws Error naming the
// nearest legal grids where the grid's product is not the number of ranks; checks nothing else.
Grid fit_grid(const Grid&, const GridLimits&, std::int64_t ranks);

// Sorts by distance from `asked`: the sum of |log2| of the axes' ratios.
void nearest_first(std::vector<Grid>&, const Grid& asked);

// "pipe 2 x data auto x seq 4", and " with experts over 2" where they are
std::string describe(const Grid&);

// Ascending; n >= 1.
std::vector<std::int64_t> divisors(std::int64_t n);
// At most eight of `legal`, those nearest to `asked`, ascending, joined by commas.
std::string legal_text(std::vector<std::int64_t> legal, std::int64_t asked);

}  // namespace trireme
