#pragma once
// Decides whether rounding can explain the difference between two results. All functions are pure.
//
// Two computations that differ only in the order of their sums are two draws from one distribution.
// The width of this distribution is measured with n replays of the same work. In each replay all
// results are perturbed at random by the amount that rounding may change them (kernels/rounding).
// Each replay is compared with an unperturbed computation. Let x be a tensor of the unperturbed
// computation, and e_r the same tensor of replay r minus x. Let d = b - a be the difference to
// judge.
//
//   size        V = mean of |e_r|^2             |d|^2 should be about 2 V
//   projection  P = mean of (<e_r, x> / <x, x>)^2
//               alpha = <d, x> / <x, x> should have mean 0 and variance 2 P
//
// 1 + alpha is the least-squares estimate of the factor between the two results. The rounding
// errors of N elements are independent, except for errors that reach many elements at once. Thus
// alpha is up to sqrt(N) times smaller than the relative difference of a single element. The
// projection therefore detects a common factor that is too small to see in any element.
//
// V and P include the effect of rounding the results to their type, u^2 / 12 for an element with
// unit u in the last place, because two close numbers may round to different sides. If all elements
// move together, |d| / sqrt(2 V) is the magnitude of a Student's t with n degrees of freedom; the
// less they do, the closer it is to 1. alpha / sqrt(2 P) is a Student's t. So the chance that
// rounding gives a difference of this size is at most the probability of the distribution's two
// tails (Student 1908). A difference is explained if both chances, multiplied by the number of
// tests (Bonferroni), are above `false_alarm`.
#include <cstdint>

#include "lib/compare/tally.hpp"

namespace trireme {

// Probability that a comparison is reported as unexplained although only rounding caused the
// difference.
inline constexpr double false_alarm = 1e-6;
// Number of replays. More replays take longer. Fewer replays give wider tails of the
// t-distribution. With 12 replays and about 50 tensors, differences of at least 14 standard
// deviations are detected.
inline constexpr int rounding_replays = 12;

// Returns the probability that |t| or a larger magnitude occurs, for Student's t with n >= 1
// degrees of freedom. The function may return 0 for results below 1e-15.
double student_tails(double t, int n);

// Mean squared deviation of replays from the unperturbed computation.
class Spread {
 public:
  // Adds a replay. In the Tally, a is the unperturbed computation and b the replay.
  void add(const Tally&);
  int replays() const { return replays_; }
  double size() const { return replays_ > 0 ? size_ / replays_ : 0; }
  double projection() const { return replays_ > 0 ? projection_ / replays_ : 0; }

 private:
  int replays_ = 0;
  double size_ = 0, projection_ = 0;
};

// A tensor's difference, relative to the difference that rounding causes.
struct Judgement {
  double size = 0;        // |d| / sqrt(2 V)
  double alpha = 0;       // estimated common factor of the two results, minus 1
  double projection = 0;  // alpha / sqrt(2 P)
  double chance = 1;  // The smaller chance of the two tests that rounding gives this difference.
};
// Returns the judgement of the two results in `difference`. If a number is not finite or there are
// no replays, the chance is 0.
Judgement judge(const Tally& difference, const Spread&);
// Returns true if rounding explains the difference. `tests` is the number of judgements in the
// comparison. Each judgement makes two tests.
bool explained(const Judgement&, std::size_t tests);

}  // namespace trireme
