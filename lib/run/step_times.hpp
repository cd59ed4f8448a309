#pragma once
// Measures how long activities of a training loop take, to estimate future durations. Times are in
// seconds.
#include <cstdint>

namespace trireme {

// Average time of steps, and times of the last evaluation and the last sample.
class StepTimes {
 public:
  // Adds the time of a computed step. Do not add steps without targets, which take no time.
  void add_step(double seconds, std::int64_t samples, std::int64_t tokens) {
    samples_ += samples;
    tokens_ += tokens;
    steps_seconds_ += seconds;
  }
  std::int64_t tokens() const { return tokens_; }  // of these steps
  double steps_seconds() const { return steps_seconds_; }
  // Returns the average seconds for this number of samples, or 0 before the first step.
  double of_samples(std::int64_t samples) const {
    return samples_ > 0
               ? steps_seconds_ * (static_cast<double>(samples) / static_cast<double>(samples_))
               : 0;
  }

  double evaluation = 0, sample = 0;  // seconds of the last one

 private:
  std::int64_t samples_ = 0, tokens_ = 0;
  double steps_seconds_ = 0;
};

}  // namespace trireme
