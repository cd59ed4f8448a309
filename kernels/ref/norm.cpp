// With n = (x - mean) rstd and g = dy w, the backward pass of the layer norm is
//   dx = rstd (g - mean over c of g - n mean over c of (g n)),  dw = sum_t dy n,  db = sum_t dy.
// The RMS norm uses the same formulas without the means of x and g.
#include <cmath>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {
namespace {

enum class Centre : std::uint8_t { mean, zero };

template <class T>
void forward(Centre centre, const kernel::Norm& o) {
  const auto rows = o.x_TC.extent[0], width = o.x_TC.extent[1];
  const Elements<const T> x(o.x_TC), w(o.w_C), bias(o.b_C);
  const Elements<T> y(o.y_TC);
  const Elements<Wide<T>> means(o.mean_T), rstds(o.rstd_T);
  for (std::int64_t t = 0; t < rows; ++t) {
    double mean = 0;
    if (centre == Centre::mean) {
      for (std::int64_t c = 0; c < width; ++c) mean += x(t, c);
      mean /= static_cast<double>(width);
    }
    double squares = 0;
    for (std::int64_t c = 0; c < width; ++c) squares += (x(t, c) - mean) * (x(t, c) - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(width) + o.eps);
    for (std::int64_t c = 0; c < width; ++c)
      y.put((x(t, c) - mean) * rstd * w(c) + (bias ? bias(c) : 0.0), t, c);
    if (means) means.put(mean, t);
    rstds.put(rstd, t);
  }
}

template <class T>
void backward(Centre centre, const kernel::NormGrad& o) {
  const auto rows = o.x_TC.extent[0], width = o.x_TC.extent[1];
  const auto how = o.how;
  const Elements<const T> dy(o.dy_TC), x(o.x_TC), w(o.w_C);
  const Elements<const Wide<T>> mean(o.mean_T), rstd(o.rstd_T);
  const Elements<Wide<T>> dw(o.dw_C), db(o.db_C);
  const Elements<T> dx(o.dx_TC);
  const auto normed = [&](std::int64_t t, std::int64_t c) {
    return (x(t, c) - (mean ? mean(t) : 0.0)) * rstd(t);
  };
  // dw and db are computed first, because dx may overwrite dy.
  if (dw)
    sum_over_rows(
        rows, width, [&](auto t, auto c) { return dy(t, c) * normed(t, c); },
        [&](auto c, double sum) { dw.put(how == Accumulate::add ? dw(c) + sum : sum, c); });
  if (db)
    sum_over_rows(
        rows, width, [&](auto t, auto c) { return dy(t, c); },
        [&](auto c, double sum) { db.put(how == Accumulate::add ? db(c) + sum : sum, c); });
  if (!dx) return;
  for (std::int64_t t = 0; t < rows; ++t) {
    double mean_g = 0, mean_gn = 0;
    for (std::int64_t c = 0; c < width; ++c) {
      const double g = dy(t, c) * w(c);
      mean_g += g;
      mean_gn += g * normed(t, c);
    }
    mean_g = centre == Centre::mean ? mean_g / static_cast<double>(width) : 0;
    mean_gn /= static_cast<double>(width);
    for (std::int64_t c = 0; c < width; ++c)
      dx.put(rstd(t) * (dy(t, c) * w(c) - mean_g - normed(t, c) * mean_gn), t, c);
  }
}

}  // namespace

void run(const kernel::Norm& o) {
  const auto centre = o.mean_T ? Centre::mean : Centre::zero;
  with_compute_type(o.x_TC.dtype, [&](auto t) { forward<decltype(t)>(centre, o); });
}

void run(const kernel::NormGrad& o) {
  if (o.dsum_TC) return kernel::NormGrad::in_steps(o, [](const auto& step) { run(step); });
  const auto centre = o.mean_T ? Centre::mean : Centre::zero;
  with_compute_type(o.x_TC.dtype, [&](auto t) { backward<decltype(t)>(centre, o); });
}

void run(const kernel::ResidualNorm& o) {
  kernel::ResidualNorm::in_steps(o, [](const auto& step) { run(step); });
}

}  // namespace trireme::ref
