#pragma once
// Divides the ranks into kinds. Ranks of one kind execute equal steps: they are in the same stage
// and have the same share of attention heads and experts. The exception are steps of whole
// matrices, whose owners differ (lib/shard/matrix_plan.hpp). No rank reserves more memory than the
// first rank of its kind, because only the first replica writes checkpoints.
#include <vector>

#include "lib/plan/plan.hpp"

namespace trireme {

// The division of the ranks of a grid into kinds. A plan examines one rank of each kind.
class RankKinds {
 public:
  explicit RankKinds(const PlanInput&);

  // Returns the first rank of each kind, in ascending order. Rank 0 is always among them.
  const std::vector<int>& ranks() const { return ranks_; }
  // Returns the index of a rank's kind.
  int of(int rank) const;
  // Returns the kind of each place (rank within a stage), as an index among the stage's kinds. If a
  // stage has more ranks than the list has entries, the list repeats.
  const std::vector<int>& of_places() const { return of_place_; }

 private:
  Grid grid_;
  std::vector<int> of_place_;
  // Number of kinds of ranks per stage.
  int of_stage_ = 0;
  std::vector<int> ranks_;
};

}  // namespace trireme
