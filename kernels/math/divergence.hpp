#pragma once
// A term of sum p log(p / q), for p and q that sum to 1: q - p - p x, with x = log(q / p). None is
// below 0, and an error that all x have in common changes their sum by its square alone; those of
// p log(p / q) cancel to what is far smaller where p and q are much alike, as at high temperatures.
namespace trireme::math {

constexpr float divergence_term(float p, float q, float x) {
  // p (e^x - 1 - x) = p x^2 (1/2 + x/6 + x^2/24 + ...) near 0, where q - p is of equal numbers.
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
