#pragma once
// Offloading of block inputs (model.offload = "inputs"). The input of a block is kept in pinned
// host memory between its forward and backward pass. Both transfers run on Queue::host,
// concurrently with compute.
#include "lib/tensor/tensor.hpp"

namespace trireme {

// A tensor that is kept in host memory until it is needed again.
class OffloadedTensor {
 public:
  OffloadedTensor() = default;  // an absent tensor
  // Starts copying x to the host. The caller must not overwrite x until the operations queued so
  // far are complete.
  OffloadedTensor(Backend&, const Tensor& x);

  explicit operator bool() const { return pinned_ || arriving_; }
  // Starts copying the tensor back to the device, unless the copy was started before.
  void bring_up(Backend&);
  // Returns the tensor for use on the compute queue. Starts the copy back if bring_up() did not.
  Tensor take(Backend&);

 private:
  Tensor pinned_, arriving_;
  Event arrived_{};
};

}  // namespace trireme
