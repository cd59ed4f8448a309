#pragma once
// The handle of an operation in flight.
#include <memory>

#include "kernels/backend.hpp"
#include "lib/comm/engine/label.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

using engine::OperationKind, engine::Label;
namespace engine {
class Operation;
}

// Handle of an operation in flight. The type is move-only. A default-constructed handle has no
// operation. If the handle is destroyed before wait(), for example by an exception, the operation
// stays in flight and keeps its memory. Communicator::abandoned() then lists the operation.
class Pending {
 public:
  Pending() noexcept;
  // Starts the operation.
  explicit Pending(std::unique_ptr<engine::Operation>);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  // Polls and yields until the operation completes. Later work on `q` sees the result. Results in
  // host memory are ready on return. Returns the event on the operation's queue after which the
  // operation's memory is no longer used. Throws Error if the operation fails or exceeds
  // CommSettings::hang_timeout. In that case the operation stays in flight.
  Event wait(Queue q);
  bool in_flight() const { return operation_ != nullptr; }
  // Keeps a tensor alive until wait(), which also records the tensor's last use (Tensor::used). If
  // this handle is destroyed first, the tensor lives until the operation completes.
  void keep(Tensor);

 private:
  void abandon() noexcept;

  std::unique_ptr<engine::Operation> operation_;
};

}  // namespace trireme
