#pragma once
// From an operation to what its time depends on. Pure.
#include "kernels/operations.hpp"
#include "lib/predict/recording.hpp"

namespace trireme {

// Does a product do what follows it (Epilogue) by itself, or are those operations of their own?
enum class EpilogueTime : std::uint8_t { fused, apart };

// One asking, or more where a product's epilogue stands apart. Names of variants: "copy" and "add"
// for copies, "cross_entropy_grad" where logits become their gradient.
std::vector<Asking> askings_of(const kernel::Operation&, EpilogueTime);
// Those that askings_of may give, but for products and attention, in order.
std::vector<std::string> asking_names();
// Of one copy of `elements`.
Asking copy_asking(double elements, DType from, DType to, Accumulate);

}  // namespace trireme
