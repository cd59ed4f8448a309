#pragma once
// Is the difference of two results what rounding makes? Pure statistics.
//
// Two computations that differ in the order of their sums alone are two draws from one
// distribution. Its width is measured: n replays of the same work, each with all results moved at
// random by what rounding may move them (kernels/rounding), are compared with one that is not
// moved. With x a tensor of the latter and e_r that of replay r minus x:
//
//   size        V = mean of |e_r|^2             d = b - a should have |d|^2 of about 2 V
//   projection  P = mean of (<e_r, x> / <x, x>)^2
//               alpha = <d, x> / <x, x> should have mean 0 and variance 2 P
//
// alpha is the least-squares estimate of the factor 1 + alpha between the two. The rounding of N
// elements is independent but for what reaches many at once, so alpha is smaller than a single
// element's relative difference by up to sqrt(N): a factor that no element shows stands out there.
//
// To V and P is added what rounding the results to their type makes of them, u^2 / 12 for an
// element with unit u: two numbers may lie on both sides of a border. |d| / sqrt(2 V) is, where all
// elements move together, the size of a Student's t with n degrees of freedom, and nearer to 1 the
// less they do; alpha / sqrt(2 P) is such a t. So the chance that rounding gives as much is at most
// the distribution's two tails (Student 1908). A difference is explained where all its chances,
// each times the number of tests (Bonferroni), are above `false_alarm`.
#include <cstdint>

#include "lib/compare/tally.hpp"

namespace trireme {

// Of calling a comparison unexplained that differs by rounding alone.
inline constexpr double false_alarm = 1e-6;
// Replays: more of them cost time, fewer give long tails. With 12 and some 50 tensors a result
// stands out from 14 standard deviations on.
inline constexpr int rounding_replays = 12;

// The probability of a |t| at least as large; n >= 1 degrees of freedom. Below 1e-15 it may be 0.
double student_tails(double t, int n);

// How far replays scatter around the one that was not moved.
class Spread {
 public:
  // a: not moved; b: a replay.
  void add(const Tally&);
  int replays() const { return replays_; }
  double size() const { return replays_ > 0 ? size_ / replays_ : 0; }
  double projection() const { return replays_ > 0 ? projection_ / replays_ : 0; }

 private:
  int replays_ = 0;
  double size_ = 0, projection_ = 0;
};

// A tensor's difference in units of what rounding makes.
struct Judgement {
  double size = 0;        // |d| / sqrt(2 V)
  double alpha = 0;       // the common factor is 1 + alpha
  double projection = 0;  // alpha / sqrt(2 P)
  double chance = 1;      // the smaller of both, for one test
};
// `difference`: a and b are what is judged. Chance 0 where something is not finite, or without
// replays.
Judgement judge(const Tally& difference, const Spread&);
// Of `tests` judgements, two to each, is this one explained?
bool explained(const Judgement&, std::size_t tests);

}  // namespace trireme
