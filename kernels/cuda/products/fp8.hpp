#pragma once
// Matrix products in fp8 through cuBLASLt, which supports scales of 128 elements on Hopper GPUs
// (compute capability 9.0).
#include <map>

#include "kernels/cuda/products/plan.hpp"

namespace trireme::cuda {

// Products in fp8 on one device, with a cache of their plans. The first algorithm that cuBLASLt
// recommends for a shape is used.
class Fp8Products {
 public:
  explicit Fp8Products(Planner& planner) : planner_(planner) {}

  // Puts a product on the stream. `workspace` must have cuda_workspace_bytes bytes. Throws Error if
  // cuBLASLt does not support the product on this device.
  void run(void* stream, const kernel::Fp8Matmul&, View workspace);

 private:
  Planner& planner_;
  std::map<Key, Plan> plans_;
};

}  // namespace trireme::cuda
