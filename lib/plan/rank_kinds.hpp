#pragma once
// Ranks whose steps are alike: of one stage, with one share of the heads and one of the experts.
// They reserve as much as the first of them, or less where replicas leave checkpoints to it.
#include <vector>

#include "lib/plan/plan.hpp"

namespace trireme {

class RankKinds {
 public:
  explicit RankKinds(const PlanInput&);

  // The first rank of each kind, in ascending order: rank 0 is one of them.
  const std::vector<int>& ranks() const { return ranks_; }
  // Index of a rank's kind.
  int of(int rank) const;
  // Of the places of a stage, as indices of the stage's kinds; later places repeat them.
  const std::vector<int>& of_places() const { return of_place_; }

 private:
  Grid grid_;
  std::vector<int> of_place_;
  int of_stage_ = 0;  // kinds
  std::vector<int> ranks_;
};

}  // namespace trireme
