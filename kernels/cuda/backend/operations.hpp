#pragma once
// All operations of kernels/operations.hpp for one CUDA stream. The functions declared here either
// call NVIDIA's libraries or throw Error because a GPU does not support the operation. Kernels of
// this project compute all other operations (kernels.hpp).
#include "kernels/cuda/attention/sdpa.hpp"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/products/matmul.hpp"

namespace trireme::cuda {

// The stream, the scratch memory and the library handles that an operation uses.
struct Resources : OnStream {
  Products& products;
  Sdpa& sdpa;
};

void run(const kernel::AddFixed&, const Resources&);
void run(const kernel::ReadFixed&, const Resources&);
void run(const kernel::Matmul&, const Resources&);
void run(const kernel::GroupedMatmul&, const Resources&);
void run(const kernel::GroupedMatmulGrad&, const Resources&);
void run(const kernel::Fp8Matmul&, const Resources&);
void run(const kernel::Attention&, const Resources&);
void run(const kernel::AttentionGrad&, const Resources&);

}  // namespace trireme::cuda
