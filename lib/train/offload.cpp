#include "lib/train/offload.hpp"

#include <utility>

namespace trireme {

OffloadedTensor::OffloadedTensor(Backend& b, const Tensor& x)
    : pinned_(Tensor::empty(b, x.shape(), x.dtype(), MemoryKind::offloaded, Queue::host,
                            Memory::pinned)) {
  b.wait(Queue::host, b.record(Queue::compute));
  b.bring_down(Queue::host, pinned_.view(), x.view());
  const Event down = b.record(Queue::host);
  x.used(down);
  pinned_.used(down);
}

void OffloadedTensor::bring_up(Backend& b) {
  if (!pinned_) return;
  arriving_ = Tensor::empty(b, pinned_.shape(), pinned_.dtype(), MemoryKind::saved, Queue::host);
  b.bring_up(Queue::host, arriving_.view(), pinned_.view());
  arrived_ = b.record(Queue::host);
  arriving_.used(arrived_);
  pinned_.used(arrived_);
  pinned_ = {};
}

Tensor OffloadedTensor::take(Backend& b) {
  bring_up(b);
  b.wait(Queue::compute, arrived_);
  return std::move(arriving_);
}

}  // namespace trireme
