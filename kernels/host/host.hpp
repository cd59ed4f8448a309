#pragma once
// The CPU backend: matrix products by oneDNN, and vectorised kernels that use all threads of the
// rank. The types are f32 and bf16.
#include "kernels/immediate.hpp"

namespace trireme {

// The CPU backend, which runs the host kernels.
class Host final : public Immediate {
 public:
  // Sets the number of threads for the parallel loops and products of the whole process.
  explicit Host(int threads, Poison = Poison::off, Guards = Guards::off);

  void put(Queue, const kernel::Operation&) override;
  AttentionBytes attention_bytes(const AttentionShape&, DType, Direction) const override;
};

}  // namespace trireme
