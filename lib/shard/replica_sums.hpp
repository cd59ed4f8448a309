#pragma once
// Gradient sums over replicas, which are ranks that hold equal shards. Each sum is a reduce-scatter
// followed by an all-gather. Sums advance only at fixed points of the program, so all replicas
// issue the same operations in the same order. Computation between these points overlaps with the
// sums.
#include <deque>
#include <string_view>

#include "lib/comm/communicator.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// The sums over replicas that are in flight, oldest first.
class ReplicaSums {
 public:
  // Keeps a reference to the backend, which must outlive this object. `most` is the maximum number
  // of sums in flight. If messages are staged through the host, it is also the maximum number of
  // all-gathers in flight. `wire` is the type in which gradients are sent.
  ReplicaSums(Backend&, DType wire, int most);

  // Starts an in-place sum over replicas of `flat`, this rank's shard of a segment. All additions
  // to `flat` must have been queued. The sum starts after the operations queued so far on
  // `written`. Does nothing if there is only one replica. `replicas` and the string `segment` must
  // outlive the sum.
  void begin(const Communicator& replicas, const Tensor& flat, std::string_view segment,
             Queue written);
  // Makes the compute queue wait until all sums are complete.
  void finish();

 private:
  struct Sum {
    const Communicator* replicas;
    Tensor flat;
    std::string_view segment;
    Pending pending;  // keeps its tensor alive, even if the program is aborted
  };
  void gather_oldest();
  void finish_oldest();

  Backend& backend_;
  DType wire_;
  std::size_t most_;
  std::deque<Sum> summing_, gathering_;
};

}  // namespace trireme
