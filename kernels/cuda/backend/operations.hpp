#pragma once
// Every operation of the contract, put on a stream: here what NVIDIA's libraries do where they can,
// and what a GPU refuses; all else goes to kernels of our own (kernels.hpp).
#include "kernels/cuda/attention/sdpa.hpp"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/products/matmul.hpp"

namespace trireme::cuda {

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
