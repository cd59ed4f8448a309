#pragma once
// The contract's queues as streams and its events as marks out of a pool. Every launch asks here
// for its stream. A mark returns to the pool when it was seen to have passed; a later wait for its
// ticket returns at once.
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cuda/runtime/runtime.hpp"

namespace trireme::cuda {

class Queues {
 public:
  explicit Queues(Runtime&);
  ~Queues();
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  Runtime::Stream stream(Queue q) const { return line(q).stream; }
  Event record(Queue);
  // Work put on `q` from now on starts after the event. Waiting twice costs nothing.
  void wait(Queue q, Event);
  bool done(Event);
  void synchronize(Queue q);

  std::size_t marks() const { return made_; }  // ever made: as many as were pending at once

 private:
  struct Pending {
    std::uint64_t ticket;
    Runtime::Mark mark;
  };
  struct Line {
    Runtime::Stream stream = nullptr;
    std::uint64_t last = 0;    // ticket given out
    std::uint64_t passed = 0;  // and seen to be done
    std::deque<Pending> pending;
    std::array<std::uint64_t, queue_count> waited{};  // for each other queue: its latest ticket
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
