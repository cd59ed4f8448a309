#pragma once
// Detects training that no longer learns although every number is finite. The usual cause is a
// learning rate that is too high.
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// The numbers of a step by which stalled training is recognized.
struct StepNumbers {
  double loss, grad_norm, lr;  // the norm before clipping
};

// Watches the steps of a process. Each of its warnings is given once.
class StalledTraining {
 public:
  static constexpr std::int64_t patience = 50;      // steps of equal loss after which it warns
  static constexpr double collapse = 1e-6;          // of the usual gradient norm
  static constexpr double equal_losses = 1e-6;      // relative difference
  static constexpr double equal_to_uniform = 1e-4;  // relative difference

  // `uniform_loss` is the loss of a model that gives all tokens the same probability: ln(vocab).
  // It is 0 if the loss is not the mean loss of tokens.
  explicit StalledTraining(double uniform_loss) : uniform_loss_(uniform_loss) {}

  // Returns the warnings of a step. Call the function after every step that trained a parameter and
  // whose numbers are finite.
  std::vector<std::string> after(const StepNumbers&);

 private:
  bool is_uniform(const StepNumbers&) const;

  double uniform_loss_;
  bool warned_uniform_ = false, warned_norm_ = false, warned_loss_ = false;
  // The usual norm is the geometric mean of the norms, in which older steps have less weight.
  double log_norm_ = 0, weight_ = 0;
  double first_loss_ = 0;   // of the steps of equal loss
  std::int64_t equal_ = 0;  // number of steps of equal loss with a learning rate above 0
};

}  // namespace trireme
