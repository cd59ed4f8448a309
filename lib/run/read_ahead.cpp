#include "lib/run/read_ahead.hpp"

#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

ReadAhead::ReadAhead(Read read) : read_(std::move(read)) {}

std::vector<Batch> ReadAhead::take(SampleRange range, std::int64_t next) {
  std::vector<Batch> now;
  const auto ahead = std::exchange(ahead_, {});
  if (ahead == range) {
    work_.join();
    now = std::move(batches_);
  } else {
    if (ahead.count > 0) work_.wait();
    now = read_(range);
  }
  if (next > 0) start({range.first + range.count, next});
  return now;
}

void ReadAhead::start(SampleRange range) {
  try {
    work_.start([this, range] { batches_ = read_(range); });
    ahead_ = range;
  } catch (const Error&) {  // without a thread, the step itself reads the batches
  }
}

}  // namespace trireme
