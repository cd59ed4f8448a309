#pragma once
// Products with a matrix an expert, one after the other. cuBLASLt is told on the host how many rows
// a product has, and the device alone knows how many an expert has: so the host reads the offsets,
// and waits until the stream has come to them.
//
// Rows differ from step to step. Algorithms are looked up by shapes whose rows are rounded up to a
// power of two, so there are few; nothing is measured, so they are the same in every process.
#include <functional>
#include <map>
#include <vector>

#include "kernels/cuda/products/plan.hpp"

namespace trireme::cuda {

class GroupedProducts {
 public:
  explicit GroupedProducts(Planner& planner) : planner_(planner) {}

  // `workspace` has cuda_workspace_bytes.
  void run(void* stream, const kernel::GroupedMatmul&, View workspace);
  void run(void* stream, const kernel::GroupedMatmulGrad&, View workspace);

 private:
  // The product of one expert as if it had so many rows; where they are stays as it is.
  using OfRows = std::function<kernel::Matmul(std::int64_t rows)>;
  void multiply(cudaStream_t, View workspace, std::int64_t rows, const OfRows&);

  Planner& planner_;
  std::map<Key, std::vector<cublasLtMatmulAlgo_t>> algorithms_;
};

}  // namespace trireme::cuda
