#pragma once
// All operations of kernels/operations.hpp, put on a stream. The functions declared here use
// NVIDIA's libraries where possible, or throw Error because a GPU does not support the operation.
// All other operations are kernels of this project (kernels.hpp).
#include "kernels/cuda/attention/sdpa.hpp"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/products/matmul.hpp"

namespace trireme::cuda {

// Stream, scratch and libraries that an operation uses.
struct Resources : OnStream {
  Products& products;
  Sdpa& sdpa;
};

void run(const kernel::AddFixed&, const Resources&);
void run(const kernel::ReadFixed&, const Resources&);
void run(const kernel::Matmul&, const Resources&);
void run(const kernel::GroupedMatmul&, const Resources&);
void run(const kernel::GroupedMatmulGrad&, const Resources&);
void run(const kernel::Attention&, const Resources&);
void run(const kernel::AttentionGrad&, const Resources&);
void run(const kernel::CachedAttention&, const Resources&);

}  // namespace trireme::cuda
