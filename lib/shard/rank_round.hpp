#pragma once
// RankRound: one rank's part in a round of matrices (matrix_plan.hpp), with the memory and the
// messages of the round. The caller calls depart(), compute() and apply() in this order. Between
// these calls, messages of the round are in transit, so that the caller can work on other rounds.
#include <cstdint>
#include <vector>

#include "lib/matrix/matrix_rule.hpp"
#include "lib/shard/matrix_plan.hpp"
#include "lib/shard/optimizer_rules.hpp"
#include "lib/shard/sharded_model.hpp"

namespace trireme {

// One update of the matrices that a shard group shares: what all of its rounds use.
struct GroupUpdate {
  ShardedModel model;
  const MatrixOptimizer& optimizer;
  SumOrder order;
  const Sharers& sharers;  // the shard group
  const MatrixPlan& plan;
  UpdateFactors factors;  // of parameters with weight decay and without a factor on lr

  int ranks() const { return sharers.gather.size(); }
  int me() const { return sharers.gather.rank(); }
  DType compute() const { return model.shards.compute(); }
  DType master() const { return model.shards.master(); }
  const Segment& segment(const OwnedMatrix& m) const { return model.layout.segments[m.segment]; }
  // Returns the elements of a matrix that a rank holds, as elements of the segment.
  Range held(const OwnedMatrix&, int rank) const;
  // Returns the factors of the matrix's parameter.
  UpdateFactors factors_of(const OwnedMatrix&) const;
};

class RankRound {
 public:
  // Allocates memory for any round of the plan. Keeps a reference to the update, which must outlive
  // the object.
  explicit RankRound(const GroupUpdate&);

  // Begins a round: computes the directions of this rank's parts, and starts to send them to their
  // owners. The round must outlive apply().
  void depart(const MatrixRound&);
  // Waits for the parts of the matrix that this rank owns, computes its step, and starts to send it
  // back. `compute` and `wide` are memory as for matrix_step().
  void compute(View compute, View wide);
  // Waits for the steps of this rank's parts, and updates the weights. The object can then begin
  // another round.
  void apply();

 private:
  enum class Way : std::uint8_t { to_owner, back };

  // Calls f(matrix, elements of the segment, place in this rank's buffers) for each part that this
  // rank holds.
  template <class F>
  void for_each_part(const F& f) const;
  View copy_of_part(std::int64_t at, Range) const;
  View gradient(const OwnedMatrix&, Range) const;
  // Returns views of the rule's arrays, which begin at index `first` of the segment's arrays.
  std::vector<View> state(const OwnedMatrix&, Range, std::size_t first, const UpdateRule&) const;

  // Starts the exchange of directions (or steps) and square arrays between the ranks that hold
  // their parts and the owners.
  void exchange_parts(Way);
  void exchange_square(Way, std::size_t k);
  // Starts one exchange. `mine[r]` is this rank's part of the matrix that rank r owns. `owned[r]`
  // is the part that rank r holds of the matrix that this rank owns.
  void exchange(Way, const std::vector<View>& mine, const std::vector<View>& owned, ExchangeLimit);
  // Waits for all messages.
  void arrive();

  std::size_t ranks() const { return static_cast<std::size_t>(update_.ranks()); }

  const GroupUpdate& update_;
  const MatrixRound* round_ = nullptr;
  // This rank's parts, in the master type and as they are sent (possibly the same memory), and the
  // matrix that this rank owns, with its square arrays.
  Tensor wide_, sent_, whole_;
  std::vector<Tensor> squares_;
  std::vector<Pending> pending_;
};

}  // namespace trireme
