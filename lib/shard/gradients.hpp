#pragma once
// Gradient sums of a step. For every trained segment, GradientSums adds the gradients of all
// micro-batches, ranks, replicas and uses of a tied table. The result is what the optimizer reads,
// limited to the shard that this rank holds.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/shard/replica_sums.hpp"
#include "lib/shard/sharding.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// The gradient of a whole segment while micro-batches add to it.
struct GradientBuffer {
  Tensor flat;
  std::vector<std::uint8_t> written;  // indexed by slot; 1 if something was added
};

// Gradient statistics of a step, indexed by ParamId. They cover the elements that this rank
// represents (Sharding::reports). Add `squares` and `leaves` over all ranks, and take the maximum
// of `largest`.
struct GradientNorms {
  // Sums of squares, one number per parameter. With run.exactness = "invariant" each sum is a
  // fixed-point number of fixed::limbs values.
  std::vector<double> squares;
  // Only with run.exactness = "invariant": the largest magnitude in any leaf gradient (infinite if
  // one is not finite), and the number of leaf gradients added.
  std::vector<double> largest, leaves;
};

// The gradient sums of one stage of the model on this rank.
class GradientSums {
 public:
  // Keeps references to its arguments, which must outlive it. `master` is the type of the sums. If
  // `exact_chunk` > 0, sums are fixed-point integers of gradients that each cover `exact_chunk`
  // tokens (leaves), so that the result does not depend on the order of additions.
  GradientSums(Backend&, const ModelSpec&, const Layout&, const Sharding&, DType master,
               std::int64_t exact_chunk);
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  // Allocates the sum of a segment that is trained from now on, filled with zeros.
  void hold(std::size_t segment);
  // Frees the sum of a segment.
  void drop(std::size_t segment);

  // Begins a new step: earlier sums are overwritten by the first addition.
  void start();
  // Returns the buffer to which micro-batches add the gradient of a held segment. If this rank
  // holds the whole segment, the buffer is the sum itself. Otherwise the buffer is newly allocated,
  // and the caller passes it to reduce().
  std::shared_ptr<GradientBuffer> buffer(std::size_t segment, Use) const;
  // Starts the reduce-scatter of a buffer from buffer() to the ranks that hold the segment's
  // shards. Takes the memory of `whole`; the returned Pending keeps it until the operation
  // completes.
  Pending reduce(std::size_t segment, Use, GradientBuffer& whole, int microbatch);
  // Starts summing a segment over replicas. Call it when everything that this step adds to the
  // segment has been added and its reduce-scatters have completed. Does nothing for a tied table,
  // which finish() sums.
  void complete(std::size_t segment, ReplicaSums&);
  // Returns an object that sums segments over replicas, with at most zero.scatters sums in flight.
  ReplicaSums replica_sums() const;
  // Completes the sums after the last micro-batch and returns their norms. Fills gradients of
  // parameters that no token reached with zeros, adds the two uses of a tied table in order, sums
  // the remaining segments over replicas, and sends the sum of a tied table to the other stage that
  // uses it.
  GradientNorms finish();
  std::int64_t exact_chunk() const { return exact_chunk_; }
  // Adds `leaves` to the number of leaf gradients counted for a parameter on this rank. Returns a
  // view of the one element that holds the largest magnitude in them.
  View count_leaves(ParamId, std::int64_t leaves);
  const Tensor& sum(std::size_t segment) const { return sums_[segment].of_use[0]->flat; }

 private:
  struct Sum {
    // Indexed by Use; only a tied table has the second.
    std::array<std::shared_ptr<GradientBuffer>, 2> of_use;
    // Indexed by Use; whether a reduce-scatter of this step has added to it.
    std::array<bool, 2> begun{};
    bool complete = false;  // summed over replicas, or that sum is in flight
  };
  GradientBuffer block(std::size_t segment, std::int64_t elements) const;
  void clear_unwritten(const Segment&, const GradientBuffer&) const;
  void complete_own_uses() const;
  void send_tied(const Tensor&, const Segment&) const;
  void receive_tied(const Tensor&, const Segment&) const;
  void add_tied_uses() const;
  void sum_replicas();
  void share_tied_sums() const;
  GradientNorms norms() const;
  DType wire() const { return exact_chunk_ > 0 ? DType::i64 : sharding_.policy.reduce; }

  Backend& backend_;
  const ModelSpec& spec_;
  const Layout& layout_;
  const Sharding& sharding_;
  std::int64_t exact_chunk_;
  DType type_;             // of the sums
  std::vector<Sum> sums_;  // indexed by segment
  Tensor largest_;         // Indexed by ParamId, as is leaves_. Used only if exact_chunk_ > 0.
  std::vector<double> leaves_;
};

}  // namespace trireme
