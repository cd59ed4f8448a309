#pragma once
// The handle of an operation in flight.
#include <memory>

#include "kernels/backend.hpp"
#include "lib/comm/engine/label.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

using engine::Doing, engine::Label;
namespace engine {
class Operation;
}

// Handle of an operation in flight. Move-only; by default there is no operation. If it is destroyed
// before wait(), for instance by an exception, the operation stays in flight and keeps its memory.
// Communicator::abandoned() then lists it.
class Pending {
 public:
  Pending() noexcept;
  // Starts the operation.
  explicit Pending(std::unique_ptr<engine::Operation>);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  // Polls and yields until the operation completes. Later work on `q` sees the result; host memory
  // is ready on return. Returns the event on the operation's queue after which its memory is no
  // longer used. Throws Error if the operation fails or exceeds CommSettings::hang_timeout; it then
  // stays in flight.
  Event wait(Queue q);
  bool in_flight() const { return operation_ != nullptr; }
  // Keeps a tensor alive until wait(), which also records the last use (Tensor::used). If this
  // handle is destroyed first, the tensor lives until the operation completes.
  void keep(Tensor);

 private:
  void abandon() noexcept;

  std::unique_ptr<engine::Operation> operation_;
};

}  // namespace trireme
