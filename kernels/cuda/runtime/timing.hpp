#pragma once
// What each operation takes on the device: a timed mark before and one behind it on its stream,
// read when asked for. A time includes what the stream waited for between the two: nothing where
// the host puts work there ahead of the device.
#include <cstddef>
#include <string_view>
#include <vector>

#include "kernels/cuda/runtime/runtime.hpp"
#include "kernels/work.hpp"

namespace trireme::cuda {

class Timing {
 public:
  explicit Timing(Runtime& runtime) : runtime_(runtime) {}
  ~Timing();
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

  bool on() const { return on_; }
  void start();
  // Waits for all that was timed. Marks are kept for the next time.
  std::vector<OperationTime> stop();

  // Runs f, which puts an operation on the stream. `name` outlives the reading.
  template <class F>
  void around(Runtime::Stream, std::string_view name, const Work&, const F&);

  std::size_t marks() const { return marks_.size(); }  // ever made: two for each of most operations

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
  std::size_t used_ = 0;  // of marks_
  std::vector<Timed> timed_;
};

template <class F>
void Timing::around(Runtime::Stream s, std::string_view name, const Work& work, const F& f) {
  auto* const begin = mark(s);
  f();
  timed_.push_back({name, work, begin, mark(s)});
}

}  // namespace trireme::cuda
