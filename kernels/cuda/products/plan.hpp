#pragma once
// What cuBLASLt is told of a product, and the algorithms that it has for it.
#include <vector>

#include "kernels/cuda/products/product.hpp"

namespace trireme::cuda {

// How a product is computed.
struct Plan {
  Descriptor product;
  Layout left, right, out;
  cublasLtMatmulAlgo_t algorithm{};
};

class Planner {
 public:
  explicit Planner(Tf32 tf32) : tf32_(tf32) {}
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // All but the algorithm.
  Plan describe(const Key&, const Pointers&);
  // At most five, what cuBLASLt recommends most first. None: it does not do this epilogue; Error
  // where it is not the epilogue that it does not do.
  std::vector<cublasLtMatmulAlgo_t> algorithms(const Key&, const Plan&) const;
  bool works(const cublasLtMatmulAlgo_t&, const Plan&) const;
  void run(const Plan&, const cublasLtMatmulAlgo_t&, const Pointers&, const Call&) const;

 private:
  Tf32 tf32_;
  cublasLtHandle_t handle_ = nullptr;  // made for the first product
};

// Tells a plan's product where its epilogue's operands are.
void point(const Key&, const Plan&, const Pointers&);

}  // namespace trireme::cuda
