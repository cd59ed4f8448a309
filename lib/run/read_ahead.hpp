#pragma once
// Reads the samples of the next step while the current step is computed. A slow file system then
// delays a step only if reading takes longer than the step.
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/base/background_work.hpp"
#include "lib/data/dataset.hpp"
#include "lib/run/step_inputs.hpp"

namespace trireme {

// Reads samples in a background thread.
class ReadAhead {
 public:
  // Function that returns the micro-batches of a step with these samples. It is called in a
  // background thread.
  using Read = std::function<std::vector<Batch>(SampleRange)>;
  explicit ReadAhead(Read);

  // Returns the micro-batches of a step, and starts reading the samples that follow for the next
  // step, which has `next` samples. If `next` is 0, reads nothing ahead. Rethrows the exception if
  // reading failed.
  std::vector<Batch> take(SampleRange, std::int64_t next);

 private:
  void start(SampleRange);

  Read read_;
  SampleRange ahead_;  // samples of the step being read; empty if there is none
  std::vector<Batch> batches_;
  BackgroundWork work_;  // ends before the members it uses
};

}  // namespace trireme
