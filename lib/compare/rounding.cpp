#include "lib/compare/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/base/error.hpp"

namespace trireme {

// Returns the probability of values beyond t or -t in Student's distribution with n degrees of
// freedom. The method is from Abramowitz and Stegun 1964, 26.7.3 and 26.7.4: a finite sum of powers
// of cos(theta).
double student_tails(double t, int n) {
  expect(n >= 1, "Student's t has a degree of freedom");
  const double theta = std::atan(std::fabs(t) / std::sqrt(n)), c = std::cos(theta),
               s = std::sin(theta);
  double term = n % 2 == 1 ? c : 1, sum = n > 1 ? term : 0;
  for (int k = n % 2 == 1 ? 3 : 2; k < n; k += 2) {
    term *= c * c * (k - 1) / k;
    sum += term;
  }
  const double inside = n % 2 == 1 ? 2 / std::numbers::pi * (theta + s * sum) : s * sum;
  return std::clamp(1 - inside, 0.0, 1.0);
}

static double alpha_of(const Tally& t) {
  return t.a_squares > 0 ? t.product / t.a_squares : 0;
}

void Spread::add(const Tally& t) {
  const double alpha = alpha_of(t);
  ++replays_;
  size_ += t.d_squares;
  projection_ += alpha * alpha;
}

Judgement judge(const Tally& t, const Spread& spread) {
  Judgement j;
  if (t.equal()) return j;
  const double size = spread.size() + t.unit_squares,
               projection = spread.projection() +
                            (t.a_squares > 0 ? t.unit_products / (t.a_squares * t.a_squares) : 0);
  j.alpha = alpha_of(t);
  j.size = std::sqrt(t.d_squares / (2 * size));
  j.projection = j.alpha == 0 ? 0 : j.alpha / std::sqrt(2 * projection);
  const bool known =
      t.nans == 0 && spread.replays() > 0 && std::isfinite(j.size) && std::isfinite(j.projection);
  j.chance = !known ? 0
                    : std::min(student_tails(j.size, spread.replays()),
                               student_tails(j.projection, spread.replays()));
  return j;
}

bool explained(const Judgement& j, std::size_t tests) {
  return j.chance * 2 * static_cast<double>(tests) > false_alarm || j.chance == 1;
}

}  // namespace trireme
