#pragma once
// A matrix product in cuBLASLt's column-major form, with the part of its epilogue that cuBLASLt may
// fuse.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <optional>

#include "kernels/cuda/products/blaslt.hpp"
#include "kernels/cuda/products/matmul.hpp"

namespace trireme::cuda {

// Division of the workspace: cuBLASLt's half, results of timed products, the row sums of those
// products, and row sums that are later added to a result.
inline constexpr std::size_t lent_bytes = cuda_workspace_bytes / 2;
inline constexpr std::size_t sums_bytes = std::size_t{1} << 20;
inline constexpr std::size_t trial_bytes = cuda_workspace_bytes - lent_bytes - 2 * sums_bytes;
inline constexpr std::size_t trial_at = lent_bytes, trial_sums_at = trial_at + trial_bytes,
                             sums_at = trial_sums_at + sums_bytes;

// The part of an epilogue that cuBLASLt computes within the product. Separate kernels compute the
// other parts.
enum class Fused : std::uint8_t { nothing, gelu, slope, sums };

// Returns the part of the epilogue that cuBLASLt could fuse.
Fused wanted(const Epilogue&);

// A matrix product to compute. The rows of c are dense. In column-major form the product is c' = b'
// a'.
struct Call : kernel::Matmul {
  View workspace;
  cudaStream_t stream;

  bool adds() const { return how == Accumulate::add; }
};

// Key of a product's plan: everything that decides how the product is computed.
struct Key {
  Stored left, right, out;
  DType in, result;
  bool add, bias;
  Fused fused;
  std::int64_t aux_ld;
  std::uint32_t left_alignment, right_alignment, out_alignment, aux_alignment, vector_alignment;
  // Elements that share a scale, if the operands are in fp8. `in` has no meaning then.
  std::optional<fp8::Scales> left_scales{}, right_scales{};
  bool of_fp8() const { return left_scales.has_value(); }
  auto operator<=>(const Key&) const = default;
};

// Addresses of a product's operands. `aux` is the input of GELU, and `vector` is the bias or the
// row sums. The scales are those of operands in fp8.
struct Pointers {
  const void *left, *right;
  void *out, *aux, *vector;
  const void *left_scale = nullptr, *right_scale = nullptr;
};

Key key_of(const Call&, Fused);
Pointers pointers_of(const Call&, Fused);
cublasLtEpilogue_t epilogue_of(const Key&);
// Returns true if the operands satisfy cuBLASLt's rules for fusing the epilogue. Otherwise the
// epilogue runs after the product.
bool may_fuse(const Call&, Fused);
// Returns where cuBLASLt writes the row sums. If the product is added to c, this is the workspace,
// because cuBLASLt cannot add to existing sums.
std::byte* sums_of(const Call&);
// Returns a copy of the product whose results are in the workspace, because a timing run must not
// change a running sum. Returns a product that overwrites c unchanged. Returns nullopt if the
// results do not fit in the workspace.
std::optional<Call> on_scratch(const Call&);

}  // namespace trireme::cuda
