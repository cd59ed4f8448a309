#pragma once
// Gradient sums of a step. For every trained segment, GradientSums adds the gradients of all
// micro-batches, ranks and replicas, and of both uses of a tied embedding table. The result is the
// gradient that the optimizer reads, limited to this rank's shard.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/shard/replica_sums.hpp"
#include "lib/shard/sharding.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Gradient of a whole segment (the parameters of a unit that freeze together). The micro-batches of
// a step add to it.
struct GradientBuffer {
  Tensor flat;
  std::vector<std::uint8_t> written;  // indexed by slot; 1 if something was added
};

// Gradient statistics of a step, indexed by ParamId. They cover the elements that this rank reports
// (Sharding::reports). To combine ranks, add `squares` and `leaves`, and take the maximum of
// `largest`.
struct GradientNorms {
  // Sums of squares, one number per parameter. With run.exactness = "invariant" each sum is a
  // fixed-point number of fixed::limbs values.
  std::vector<double> squares;
  // Used only with run.exactness = "invariant". `largest` is the largest magnitude in any leaf
  // gradient (infinite if one is not finite). `leaves` is the number of leaf gradients added. A
  // leaf gradient is the gradient of one chunk of tokens.
  std::vector<double> largest, leaves;
};

// The gradient sums of one stage of the model on this rank.
class GradientSums {
 public:
  // Keeps references to its arguments, which must outlive it. `master` is the type of the sums. If
  // `exact_chunk` > 0, sums are fixed-point integers, so that they do not depend on the order of
  // additions. Each term is then a leaf: the gradient of `exact_chunk` tokens.
  GradientSums(Backend&, const ModelSpec&, const Layout&, const Sharding&, DType master,
               std::int64_t exact_chunk);
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  // Allocates the sum of a segment that starts being trained, and fills it with zeros.
  void hold(std::size_t segment);
  // Frees the sum of a segment.
  void drop(std::size_t segment);

  // Begins a new step. The first addition to each sum overwrites the sum of the previous step.
  void start();
  // Returns the buffer to which micro-batches add the gradient of a held segment. If this rank
  // holds the whole segment, the buffer is the sum itself. Otherwise the buffer is newly allocated,
  // and the caller must pass it to reduce().
  std::shared_ptr<GradientBuffer> buffer(std::size_t segment, Use) const;
  // Starts the reduce-scatter of a buffer from buffer() to the ranks that hold the segment's
  // shards. Moves the memory out of `whole`. The returned Pending keeps the memory alive until the
  // operation completes.
  Pending reduce(std::size_t segment, Use, GradientBuffer& whole, int microbatch);
  // Starts summing a segment over replicas. Call it when this step's gradients have all been added
  // to the segment and its reduce-scatters have completed. Does nothing for a tied embedding table,
  // which finish() sums.
  void complete(std::size_t segment, ReplicaSums&);
  // Returns an object that sums segments over replicas, with at most zero.scatters sums in flight.
  ReplicaSums replica_sums() const;
  // Completes the sums after the last micro-batch and returns their norms. finish() fills gradients
  // of parameters that no token reached with zeros, adds the two uses of a tied embedding table in
  // a fixed order, and sums the remaining segments over replicas. It also sends the sum of a tied
  // table to the other stage that uses the table.
  GradientNorms finish();
  std::int64_t exact_chunk() const { return exact_chunk_; }
  // Adds `leaves` to the number of leaf gradients counted for a parameter on this rank. Returns a
  // view of one element, which holds the largest magnitude in these leaf gradients.
  View count_leaves(ParamId, std::int64_t leaves);
  const Tensor& sum(std::size_t segment) const { return sums_[segment].of_use[0]->flat; }

 private:
  struct Sum {
    // Buffers indexed by Use. Only a tied embedding table has the second buffer.
    std::array<std::shared_ptr<GradientBuffer>, 2> of_use;
    // Flags indexed by Use: whether a reduce-scatter of this step has added to the sum.
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
