#pragma once
// Every operation of the contract, put on a stream: products and attention through NVIDIA's
// libraries where these can, all else by kernels of our own (kernels.hpp).
#include "kernels/cuda/attention/sdpa.hpp"
#include "kernels/cuda/products/matmul.hpp"

namespace trireme::cuda {

struct Resources {
  void* stream;  // a cudaStream_t
  View scratch;  // the lent workspace
  Products& products;
  Sdpa& sdpa;
};

void run(const kernel::Copy&, const Resources&);
void run(const kernel::Fill&, const Resources&);
void run(const kernel::AddFixed&, const Resources&);
void run(const kernel::Matmul&, const Resources&);
void run(const kernel::Attention&, const Resources&);
void run(const kernel::AttentionGrad&, const Resources&);
void run(const kernel::CachedAttention&, const Resources&);
void run(const kernel::Norm&, const Resources&);
void run(const kernel::NormGrad&, const Resources&);
void run(const kernel::Dropout&, const Resources&);
void run(const kernel::ResidualNorm&, const Resources&);
void run(const kernel::Rotary&, const Resources&);
void run(const kernel::Activate&, const Resources&);
void run(const kernel::ActivateGrad&, const Resources&);
void run(const kernel::Swiglu&, const Resources&);
void run(const kernel::SwigluGrad&, const Resources&);
void run(const kernel::Embedding&, const Resources&);
void run(const kernel::EmbeddingGrad&, const Resources&);
void run(const kernel::CrossEntropy&, const Resources&);
void run(const kernel::ColumnSum&, const Resources&);
void run(const kernel::Update&, const Resources&);
void run(const kernel::SumSquares&, const Resources&);
void run(const kernel::Digest&, const Resources&);

}  // namespace trireme::cuda
