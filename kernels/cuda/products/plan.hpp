#pragma once
// Descriptions of matrix products for cuBLASLt, and the algorithms that cuBLASLt offers for them.
#include <vector>

#include "kernels/cuda/products/product.hpp"

namespace trireme::cuda {

// Description of a product in cuBLASLt's terms, with the algorithm to use.
struct Plan {
  Descriptor product;
  Layout left, right, out;
  cublasLtMatmulAlgo_t algorithm{};
};

// Owner of a cuBLASLt handle.
class Planner {
 public:
  explicit Planner(Tf32 tf32) : tf32_(tf32) {}
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // Returns the description of a product. The algorithm is not set.
  Plan describe(const Key&, const Pointers&);
  // Returns at most five algorithms, in the order of cuBLASLt's recommendation. Returns an empty
  // vector if cuBLASLt does not support the epilogue. Throws Error if cuBLASLt has no algorithm
  // even without a fused epilogue.
  std::vector<cublasLtMatmulAlgo_t> algorithms(const Key&, const Plan&) const;
  // Returns true if the algorithm can compute the product with the available workspace.
  bool works(const cublasLtMatmulAlgo_t&, const Plan&) const;
  // Puts a product on the stream. `workspace` must have lent_bytes bytes.
  void run(const Plan&, const cublasLtMatmulAlgo_t&, const Pointers&, Accumulate, View workspace,
           cudaStream_t) const;

 private:
  Tf32 tf32_;
  cublasLtHandle_t handle_ = nullptr;  // created for the first product
};

// Sets the addresses of the epilogue's operands in a plan.
void point(const Key&, const Plan&, const Pointers&);

}  // namespace trireme::cuda
