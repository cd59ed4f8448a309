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

// Move-only; default: nothing in flight. When an exception destroys it before wait(), the operation
// stays in flight and keeps its memory: Communicator::abandoned() names it.
class Pending {
 public:
  Pending() noexcept;
  // Starts it.
  explicit Pending(std::unique_ptr<engine::Operation>);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  // Polls and yields until the operation is complete; later work on `q` sees its result, and host
  // memory is ready on return. Returns the event on the operation's queue after which its memory is
  // no longer used. Throws Error, still in flight, on failure or after CommSettings::hang_timeout.
  Event wait(Queue q);
  bool in_flight() const { return operation_ != nullptr; }
  // Holds the tensor until wait(), which also records its last use (Tensor::used). If the operation
  // is dropped, it is held until that completes.
  void keep(Tensor);

 private:
  void abandon() noexcept;

  std::unique_ptr<engine::Operation> operation_;
};

}  // namespace trireme
