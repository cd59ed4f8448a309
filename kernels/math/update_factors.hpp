#pragma once
// The factors of an optimizer step, made in double and rounded once.
#include <cmath>

#include "kernels/math/update.hpp"
#include "kernels/operations.hpp"

namespace trireme::math {

inline SgdUpdate update_of(const SgdFactors& u) {
  return {static_cast<float>(1 - u.lr * u.decay), static_cast<float>(u.lr * u.scale)};
}

inline AdamWUpdate update_of(const AdamWFactors& u) {
  const auto count = static_cast<double>(u.count);
  return {.beta1 = static_cast<float>(u.beta1),
          .beta2 = static_cast<float>(u.beta2),
          .take1 = static_cast<float>(1 - u.beta1),
          .take2 = static_cast<float>(1 - u.beta2),
          .scale = static_cast<float>(u.scale),
          .shrink = static_cast<float>(1 - u.lr * u.decay),
          .rate = static_cast<float>(u.lr / (1 - std::pow(u.beta1, count))),
          .unbias2 = static_cast<float>(1 / (1 - std::pow(u.beta2, count))),
          .eps = static_cast<float>(u.eps)};
}

}  // namespace trireme::math
