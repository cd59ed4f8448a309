#pragma once
// Queues as CUDA streams, and their events as marks (CUDA events) from a pool. All kernel launches
// get their stream from this class. A mark returns to the pool once it is known to have passed. A
// later wait for the same ticket then returns immediately.
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cuda/runtime/runtime.hpp"

namespace trireme::cuda {

// The streams of one device, one for each Queue.
class Queues {
 public:
  explicit Queues(Runtime&);
  ~Queues();
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  Runtime::Stream stream(Queue q) const { return line(q).stream; }
  Event record(Queue);
  // Makes work that is later put on `q` wait for the event. Repeated waits for the same event cost
  // nothing.
  void wait(Queue q, Event);
  bool done(Event);
  // Blocks until all work on the queue is done.
  void synchronize(Queue q);

  // Returns the number of marks created so far, which is the largest number that was pending at
  // once.
  std::size_t marks() const { return made_; }

 private:
  struct Pending {
    std::uint64_t ticket;
    Runtime::Mark mark;
  };
  struct Line {
    Runtime::Stream stream = nullptr;
    std::uint64_t last = 0;    // last ticket given out
    std::uint64_t passed = 0;  // last ticket known to be done
    std::deque<Pending> pending;
    std::array<std::uint64_t, queue_count> waited{};  // latest ticket waited for, by queue
  };
  Line& line(Queue q) { return lines_[static_cast<std::size_t>(q)]; }
  const Line& line(Queue q) const { return lines_[static_cast<std::size_t>(q)]; }
  void retire(Line&);

  Runtime& runtime_;
  std::array<Line, queue_count> lines_;
  std::vector<Runtime::Mark> pool_;
  std::size_t made_ = 0;
};

}  // namespace trireme::cuda
