#pragma once
// Products with one matrix for each expert, computed one after the other. cuBLASLt takes the number
// of rows as a host argument, but only the device knows how many rows each expert has. The host
// therefore waits for the stream and reads the offsets.
//
// The numbers of rows differ from step to step. Algorithms are looked up by shapes whose rows are
// rounded up to a power of two, so there are few. Nothing is measured, so the algorithms are the
// same in every process.
#include <functional>
#include <map>
#include <vector>

#include "kernels/cuda/products/plan.hpp"

namespace trireme::cuda {

// Products of experts, with the algorithms found so far.
class GroupedProducts {
 public:
  explicit GroupedProducts(Planner& planner) : planner_(planner) {}

  // Puts the products of all experts on the stream. First blocks until the stream has computed the
  // offsets. `workspace` must have cuda_workspace_bytes.
  void run(void* stream, const kernel::GroupedMatmul&, View workspace);
  void run(void* stream, const kernel::GroupedMatmulGrad&, View workspace);

 private:
  // Function that returns one expert's product as if it had `rows` rows. The addresses do not
  // change.
  using OfRows = std::function<kernel::Matmul(std::int64_t rows)>;
  void multiply(cudaStream_t, View workspace, std::int64_t rows, const OfRows&);

  Planner& planner_;
  std::map<Key, std::vector<cublasLtMatmulAlgo_t>> algorithms_;
};

}  // namespace trireme::cuda
