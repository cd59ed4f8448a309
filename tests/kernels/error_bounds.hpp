#pragma once
// How far results of the contract's operations may be off, from the tested type and the lengths of
// sums.
#include <cmath>

#include "tests/support/contract.hpp"

namespace trireme {

// Of a norm over rows of |x| <= most and the largest rstd. With e = sum_error(C, 1), the relative
// error of a sum of C positive terms:
//   mean        e most
//   x - mean    that and a rounding of it: d
//   variance    relatively e, and 2 d / sqrt(variance) <= 2 d rstd
//   rstd        relatively half of that and a few roundings: rho
struct NormErrors {
  NormErrors(DType t, std::int64_t width, double rstd, double most)
      : u(roundoff(wide(t))),
        sum(sum_error(t, width, 1)),
        centred((sum + 2 * u) * most),
        rho(sum / 2 + centred * rstd + 6 * u),
        largest(2 * most * rstd),
        normal(rstd * centred + largest * (rho + 2 * u)) {}
  double u, sum, centred, rho;
  double largest;  // bound of n = (x - mean) rstd
  double normal;   // error of n

  // dw and db are sums over T rows of terms below max|n|; dx = rstd (g - mean(g) - n mean(g n))
  // with |g| <= 1, mean|g n| <= 1 has an error of rstd (1 + max|n|) times that of the means.
  double dx(double rstd) const { return rstd * (1 + largest) * (2 * sum + 12 * u); }
};

// Of the norm of skip + dropout(branch), whose sum is at most `size`: the sum is rounded to the
// compute type before its norm is taken, and what each step of two rounds, the one pass may keep.
struct ResidualErrors {
  ResidualErrors(DType t, std::int64_t width, double rstd_, double size) {
    const double u = roundoff(wide(t)), off = 4 * u * size + roundoff(t) * size;
    const NormErrors e(t, width, rstd_, size);
    const double relative = e.sum / 2 + (e.centred + 2 * off) * rstd_ + 6 * u;
    sum = 4 * u * size;
    mean = e.sum * size + off;
    rstd = relative * rstd_;
    y = rstd_ * (e.centred + 2 * off) + e.largest * (relative + 2 * u) + 4 * u * (e.largest + 1);
  }
  double sum, mean, rstd, y;
};

// Of the cross entropy of logits up to `amplitude`. exp(x - max): the difference is rounded, so e^
// is relatively off by that; a sum of positive terms adds sum_error; the log adds roundings of up
// to ln V + amplitude.
struct CrossEntropyErrors {
  CrossEntropyErrors(DType t, std::int64_t vocab, double amplitude) {
    const double u = roundoff(wide(t));
    relative = sum_error(t, vocab, 1) + 2 * u * amplitude + 4 * u;
    loss = relative + 4 * u * (std::log(static_cast<double>(vocab)) + 1);
  }
  double relative, loss;
};

}  // namespace trireme
