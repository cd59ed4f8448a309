#pragma once
// The CPU backend: oneDNN products, vectorised kernels over all threads of the rank. f32 and bf16.
#include "kernels/immediate.hpp"

namespace trireme {

class Host final : public Immediate {
 public:
  // Sets the number of threads of this process' parallel loops and products.
  explicit Host(int threads, Poison = Poison::off, Guards = Guards::off);

  void put(Queue, const kernel::Operation&) override;
  AttentionBytes attention_bytes(const AttentionShape&, DType, Direction) const override;
};

}  // namespace trireme
