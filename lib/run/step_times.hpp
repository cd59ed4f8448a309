#pragma once
// How long what a training loop does took, to say how long the next will take. Seconds.
#include <cstdint>

namespace trireme {

class StepTimes {
 public:
  // A step that was computed; one without targets costs nothing and says nothing about the others.
  void add_step(double seconds, std::int64_t tokens) {
    ++steps_;
    tokens_ += tokens;
    steps_seconds_ += seconds;
  }
  std::int64_t tokens() const { return tokens_; }  // of these steps
  double steps_seconds() const { return steps_seconds_; }
  // On average so far; 0 before the first.
  double step() const { return steps_ > 0 ? steps_seconds_ / static_cast<double>(steps_) : 0; }

  double evaluation = 0, sample = 0;  // the last one

 private:
  std::int64_t steps_ = 0, tokens_ = 0;
  double steps_seconds_ = 0;
};

}  // namespace trireme
