#pragma once
// Decides which steps a run skips although their numbers are finite: the steps of train.skip_steps,
// and steps whose loss or gradient norm is far above those of the steps before (train.skip_above).
// All decisions follow from numbers that all ranks share and that checkpoints contain, so they do
// not depend on restarts.
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "lib/io/table_rows.hpp"
#include "lib/train/batch_ramp.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Parses texts such as "7" and "1200-1210". Throws Error if a text is neither a step nor a range of
// steps.
std::vector<StepRange> parse_step_ranges(std::span<const std::string>);

// Returns the number of steps in the window that train.skip_above needs: half of train.skip_window,
// rounded up, and at least 2.
std::int64_t needed_steps(std::int64_t skip_window);

// The rules of one run, and the loss and gradient norm of its last updated steps: the window.
class SkipRules {
 public:
  SkipRules() = default;  // skips nothing
  // `state` is the window in a checkpoint (RunExtra::usual_steps), or empty. If it has other
  // `conditions`, the window begins anew, because losses and norms are not comparable. The window
  // also begins anew at `borders` (FreezeSchedule::borders), which change the norms, and in steps
  // with another batch. Throws Error if the ranges cannot be parsed.
  SkipRules(const TrainConfig&, BatchRamp, std::string conditions,
            std::vector<std::int64_t> borders, const std::string& state);

  // Returns true if train.skip_steps contains the step.
  bool lists(std::int64_t step) const;
  // Returns the limits of the step after `completed` steps: the mean of the window plus
  // train.skip_above sample standard deviations. Infinite until needed_steps() are known.
  StepLimits limits(std::int64_t completed);
  // Counts a step that updated the weights.
  void add(double loss, double grad_norm);
  // Returns the window as text, for checkpoints.
  std::string state() const;

 private:
  struct Numbers {
    double loss = 0, grad_norm = 0;
  };
  std::vector<StepRange> listed_;
  BatchRamp ramp_;
  std::string conditions_;
  std::vector<std::int64_t> borders_;
  double above_ = 0;
  std::size_t window_ = 1;
  std::int64_t batch_ = 0;  // of the steps in the window
  std::deque<Numbers> newest_;
};

}  // namespace trireme
