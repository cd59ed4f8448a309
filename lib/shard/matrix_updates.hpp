#pragma once
// MatrixUpdates: the updates of an optimizer that sees whole matrices (lib/matrix/matrix_rule.hpp).
//
// Each rank applies the rule before(rule) to its shards. In each round (matrix_plan.hpp), the parts
// of a matrix travel to the matrix's owner on Queue::scatter. The owner computes the step of the
// whole matrix, which travels back on Queue::gather. Each rank then applies the rule after(rule) to
// its shards. Directions and steps are sent in the compute type, and square arrays in the master
// type. While a round is computed, the next round's parts and the previous round's steps are in
// transit.
#include <array>
#include <optional>
#include <vector>

#include "lib/shard/matrix_plan.hpp"
#include "lib/shard/optimizer_rules.hpp"
#include "lib/shard/sharded_model.hpp"
#include "lib/shard/trainability.hpp"

namespace trireme {

class MatrixUpdates {
 public:
  // `exact` requests steps whose bits do not depend on the number of threads (SumOrder::by_shape).
  MatrixUpdates(ShardedModel, std::optional<MatrixOptimizer>, bool exact);

  // Performs one update of all matrices in trained segments. The caller has already counted the
  // update (Shards::set_count). `factors` are those of parameters with weight decay and without a
  // factor on the learning rate. Blocks until all messages have arrived.
  void update(const UpdateFactors& factors, const Trainability&);

 private:
  const MatrixPlan& plan(const Trainability&, bool of_experts);
  SumOrder order(bool of_experts) const;

  ShardedModel model_;
  std::optional<MatrixOptimizer> optimizer_;
  bool exact_;
  // The newest plans, without and with experts that are distributed over ranks, and the trained
  // segments that they are for.
  struct Planned {
    std::vector<std::size_t> segments;
    MatrixPlan plan;
  };
  std::array<Planned, 2> planned_;
};

}  // namespace trireme
