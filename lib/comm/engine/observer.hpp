#pragma once
// Observer: an interface that is notified of a rank's calls on its communicators, in program order.
// Predictions of time use it to learn what is sent and when. Calls come from the main thread.
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

  // Called when an operation on Views is requested. Work that is enqueued on the backend from then
  // until called() belongs to it.
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
