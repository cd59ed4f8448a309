#pragma once
// A product as cuBLASLt is asked for it: by columns, with what follows it where that may be part of
// the product.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <optional>

#include "kernels/cuda/products/blaslt.hpp"
#include "kernels/cuda/products/matmul.hpp"

namespace trireme::cuda {

// The workspace: cuBLASLt's half; what measurements write, sums last; sums before they are added.
inline constexpr std::size_t lent_bytes = cuda_workspace_bytes / 2;
inline constexpr std::size_t sums_bytes = std::size_t{1} << 20;
inline constexpr std::size_t trial_bytes = cuda_workspace_bytes - lent_bytes - 2 * sums_bytes;
inline constexpr std::size_t trial_at = lent_bytes, trial_sums_at = trial_at + trial_bytes,
                             sums_at = trial_sums_at + sums_bytes;

// What of an epilogue cuBLASLt does in the product; otherwise it has a kernel of its own.
enum class Fused : std::uint8_t { nothing, gelu, slope, sums };

Fused wanted(const Epilogue&);

// A product to be done, c's rows dense. By columns it is c' = b' a'.
struct Call : kernel::Matmul {
  View workspace;
  cudaStream_t stream;

  bool adds() const { return how == Accumulate::add; }
};

// What decides how a product is computed.
struct Key {
  Stored left, right, out;
  DType in, result;
  bool add, bias;
  Fused fused;
  std::int64_t aux_ld;
  std::uint32_t left_alignment, right_alignment, out_alignment, aux_alignment, vector_alignment;
  auto operator<=>(const Key&) const = default;
};

// What a product reads and writes; `aux` is the input of GELU, `vector` the bias or the sums.
struct Pointers {
  const void *left, *right;
  void *out, *aux, *vector;
};

Key key_of(const Call&, Fused);
Pointers pointers_of(const Call&, Fused);
cublasLtEpilogue_t epilogue_of(const Key&);
// Do cuBLASLt's rules for an epilogue's operands allow it? Otherwise it follows the product.
bool may_fuse(const Call&, Fused);
// Where cuBLASLt puts the sums of an epilogue: it cannot add to what is there.
std::byte* sums_of(const Call&);
// The same product with its results in scratch: a measurement must not change a running sum. None
// where they do not fit.
std::optional<Call> on_scratch(const Call&);

}  // namespace trireme::cuda
