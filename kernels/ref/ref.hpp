#pragma once
// The reference backend: plain loops that add in double, for f32, bf16 and f64. It shares no
// arithmetic with other backends. Agreement with the reference is therefore evidence that another
// backend is correct.
#include "kernels/immediate.hpp"

namespace trireme {

// The reference backend, which runs the reference kernels.
class Ref final : public Immediate {
 public:
  explicit Ref(Poison poison = Poison::off, Guards guards = Guards::off)
      : Immediate({.name = "ref", .key_tile = 1}, poison, guards) {}

  void put(Queue, const kernel::Operation&) override;
  AttentionBytes attention_bytes(const AttentionShape&, DType, Direction) const override;
};

}  // namespace trireme
