#pragma once
// From an operation to what its time depends on. Pure.
#include "kernels/operations.hpp"
#include "lib/predict/recording.hpp"

namespace trireme {

// Does a product do what follows it (Epilogue) by itself, or are those operations of their own?
enum class EpilogueTime : std::uint8_t { fused, apart };

// One workload, or more where a product's epilogue stands apart. Names of variants: "copy" and
// "add" for copies, "cross_entropy_grad" where logits become their gradient.
std::vector<Workload> workloads_of(const kernel::Operation&, EpilogueTime);
// Has it the rate of a product of its M, N, K? Of experts', those of one of them.
bool is_product(std::string_view name);
// Those that workloads_of may give, but for products and attention, in order.
std::vector<std::string> workload_names();
// Of one copy of `elements`.
Workload copy_workload(double elements, DType from, DType to, Accumulate);

}  // namespace trireme
