#pragma once
// Measures the time of each operation on the device. Timed marks are recorded on the stream before
// and after the operation, and are read when the times are requested. The time includes any idle
// time of the stream between the two marks. The stream is never idle there if the host puts work on
// it ahead of the device.
#include <cstddef>
#include <string_view>
#include <vector>

#include "kernels/cuda/runtime/runtime.hpp"
#include "kernels/work.hpp"

namespace trireme::cuda {

// Timer of the operations on one device.
class Timing {
 public:
  explicit Timing(Runtime& runtime) : runtime_(runtime) {}
  ~Timing();
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

  bool on() const { return on_; }
  void start();
  // Stops timing, waits for all timed operations and returns the times by operation. Keeps the
  // marks for the next measurement.
  std::vector<OperationTime> stop();

  // Times f, which puts an operation on the stream. The text `name` must live until stop().
  template <class F>
  void around(Runtime::Stream, std::string_view name, const Work&, const F&);

  // Returns the number of marks created so far: two for each operation of the longest measurement.
  std::size_t marks() const { return marks_.size(); }

 private:
  struct Timed {
    std::string_view name;
    Work work;
    Runtime::Mark begin, end;
  };
  Runtime::Mark mark(Runtime::Stream);

  Runtime& runtime_;
  bool on_ = false;
  std::vector<Runtime::Mark> marks_;
  std::size_t used_ = 0;  // number of marks_ in use
  std::vector<Timed> timed_;
};

template <class F>
void Timing::around(Runtime::Stream s, std::string_view name, const Work& work, const F& f) {
  auto* const begin = mark(s);
  f();
  timed_.push_back({name, work, begin, mark(s)});
}

}  // namespace trireme::cuda
