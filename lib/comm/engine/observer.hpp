#pragma once
// Observer: an interface that is notified of a rank's calls on its communicators, in program order.
// Performance prediction uses it to record what is sent and when. Notifications come from the main
// thread.
#include <cstddef>

#include "kernels/backend.hpp"

namespace trireme::engine {

struct Call;
struct Context;
class Operation;

// Interface that receives notifications about one rank's communication.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  // Called when an operation on Views is requested. Backend work that is enqueued between this call
  // and called() belongs to the operation.
  virtual void call(const Context&, Queue, const Call&) = 0;
  virtual void called(const Operation&) = 0;
  // Called when the program blocks until the operation completes.
  virtual void wait(const Operation&) = 0;
  // Called when the program makes progress on operations in flight.
  virtual void poll() = 0;
  // Called when the program blocks in a collective of `bytes` bytes on host memory.
  virtual void agree(const Context&, std::size_t bytes) = 0;
};

}  // namespace trireme::engine
