#pragma once
// Something that moves between ranks: what it is for, and the handle to wait for it with.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

enum class Doing : std::uint8_t { gather, scatter, exchange, send, receive, tie, agree };

// What an operation is for, in messages and traces. `unit` outlives the operation (a name of the
// model's spec).
struct Label {
  Doing doing;
  std::string_view unit = {};
  int microbatch = -1;
};
std::string_view name_of(Doing);
std::string to_string(const Label&);  // "gather of blocks.3, microbatch 2"

class Job;

// Move-only; default: nothing in flight. An operation that is dropped while in flight, because an
// exception unwinds, stays in flight and keeps its memory: Communicator::left_over() names it.
class Pending {
 public:
  Pending() noexcept;
  explicit Pending(std::unique_ptr<Job>);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  // Work put on `q` afterwards sees the result; host memory is ready on return. Tests and yields.
  // Returns the event on the operation's own queue after which its memory is no longer used.
  // Throws Error when MPI failed or CommSettings::hang_timeout passed: it is then still in flight.
  Event wait(Queue q);
  bool in_flight() const { return job_ != nullptr; }
  // Shares the tensor until the operation is waited for, and tells it then when it was last used.
  // What is kept stays taken also when the operation is dropped.
  void keep(Tensor);

 private:
  std::unique_ptr<Job> job_;
};

}  // namespace trireme
