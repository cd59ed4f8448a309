#pragma once
// A numerically stable term of the Kullback-Leibler divergence sum p log(p / q), where p and q each
// sum to 1. The term is q - p - p x with x = log(q / p), and the sum is the same. Every term is at
// least 0. An error common to all x changes the sum only by the square of that error. The terms p
// log(p / q), in contrast, cancel to a much smaller sum if p and q are nearly equal, as they are at
// high temperatures.
namespace trireme::math {

// Returns q - p - p x. `x` is log(q / p).
constexpr float divergence_term(float p, float q, float x) {
  // Threshold below which p (e^x - 1 - x) = p x^2 (1/2 + x/6 + x^2/24 + ...) is used, because q - p
  // would subtract nearly equal numbers.
  constexpr float near = 0.25F;
  const float size = x < 0 ? -x : x;
  float series = 1.0F / 5040;
  series = series * x + 1.0F / 720;
  series = series * x + 1.0F / 120;
  series = series * x + 1.0F / 24;
  series = series * x + 1.0F / 6;
  series = series * x + 0.5F;
  return size < near ? p * (x * x) * series : (q - p) - p * x;
}

}  // namespace trireme::math
