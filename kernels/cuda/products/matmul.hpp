#pragma once
// Products through cuBLASLt, f32 and bf16, summed in f32. How each shape is computed is decided
// once: of the five algorithms that cuBLASLt recommends the one that was fastest here, with the
// epilogue in the product or behind it; or the first without, where bits must not depend on a
// measurement. Of a grouped product each expert with rows is a product by itself (grouped.hpp).
#include <functional>
#include <memory>

#include "kernels/cuda/device.hpp"
#include "kernels/operations.hpp"

namespace trireme::cuda {

enum class Tf32 : std::uint8_t { off, on };  // may f32 products round their inputs to 10 bits?

class Products {
 public:
  Products(CudaBits, Tf32, Epilogues);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  std::int64_t fused() const;  // products with an epilogue, bias aside, as part of them

  // Puts all of a product's epilogue but the bias on the stream.
  using Separate = std::function<void(const kernel::Matmul&)>;

  // Is this product to be run with all of its epilogue, or with the bias alone? `separate` is for
  // comparison, on scratch; stream is a cudaStream_t.
  bool fuses(void* stream, const kernel::Matmul&, View workspace, const Separate&);
  // `workspace` has cuda_workspace_bytes.
  void run(void* stream, const kernel::Matmul&, View workspace);
  // Waits for the stream.
  void run(void* stream, const kernel::GroupedMatmul&, View workspace);
  void run(void* stream, const kernel::GroupedMatmulGrad&, View workspace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::cuda
