#pragma once
// Offloading of block inputs (model.offload = "inputs"). A block's input is stored in pinned host
// memory between its forward and backward passes. Both transfers run on Queue::host, concurrently
// with computation.
#include "lib/tensor/tensor.hpp"

namespace trireme {

// A tensor that is stored in host memory until it is needed again.
class OffloadedTensor {
 public:
  OffloadedTensor() = default;  // an absent tensor
  // Starts copying x to the host. The caller must not overwrite x until the operations queued so
  // far are complete.
  OffloadedTensor(Backend&, const Tensor& x);

  explicit operator bool() const { return pinned_ || arriving_; }
  // Starts copying the tensor back to the device, unless the copy has already been started.
  void bring_up(Backend&);
  // Returns the tensor for use on the compute queue. If bring_up() was not called, take() starts
  // the copy to the device.
  Tensor take(Backend&);

 private:
  Tensor pinned_, arriving_;
  Event arrived_{};
};

}  // namespace trireme
