#pragma once
// Maps operations to workloads, which contain everything that the operations' time depends on. All
// functions are pure.
#include "kernels/operations.hpp"
#include "lib/plan/document_lengths.hpp"
#include "lib/predict/recording.hpp"

namespace trireme {

// Whether the time of a matrix product includes its epilogue (`fused`), or the epilogue counts as
// separate operations (`apart`).
enum class EpilogueTime : std::uint8_t { fused, apart };

// Returns the workload of an operation and, if a product's epilogue is separate, the workloads of
// the epilogue. `documents` are those of the samples, for attention within documents. Variants of
// an operation have different names: "copy" and "add" for copies, "cross_entropy_grad" if logits
// are replaced by their gradient.
std::vector<Workload> workloads_of(const kernel::Operation&, EpilogueTime,
                                   const DocumentLengths& documents = {});
// Returns true if the workload's time is computed from the rate of a matrix product with the same
// M, N and K. For products of experts, these are the sizes of one expert.
bool is_product(std::string_view name);
// Returns the sorted names of all workloads except matrix products and attention.
std::vector<std::string> workload_names();
// Returns the workload of copying `elements` elements.
Workload copy_workload(double elements, DType from, DType to, Accumulate);

}  // namespace trireme
