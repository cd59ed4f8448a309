#include "lib/run/stalled_training.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trireme {

static constexpr const char* advice =
    "the weights may be damaged by a learning rate that is too high. Lower optimizer.lr and resume "
    "from an earlier checkpoint";

bool StalledTraining::is_uniform(const StepNumbers& s) const {
  return uniform_loss_ > 0 && s.grad_norm == 0 &&
         std::abs(s.loss - uniform_loss_) <= equal_to_uniform * uniform_loss_;
}

std::vector<std::string> StalledTraining::after(const StepNumbers& s) {
  std::vector<std::string> warnings;
  if (!warned_uniform_ && is_uniform(s)) {
    warned_uniform_ = true;
    warnings.push_back(
        fmt::format("the model gives all tokens the same probability (loss {:.4f} = "
                    "ln(model.vocab)), and its gradient is 0: {}",
                    s.loss, advice));
  }
  const double usual = weight_ > 0 ? std::exp(log_norm_ / weight_) : 0;
  if (!warned_norm_ && !warned_uniform_ && s.grad_norm < collapse * usual) {
    warned_norm_ = true;
    warnings.push_back(fmt::format("the gradient norm fell from about {:.3g} to {:.3g}: {}", usual,
                                   s.grad_norm, advice));
  }
  if (s.grad_norm > 0) {
    constexpr double memory = 0.99;
    log_norm_ = memory * log_norm_ + std::log(s.grad_norm);
    weight_ = memory * weight_ + 1;
  }
  const bool equal = std::abs(s.loss - first_loss_) <= equal_losses * std::abs(first_loss_);
  if (equal_ == 0 || !equal) {
    first_loss_ = s.loss;
    equal_ = 0;
  }
  if (s.lr > 0) ++equal_;
  if (!warned_loss_ && !warned_uniform_ && equal_ > patience) {
    warned_loss_ = true;
    warnings.push_back(fmt::format(
        "the loss has been {:.6g} for {} steps with a learning rate above 0: nothing is learned. "
        "The learning rate may be too low, or the weights may be damaged by one that is too high",
        s.loss, patience));
  }
  return warnings;
}

}  // namespace trireme
