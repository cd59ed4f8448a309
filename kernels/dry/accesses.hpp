#pragma once
// Which queue accessed which bytes, and was the order given? Each queue has a vector clock; memory
// is an interval map of its last write and, by queue, its last reads.
//
// An event may be waited for at any later time, so the clock that its queue had is kept: once for
// each ticket where it changed, and as long as an access in memory's map distinguishes it from the
// clock before. So at most as many clocks are kept as the map has accesses.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/backend.hpp"

namespace trireme {

enum class Touch : std::uint8_t { read, write };

class Accesses {
 public:
  Accesses() { forget_next_.fill(forget_at); }
  void begin(std::string_view what, Queue);  // a new operation; its name outlives this
  void touch(Touch, ConstView);              // of the operation begun last
  Event record(Queue);
  void wait(Queue, Event);  // for an event recorded here

  const std::vector<std::string>& races() const { return races_; }
  std::int64_t race_count() const { return race_count_; }
  std::size_t size() const;  // clocks and intervals that are kept

 private:
  using Clock = std::array<std::uint64_t, queue_count>;
  struct Access {
    std::uint64_t ticket = 0;  // 0: never
    Queue queue = Queue::compute;
    std::string_view what;
  };
  struct Bytes {
    std::uint64_t end;
    Access write;
    std::array<Access, queue_count> reads;
  };
  struct Seen {
    std::uint64_t from;  // the queue's first ticket with this clock
    Clock clock;         // tickets seen of the other queues; its own component is not used
  };
  static constexpr std::size_t forget_at = 1024;

  bool ordered(const Access&) const;
  Clock at(Event) const;
  void forget(Queue);
  void report(Touch, const Access& earlier, const char* earlier_kind);
  void split(std::uint64_t at);

  std::array<Clock, queue_count> clock_{};
  std::array<std::vector<Seen>, queue_count> seen_;  // by ticket
  std::array<std::size_t, queue_count> forget_next_;
  std::map<std::uint64_t, Bytes> memory_;  // by first byte; neighbours do not overlap
  std::string_view what_;
  Queue queue_ = Queue::compute;
  std::vector<std::string> races_;
  std::int64_t race_count_ = 0;
};

}  // namespace trireme
