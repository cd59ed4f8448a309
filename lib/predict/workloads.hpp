#pragma once
// Maps operations to workloads, which contain everything that their time depends on. All functions
// are pure.
#include "kernels/operations.hpp"
#include "lib/predict/recording.hpp"

namespace trireme {

// Whether a matrix product includes the time of its epilogue, or the epilogue counts as separate
// operations.
enum class EpilogueTime : std::uint8_t { fused, apart };

// Returns the workload of an operation, and those of a product's epilogue if they are separate.
// Variants have names of their own: "copy" and "add" for copies, "cross_entropy_grad" if logits are
// replaced by their gradient.
std::vector<Workload> workloads_of(const kernel::Operation&, EpilogueTime);
// Returns true if the workload is timed by the rate of a matrix product with its M, N and K. For
// products of experts these are the sizes of one expert.
bool is_product(std::string_view name);
// Returns the sorted names of all workloads except matrix products and attention.
std::vector<std::string> workload_names();
// Returns the workload of copying `elements` elements.
Workload copy_workload(double elements, DType from, DType to, Accumulate);

}  // namespace trireme
