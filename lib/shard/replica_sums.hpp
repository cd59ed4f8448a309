#pragma once
// Sums over the ranks that hold equal shards: each replica sums one slice of a segment and the
// slices are gathered again. A sum goes on at fixed points of the program, so that all replicas ask
// for the same operations in the same order, and overlaps with what is computed between them.
#include <deque>
#include <string_view>

#include "lib/comm/communicator.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

class ReplicaSums {
 public:
  // `most`: sums in flight at once, and gathers where messages are staged. All outlive it.
  ReplicaSums(Backend&, DType wire, int most);

  // Begins with this rank's part of a segment, to which nothing is added any more: after what
  // `written` was asked for. Does nothing where there is one replica. The name outlives the sum.
  void begin(const Communicator& replicas, const Tensor& flat, std::string_view segment,
             Queue written);
  // Computing goes on when all are summed.
  void finish();

 private:
  struct Sum {
    const Communicator* replicas;
    Tensor flat;
    std::string_view segment;
    Pending pending;  // keeps its tensor, also when a program is broken off
  };
  void gather_oldest();
  void finish_oldest();

  Backend& backend_;
  DType wire_;
  std::size_t most_;
  std::deque<Sum> summing_, gathering_;
};

}  // namespace trireme
