#pragma once
// Matrix products through cuBLASLt in f32 and bf16, with sums in f32. The method for each shape is
// chosen once: of up to five algorithms that cuBLASLt recommends, with the epilogue fused or
// separate, the fastest on this device is used. If bits must not depend on timing, the first
// algorithm is used with a separate epilogue. A grouped product is one product for each expert that
// has rows (grouped.hpp).
#include <functional>
#include <memory>

#include "kernels/cuda/device.hpp"
#include "kernels/operations.hpp"

namespace trireme::cuda {

enum class Tf32 : std::uint8_t { off, on };  // on: f32 products may round their inputs to 10 bits

// Matrix products on one device. The object caches the method for each shape.
class Products {
 public:
  // Function that blocks until a stream is done.
  using Synchronize = std::function<void(void* stream)>;
  Products(CudaBits, Tf32, Epilogues, Synchronize);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Returns how many products ran with a fused epilogue. A bias does not count as an epilogue.
  std::int64_t fused() const;

  // Function that puts a product's epilogue, except the bias, on the stream.
  using Separate = std::function<void(const kernel::Matmul&)>;

  // Returns true if the product should run with its whole epilogue fused, and false if only with
  // its bias. May time both methods on `stream` (a cudaStream_t), with results in `workspace`. For
  // the comparison the function calls `separate`.
  bool fuses(void* stream, const kernel::Matmul&, View workspace, const Separate&);
  // Puts a product on the stream. `workspace` must have cuda_workspace_bytes bytes.
  void run(void* stream, const kernel::Matmul&, View workspace);
  // Puts the products of all experts on the stream. If the operation has no known_offset, blocks
  // until the stream has computed the row offsets.
  void run(void* stream, const kernel::GroupedMatmul&, View workspace);
  void run(void* stream, const kernel::GroupedMatmulGrad&, View workspace);
  // Puts a product in fp8 on the stream. Throws Error unless the GPU is a Hopper GPU.
  void run(void* stream, const kernel::Fp8Matmul&, View workspace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::cuda
