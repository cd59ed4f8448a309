#pragma once
// model.offload = "inputs": a block's input waits for its backward in pinned memory of the host.
// Both ways it travels on Queue::host, whose work runs beside compute.
#include "lib/tensor/tensor.hpp"

namespace trireme {

class OffloadedTensor {
 public:
  OffloadedTensor() = default;  // absent
  // Begins to bring x down. Nobody writes to it until what is queued by then is done.
  OffloadedTensor(Backend&, const Tensor& x);

  explicit operator bool() const { return pinned_ || arriving_; }
  // Begins to bring it up, unless that has begun.
  void bring_up(Backend&);
  // For the compute queue; brings it up first where nobody asked for it ahead.
  Tensor take(Backend&);

 private:
  Tensor pinned_, arriving_;
  Event arrived_{};
};

}  // namespace trireme
