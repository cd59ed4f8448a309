#pragma once
// Records the work on the queues of this process as spans of time. Spans are kept while a trace is
// recorded and shown to a profiler if one is attached. Otherwise a span costs only the test of a
// flag. Main thread only.
//
// Times are taken on the host. A span on the compute queue lasts from the call that puts the work
// there until the host continues. On backends that compute immediately, the work is then done. A
// span of a message lasts from its start until the host notices that it is complete.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"

namespace trireme {

// One recorded span of time on a queue.
struct TraceSpan {
  Queue queue{};
  std::string name;      // examples: "gather", "linear", "linear grad"
  std::string unit;      // the model's unit; empty if there is none
  int microbatch = -1;   // -1 if there is none
  std::int64_t begin{};  // in nanoseconds, unless Trace::start was given another clock
  std::int64_t end{};
};

// Functions of a profiler. `push` is called with a span's text when the span begins, `pop` when the
// innermost open span ends.
struct TraceDisplay {
  void (*push)(const char* text);
  void (*pop)();
};

// The trace of this process: its recorded spans, and the profiler that shows new scopes.
class Trace {
 public:
  using Clock = std::function<std::int64_t()>;

  static bool on() { return on_; }
  // Returns true if a trace is recorded or a profiler is attached.
  static bool watched() { return on_ || display_ != nullptr; }
  // Discards earlier spans and starts recording. `Clock` provides the times.
  static void start(Clock = nanoseconds);
  // Stops recording. Returns the spans recorded since start, ordered by their end.
  static std::vector<TraceSpan> stop();

  // Returns the time of the steady clock.
  static std::int64_t nanoseconds();
  // Returns the time of the trace's clock. May be called only while a trace is recorded.
  static std::int64_t now();
  // Adds a span to the trace. May be called only while a trace is recorded.
  static void add(TraceSpan);

  // Sets the profiler that shows later scopes. Null detaches the profiler.
  static void show(const TraceDisplay* display) { display_ = display; }

 private:
  friend class TraceScope;
  inline static bool on_ = false;
  inline static const TraceDisplay* display_ = nullptr;
};

// Records a span on the compute queue from its construction to its destruction. A scope without a
// unit (a part of the model, such as "blocks.1") inherits the unit of the enclosing scope. A scope
// with an empty name records nothing. A profiler shows a scope as "linear grad, blocks.1,
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
    std::string around;  // the enclosing scope's unit
    bool recorded;
    const TraceDisplay* shown;
  };
  std::optional<Open> open_;
};

}  // namespace trireme
