#pragma once
// Products through cuBLASLt, f32 and bf16, summed in f32. How each shape is computed is decided
// once: of the five that cuBLASLt recommends the one that was fastest here, or the first where bits
// must not depend on a measurement.
#include <cstddef>
#include <memory>

#include "kernels/backend.hpp"

namespace trireme::cuda {

enum class Choice : std::uint8_t { measured, first };
enum class Tf32 : std::uint8_t { off, on };  // may f32 products round their inputs to 10 bits?

class Products {
 public:
  // Half of the workspace is cuBLASLt's; a measurement writes to the other half.
  static constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

  Products(Choice, Tf32);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // As Backend::matmul; stream is a cudaStream_t. Does bias, not GELU.
  void matmul(void* stream, View c_MN, ConstView a_MK, ConstView b_KN, Accumulate, ConstView bias_N,
              View workspace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::cuda
