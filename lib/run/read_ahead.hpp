#pragma once
// What the next step reads, read while this one computes: a file system that is slow to answer then
// holds up no step that takes longer than it does. One step ahead and no more.
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/base/background_work.hpp"
#include "lib/data/dataset.hpp"

namespace trireme {

class ReadAhead {
 public:
  // A step's microbatches, by its first sample. Called in a thread of its own.
  using Read = std::function<std::vector<Batch>(std::int64_t first)>;
  // Steps of `step` samples; none is read ahead from sample `end` on.
  ReadAhead(Read, std::int64_t step, std::int64_t end);

  // What Read gives, or throws, for the step that begins with sample `first`.
  std::vector<Batch> take(std::int64_t first);

 private:
  static constexpr std::int64_t nothing = -1;
  void start(std::int64_t first);

  Read read_;
  std::int64_t step_, end_;
  std::int64_t ahead_ = nothing;  // first sample of what is being read
  std::vector<Batch> batches_;
  BackgroundWork work_;  // ends before what it uses
};

}  // namespace trireme
