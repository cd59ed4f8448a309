#pragma once
// Matrix products with one matrix for each expert, computed one expert after the other. cuBLASLt
// takes the number of rows as a host argument. If only the device knows how many rows each expert
// has, the host waits for the stream and reads the row offsets.
//
// The numbers of rows differ from step to step. To limit the number of shapes, rows are rounded up
// to a power of two when an algorithm is looked up. No algorithm is timed, so all processes use the
// same algorithms.
#include <functional>
#include <map>
#include <vector>

#include "kernels/cuda/products/plan.hpp"

namespace trireme::cuda {

// Matrix products of experts, with a cache of the algorithms that were looked up.
class GroupedProducts {
 public:
  GroupedProducts(Planner& planner, const Products::Synchronize& synchronize)
      : planner_(planner), synchronize_(synchronize) {}

  // Puts the products of all experts on the stream. If the operation has no known_offset, blocks
  // until the stream has computed the row offsets. `workspace` must have cuda_workspace_bytes
  // bytes.
  void run(void* stream, const kernel::GroupedMatmul&, View workspace);
  void run(void* stream, const kernel::GroupedMatmulGrad&, View workspace);

 private:
  // Function that returns one expert's product with its number of rows replaced by `rows`. The
  // addresses do not change.
  using OfRows = std::function<kernel::Matmul(std::int64_t rows)>;
  void multiply(cudaStream_t, View workspace, std::int64_t rows, const OfRows&);

  Planner& planner_;
  const Products::Synchronize& synchronize_;
  std::map<Key, std::vector<cublasLtMatmulAlgo_t>> algorithms_;
};

}  // namespace trireme::cuda
