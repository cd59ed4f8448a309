#include "lib/tensor/tensor.hpp"

#include <algorithm>

namespace trireme {

Tensor Tensor::empty(Backend& b, const Shape& s, DType t, MemoryKind k, Queue first, Memory m) {
  Tensor x;
  x.shape_ = s;
  x.dtype_ = t;
  const auto bytes = static_cast<std::size_t>(s.count()) * bytes_of(t);
  x.storage_ = std::make_shared<Storage>(b, b.take(bytes, k, first, m));
  return x;
}

View Tensor::view() const {
  return storage_ ? View(storage_->block.data + offset_, dtype_, shape_) : View{};
}

Tensor Tensor::slice(std::int64_t begin, const Shape& s) const {
  expect(begin >= 0 && begin + s.count() <= shape_.count(), "slice stays inside the tensor");
  Tensor x = *this;
  x.offset_ += begin * static_cast<std::int64_t>(bytes_of(dtype_));
  x.shape_ = s;
  return x;
}

void Tensor::used(Event e) const {
  auto& last = storage_->last[static_cast<std::size_t>(e.queue)];
  last = std::max(last, e.ticket);
}

Tensor::Storage::~Storage() {
  std::array<Event, queue_count> events;
  for (std::size_t q = 0; q < queue_count; ++q) events[q] = {static_cast<Queue>(q), last[q]};
  events[0] = backend.record(Queue::compute);
  static_assert(static_cast<int>(Queue::compute) == 0);
  backend.give(block, events);
}

Workspace::Workspace(Backend& b)
    : backend_(b),
      block_(Tensor::empty(b, {static_cast<std::int64_t>(b.workspace_bytes() / 4)}, DType::f32,
                           MemoryKind::workspace)) {
  b.lend_workspace(block_.view());
}

Workspace::~Workspace() {
  backend_.lend_workspace({});
}

}  // namespace trireme
