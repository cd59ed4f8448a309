#pragma once
// A race detector for memory accesses from several queues. Each queue has a vector clock (Mattern
// 1989). An interval map of memory stores the last write of each interval and, for each queue, the
// last read.
//
// A queue may wait for an event at any later time, so the detector must keep the clock that the
// event's queue had. One clock is kept for each ticket at which the clock changed, as long as some
// access in the interval map distinguishes this clock from the previous one. The number of clocks
// is therefore at most the number of accesses in the map.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/backend.hpp"

namespace trireme {

// Kind of a memory access.
enum class Touch : std::uint8_t { read, write };

// Records accesses and finds pairs of accesses that are not ordered (races).
class Accesses {
 public:
  Accesses() { forget_next_.fill(forget_at); }
  // Begins a new operation. The string of its name must outlive this object.
  void begin(std::string_view what, Queue);
  // Records an access by the most recently begun operation. Reports a race if an earlier access to
  // the same bytes is not ordered before this access and at least one of the two accesses is a
  // write.
  void touch(Touch, ConstView);
  Event record(Queue);
  // Orders later work of the queue after the event, which must have been recorded here.
  void wait(Queue, Event);

  // Returns messages about the first 8 races. Each message names the two accesses.
  const std::vector<std::string>& races() const { return races_; }
  // Returns the total number of races.
  std::int64_t race_count() const { return race_count_; }
  // Returns the number of stored clocks and intervals.
  std::size_t size() const;

 private:
  using Clock = std::array<std::uint64_t, queue_count>;
  struct Access {
    std::uint64_t ticket = 0;  // 0 if there was no access yet
    Queue queue = Queue::compute;
    std::string_view what;
    bool operator==(const Access& a) const { return ticket == a.ticket && queue == a.queue; }
  };
  struct Bytes {
    std::uint64_t end;
    Access write;
    std::array<Access, queue_count> reads;
    bool same_accesses(const Bytes& b) const { return write == b.write && reads == b.reads; }
  };
  struct Seen {
    std::uint64_t from;  // first ticket of the queue with this clock
    Clock clock;  // tickets of the other queues that were seen; the queue's own entry is unused
  };
  static constexpr std::size_t forget_at = 1024;

  bool ordered(const Access&) const;
  Clock at(Event) const;
  void forget(Queue);
  void report(Touch, const Access& earlier, const char* earlier_kind);
  void check(Touch, const Bytes&);
  void write(std::uint64_t begin, std::uint64_t end, const Access& now);
  // Also merges neighbors that have the same accesses after it.
  void read(std::uint64_t begin, std::uint64_t end, const Access& now);
  void split(std::uint64_t at);

  std::array<Clock, queue_count> clock_{};
  std::array<std::vector<Seen>, queue_count> seen_;  // for each queue, ordered by ticket
  std::array<std::size_t, queue_count> forget_next_;
  std::map<std::uint64_t, Bytes> memory_;  // key: first byte; intervals do not overlap
  std::string_view what_;
  Queue queue_ = Queue::compute;
  std::vector<std::string> races_;
  std::int64_t race_count_ = 0;
};

}  // namespace trireme
