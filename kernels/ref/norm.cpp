// With n = (x - mean) rstd and g = dy w, for the layer norm
//   dx = rstd (g - mean over c of g - n mean over c of (g n)),  dw = sum_t dy n,  db = sum_t dy
// and for the RMS norm the same without the means of x and g.
#include <cmath>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {
namespace {

enum class Centre : std::uint8_t { mean, zero };

// mean and b are absent for the RMS norm.
template <class T>
void norm_as(Centre centre, const View& y_TC, const View& mean_T, const View& rstd_T,
             const ConstView& x_TC, const ConstView& w_C, const ConstView& b_C, double eps) {
  const auto rows = x_TC.extent[0], width = x_TC.extent[1];
  const Elements<const T> x(x_TC), w(w_C), bias(b_C);
  const Elements<T> y(y_TC);
  const Elements<Wide<T>> means(mean_T), rstds(rstd_T);
  for (std::int64_t t = 0; t < rows; ++t) {
    double mean = 0;
    if (centre == Centre::mean) {
      for (std::int64_t c = 0; c < width; ++c) mean += x(t, c);
      mean /= static_cast<double>(width);
    }
    double squares = 0;
    for (std::int64_t c = 0; c < width; ++c) squares += (x(t, c) - mean) * (x(t, c) - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (std::int64_t c = 0; c < width; ++c)
      y.put((x(t, c) - mean) * rstd * w(c) + (bias ? bias(c) : 0.0), t, c);
    if (means) means.put(mean, t);
    rstds.put(rstd, t);
  }
}

template <class T>
void norm_grad_as(Centre centre, const View& dx_TC, const View& dw_C, const View& db_C,
                  Accumulate how, const ConstView& dy_TC, const ConstView& x_TC,
                  const ConstView& w_C, const ConstView& mean_T, const ConstView& rstd_T) {
  const auto rows = x_TC.extent[0], width = x_TC.extent[1];
  const Elements<const T> dy(dy_TC), x(x_TC), w(w_C);
  const Elements<const Wide<T>> mean(mean_T), rstd(rstd_T);
  const Elements<Wide<T>> dw(dw_C), db(db_C);
  const Elements<T> dx(dx_TC);
  const auto normed = [&](std::int64_t t, std::int64_t c) {
    return (x(t, c) - (mean ? mean(t) : 0.0)) * rstd(t);
  };
  // Before dx, which may be written over dy.
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

void layer_norm(View y, View mean, View rstd, ConstView x, ConstView w, ConstView b, double eps) {
  with_compute_type(
      x.dtype, [&](auto t) { norm_as<decltype(t)>(Centre::mean, y, mean, rstd, x, w, b, eps); });
}

void layer_norm_grad(View dx, View dw, View db, Accumulate how, ConstView dy, ConstView x,
                     ConstView w, ConstView mean, ConstView rstd) {
  with_compute_type(x.dtype, [&](auto t) {
    norm_grad_as<decltype(t)>(Centre::mean, dx, dw, db, how, dy, x, w, mean, rstd);
  });
}

void rms_norm(View y, View rstd, ConstView x, ConstView w, double eps) {
  with_compute_type(
      x.dtype, [&](auto t) { norm_as<decltype(t)>(Centre::zero, y, {}, rstd, x, w, {}, eps); });
}

void rms_norm_grad(View dx, View dw, Accumulate how, ConstView dy, ConstView x, ConstView w,
                   ConstView rstd) {
  with_compute_type(x.dtype, [&](auto t) {
    norm_grad_as<decltype(t)>(Centre::zero, dx, dw, {}, how, dy, x, w, {}, rstd);
  });
}

}  // namespace trireme::ref
