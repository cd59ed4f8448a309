#pragma once
// Who touched which bytes when, and was it ordered? Each queue has a vector clock; memory is an
// interval map of its last write and, by queue, its last reads.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/backend.hpp"

namespace trireme {

enum class Touch : std::uint8_t { read, write };

class Accesses {
 public:
  void begin(const char* what, Queue);  // a new operation
  void touch(Touch, ConstView);         // of the operation begun last
  Event record(Queue);
  void wait(Queue, Event);

  const std::vector<std::string>& races() const { return races_; }
  std::int64_t race_count() const { return race_count_; }

 private:
  using Clock = std::array<std::uint64_t, queue_count>;
  struct Access {
    std::uint64_t ticket = 0;  // 0: never
    Queue queue = Queue::compute;
    const char* what = nullptr;
  };
  struct Bytes {
    std::uint64_t end;
    Access write;
    std::array<Access, queue_count> reads;
  };
  bool ordered(const Access&) const;
  void report(Touch, const Access& earlier, const char* earlier_kind);
  void split(std::uint64_t at);

  std::array<Clock, queue_count> clock_{};
  std::array<std::unordered_map<std::uint64_t, Clock>, queue_count> recorded_;
  std::map<std::uint64_t, Bytes> memory_;  // by first byte; neighbours do not overlap
  const char* what_ = nullptr;
  Queue queue_ = Queue::compute;
  std::vector<std::string> races_;
  std::int64_t race_count_ = 0;
};

}  // namespace trireme
