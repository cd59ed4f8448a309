#pragma once
// What the queues of this process do when, as spans of time: kept while a trace is recorded, shown
// to a profiler that is attached. Otherwise a span costs the test of a flag. Main thread only.
//
// The clock is the host's. A span on compute lasts from when its work is put there until the host
// goes on, which is when the work is done on backends that do everything at once; a message's span
// lasts from its issue until it was seen to be complete.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"

namespace trireme {

struct TraceSpan {
  Queue queue{};
  std::string name;      // "gather", "linear", "linear grad"
  std::string unit;      // of the model; empty: none
  int microbatch = -1;   // -1: none
  std::int64_t begin{};  // of the clock; nanoseconds unless another clock was given
  std::int64_t end{};
};

// A profiler's calls: push with a span's text when it begins, pop when the innermost open span
// ends.
struct TraceDisplay {
  void (*push)(const char* text);
  void (*pop)();
};

class Trace {
 public:
  using Clock = std::function<std::int64_t()>;

  static bool on() { return on_; }
  // Is a trace recorded or a profiler attached?
  static bool watched() { return on_ || display_ != nullptr; }
  static void start(Clock = nanoseconds);
  // What was recorded since start, in the order in which it ended.
  static std::vector<TraceSpan> stop();

  static std::int64_t nanoseconds();  // of the steady clock
  // While it is on.
  static std::int64_t now();
  static void add(TraceSpan);

  // Where scopes are shown from now on; null: nowhere.
  static void show(const TraceDisplay* display) { display_ = display; }

 private:
  friend class TraceScope;
  inline static bool on_ = false;
  inline static const TraceDisplay* display_ = nullptr;
};

// A span on compute from its construction to its destruction. One that names no unit has that of
// the span around it; one without a name records nothing. Shown as "linear grad, blocks.1,
// microbatch 2".
class TraceScope {
 public:
  explicit TraceScope(std::string_view name, int microbatch = -1,
                      Direction direction = Direction::forward, std::string_view unit = {}) {
    if (Trace::watched() && !name.empty()) begin(name, microbatch, direction, unit);
  }
  ~TraceScope() {
    if (open_) end();
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  void begin(std::string_view name, int microbatch, Direction, std::string_view unit);
  void end();

  struct Open {
    TraceSpan span;
    std::string around;  // unit of the span around it
    bool recorded;
    const TraceDisplay* shown;
  };
  std::optional<Open> open_;
};

}  // namespace trireme
