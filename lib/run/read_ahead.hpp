#pragma once
// Reads the samples of the next step while the current step is computed. A slow file system then
// delays a step only if reading takes longer than the step.
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/base/background_work.hpp"
#include "lib/data/dataset.hpp"

namespace trireme {

// Reads samples in a background thread.
class ReadAhead {
 public:
  // Function that returns the micro-batches of the step that begins with sample `first`. It is
  // called in a background thread.
  using Read = std::function<std::vector<Batch>(std::int64_t first)>;
  // `step` is the number of samples in a step. Samples from `end` on are not read ahead.
  ReadAhead(Read, std::int64_t step, std::int64_t end);

  // Returns the micro-batches of the step that begins with sample `first`, and starts reading the
  // next step. Rethrows the exception if reading failed.
  std::vector<Batch> take(std::int64_t first);

 private:
  static constexpr std::int64_t nothing = -1;
  void start(std::int64_t first);

  Read read_;
  std::int64_t step_, end_;
  std::int64_t ahead_ = nothing;  // first sample of the step being read
  std::vector<Batch> batches_;
  BackgroundWork work_;  // ends before the members it uses
};

}  // namespace trireme
