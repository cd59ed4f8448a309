#pragma once
// From the gradients of a step's microbatches to what the optimizer reads: of every trained segment
// the sum over microbatches, ranks, uses and replicas, as far as this rank holds it.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/shard/replica_sums.hpp"
#include "lib/shard/sharding.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// A gradient while it is made: of a whole segment.
struct GradientBuffer {
  Tensor flat;
  std::vector<std::uint8_t> written;  // by slot
};

// What a step's gradients come to, by ParamId, of the elements that this rank reports. To be
// added over all ranks, but the largest, to be compared.
struct GradientNorms {
  std::vector<double> squares;  // a sum of squares each; as counts of quanta fixed::limbs each
  // As counts of quanta alone: the largest leaf, infinite where one is not finite, and how many
  // leaves there were.
  std::vector<double> largest, leaves;
};

class GradientSums {
 public:
  // All that is referred to outlives it. exact_chunk > 0: sums are counts of quanta, of leaves of
  // that many tokens.
  GradientSums(Backend&, const ModelSpec&, const Layout&, const Sharding&, DType master,
               std::int64_t exact_chunk);
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  // Takes the sums of a segment that is trained from now on, and gives them back.
  void hold(std::size_t segment);
  void drop(std::size_t segment);

  // A step's gradients begin.
  void start();
  // Where microbatches add to a held segment's gradient: what stays, where shards are whole, else a
  // block of its own, to be handed to reduce().
  std::shared_ptr<GradientBuffer> buffer(std::size_t segment, Use) const;
  // Sends such a block to the ranks that sum its shards; `whole` is kept until it has left.
  Pending reduce(std::size_t segment, Use, GradientBuffer& whole, int microbatch);
  // A segment that is trained has got all that this step adds to it, and where it is sharded that
  // has landed: begins to sum it over replicas, unless it is a tied table's.
  void complete(std::size_t segment, ReplicaSums&);
  // As many segments at once as zero.scatters says.
  ReplicaSums replica_sums() const;
  // After the last: parameters that no token reached get zeros, uses of a tied table are added in
  // order, replicas that are not are summed, and a table's other stage gets that sum.
  GradientNorms finish();
  std::int64_t exact_chunk() const { return exact_chunk_; }
  // Leaves that are added to a parameter's counts on this rank; where their largest is kept.
  View count_leaves(ParamId, std::int64_t leaves);
  const Tensor& sum(std::size_t segment) const { return sums_[segment].of_use[0]->flat; }

 private:
  struct Sum {
    std::array<std::shared_ptr<GradientBuffer>, 2> of_use;  // by Use; the second: of a tied table
    std::array<bool, 2> begun{};  // a reduce of this step has gone into it
    bool complete = false;        // it is summed over replicas, or that is in flight
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
  DType type_;             // of sums
  std::vector<Sum> sums_;  // by segment
  Tensor largest_;         // by ParamId; of counts of quanta, as what follows
  std::vector<double> leaves_;
};

}  // namespace trireme
