#pragma once
// The handle to wait for an operation with.
#include <memory>

#include "kernels/backend.hpp"
#include "lib/comm/engine/label.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

using engine::Doing, engine::Label;
namespace engine {
class Operation;
}

// Move-only; default: nothing in flight. An operation that is dropped while in flight, because an
// exception unwinds, stays in flight and keeps its memory: Communicator::abandoned() names it.
class Pending {
 public:
  Pending() noexcept;
  // Starts it.
  explicit Pending(std::unique_ptr<engine::Operation>);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  // Work put on `q` afterwards sees the result; host memory is ready on return. Tests and yields.
  // Returns the event on the operation's own queue after which its memory is no longer used.
  // Throws Error when MPI failed or CommSettings::hang_timeout passed: it is then still in flight.
  Event wait(Queue q);
  bool in_flight() const { return operation_ != nullptr; }
  // Shares the tensor until the operation is waited for, and tells it then when it was last used.
  // What is kept stays taken also when the operation is dropped.
  void keep(Tensor);

 private:
  void abandon() noexcept;

  std::unique_ptr<engine::Operation> operation_;
};

}  // namespace trireme
