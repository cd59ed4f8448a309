#include "kernels/ref/ref.hpp"

#include "kernels/ref/kernels.hpp"

namespace trireme {

void Ref::put(Queue, const kernel::Operation& operation) {
  std::visit([](const auto& o) { ref::run(o); }, operation);
}

AttentionBytes Ref::attention_bytes(const AttentionShape& shape, DType, Direction direction) const {
  return ref::attention_bytes(shape, direction);
}

}  // namespace trireme
