#pragma once
// Is notified of what a rank asks of its communicators, in the order of its program: how a
// prediction of time learns what is sent when. Calls come on the main thread.
#include <cstddef>

#include "kernels/backend.hpp"

namespace trireme::engine {

struct Call;
struct Context;
class Operation;

class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  // An operation on Views is called; what is put on the backend until `called` belongs to it.
  virtual void call(const Context&, Queue, const Call&) = 0;
  virtual void called(const Operation&) = 0;
  // The program goes on when it is complete.
  virtual void wait(const Operation&) = 0;
  // The program lets what is in flight progress.
  virtual void poll() = 0;
  // The program waits until all ranks of the communicator came here, with that many bytes.
  virtual void agree(const Context&, std::size_t bytes) = 0;
};

}  // namespace trireme::engine
