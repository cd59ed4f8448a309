#pragma once
// Matrix products through cuBLASLt in f32 and bf16, summed in f32. The method for each shape is
// decided once. cuBLASLt recommends up to five algorithms; the fastest on this device is used, with
// the epilogue fused or separate, whichever is faster. If bits must not depend on a measurement,
// the first algorithm is used and the epilogue is separate. A grouped product is one product for
// each expert that has rows (grouped.hpp).
#include <functional>
#include <memory>

#include "kernels/cuda/device.hpp"
#include "kernels/operations.hpp"

namespace trireme::cuda {

enum class Tf32 : std::uint8_t { off, on };  // on: f32 products may round their inputs to 10 bits

// Matrix products on one device, with the decisions made so far.
class Products {
 public:
  Products(CudaBits, Tf32, Epilogues);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Returns how many products were run with a fused epilogue. A bias does not count.
  std::int64_t fused() const;

  // Function that puts all of a product's epilogue except the bias on the stream.
  using Separate = std::function<void(const kernel::Matmul&)>;

  // Returns true if the product should be run with its whole epilogue, false if with the bias only.
  // May measure the choice on `stream` (a cudaStream_t), with results in `workspace`; it calls
  // `separate` for the comparison.
  bool fuses(void* stream, const kernel::Matmul&, View workspace, const Separate&);
  // Puts a product on the stream. `workspace` must have cuda_workspace_bytes.
  void run(void* stream, const kernel::Matmul&, View workspace);
  // Puts the products of all experts on the stream. First blocks until the stream has computed the
  // offsets.
  void run(void* stream, const kernel::GroupedMatmul&, View workspace);
  void run(void* stream, const kernel::GroupedMatmulGrad&, View workspace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::cuda
