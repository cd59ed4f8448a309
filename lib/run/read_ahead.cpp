#include "lib/run/read_ahead.hpp"

#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

ReadAhead::ReadAhead(Read read, std::int64_t step, std::int64_t end)
    : read_(std::move(read)), step_(step), end_(end) {}

std::vector<Batch> ReadAhead::take(std::int64_t first) {
  std::vector<Batch> now;
  const auto ahead = std::exchange(ahead_, nothing);
  if (ahead == first) {
    work_.join();
    now = std::move(batches_);
  } else {
    if (ahead != nothing) work_.wait();
    now = read_(first);
  }
  if (first + step_ < end_) start(first + step_);
  return now;
}

void ReadAhead::start(std::int64_t first) {
  try {
    work_.start([this, first] { batches_ = read_(first); });
    ahead_ = first;
  } catch (const Error&) {  // without a thread, the step itself reads the batches
  }
}

}  // namespace trireme
