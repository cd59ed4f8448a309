#include "kernels/cuda/runtime/timing.hpp"

#include <map>

namespace trireme::cuda {

Timing::~Timing() {
  for (auto* m : marks_) runtime_.destroy_mark(m);
}

void Timing::start() {
  timed_.clear();
  used_ = 0;
  on_ = true;
}

Runtime::Mark Timing::mark(Runtime::Stream s) {
  if (used_ == marks_.size()) marks_.push_back(runtime_.create_timed_mark());
  auto* const m = marks_[used_++];
  runtime_.record(m, s);
  return m;
}

std::vector<OperationTime> Timing::stop() {
  on_ = false;
  std::map<std::string_view, OperationTime> sums;
  for (const auto& t : timed_) {
    runtime_.synchronize_mark(t.end);
    auto& sum = sums[t.name];
    ++sum.calls;
    sum.milliseconds += runtime_.milliseconds(t.begin, t.end);
    sum.work += t.work;
  }
  timed_.clear();
  std::vector<OperationTime> times;
  for (auto& [name, sum] : sums) {
    sum.name = name;
    times.push_back(std::move(sum));
  }
  return times;
}

}  // namespace trireme::cuda
