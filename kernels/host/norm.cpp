// Layer norm and RMS norm. T rows, C width. RMS norm is layer norm with 0 in place of the mean, and
// the view of the mean is absent.
#include "kernels/host/kernels.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/math/rsqrt.hpp"

namespace trireme::host {
namespace {

template <class T>
void normalise(const kernel::Norm& o) {
  const auto& [y_TC, mean_T, rstd_T, x_TC, w_C, b_C, eps] = o;
  const auto width = x_TC.extent[1];
  const auto count = static_cast<float>(width);
  const T *w = data<T>(w_C), *b = data<T>(b_C);
  for_rows(x_TC.extent[0], width, [&](std::int64_t begin, std::int64_t end) {
    for (auto t = begin; t < end; ++t) {
      const T* x = data<T>(x_TC) + t * width;
      T* y = data<T>(y_TC) + t * width;
      float mean = 0;
      if (mean_T) {
        Lanes<float> total(0);
        for_lanes(width, [&](auto i, auto l) { total[l] += static_cast<float>(x[i]); });
        data<float>(mean_T)[t] = mean = total.sum() / count;
      }
      Lanes<float> squares(0);
      for_lanes(width, [&](auto i, auto l) {
        const float d = static_cast<float>(x[i]) - mean;
        squares[l] += d * d;
      });
      const float rstd = math::rsqrt(squares.sum() / count + static_cast<float>(eps));
      data<float>(rstd_T)[t] = rstd;
      if (b) {
        for_lanes(width, [&](auto i, auto) {
          const float normal = (static_cast<float>(x[i]) - mean) * rstd;
          put(y[i], normal * static_cast<float>(w[i]) + static_cast<float>(b[i]));
        });
      } else {
        for_lanes(width, [&](auto i, auto) {
          const float normal = (static_cast<float>(x[i]) - mean) * rstd;
          put(y[i], normal * static_cast<float>(w[i]));
        });
      }
    }
  });
}

// Computes one row of the gradients. With the normalised row n = (x - mean) rstd and g = dy w:
//   dx = rstd (g - average(g) - n average(g n)), dw += dy n, db += dy
// dw and db are the sums of the row's chunk so far, or null if they are not needed. w may be null
// if dx is.
template <class T>
void gradient_row(T* dx, float* dw, float* db, const T* dy, const T* x, const T* w, float mean,
                  float rstd, bool centred, std::int64_t width) {
  Lanes<float> g_sum(0), gn_sum(0);
  const auto add_sums = [&](auto i, auto l) {
    const float g = static_cast<float>(dy[i]) * static_cast<float>(w[i]);
    g_sum[l] += g;
    gn_sum[l] += g * ((static_cast<float>(x[i]) - mean) * rstd);
  };
  const auto add_weights = [&](auto i) {
    dw[i] += static_cast<float>(dy[i]) * ((static_cast<float>(x[i]) - mean) * rstd);
    db[i] += static_cast<float>(dy[i]);
  };
  if (dw && !dx)
    for_lanes(width, [&](auto i, auto) { add_weights(i); });
  else if (dw)
    for_lanes(width, [&](auto i, auto l) {
      add_sums(i, l);
      add_weights(i);
    });
  else
    for_lanes(width, add_sums);
  if (!dx) return;
  const auto count = static_cast<float>(width);
  const float g_mean = centred ? g_sum.sum() / count : 0.0F, gn_mean = gn_sum.sum() / count;
  for_lanes(width, [&](auto i, auto) {
    const float g = static_cast<float>(dy[i]) * static_cast<float>(w[i]);
    const float n = (static_cast<float>(x[i]) - mean) * rstd;
    put(dx[i], rstd * (g - g_mean - n * gn_mean));
  });
}

template <class T>
void gradients(const kernel::NormGrad& o, const View& scratch) {
  const auto& [dx_TC, dw_C, db_C, how, dsum_TC, dy_TC, x_TC, w_C, mean_T, rstd_T] = o;
  const auto rows = x_TC.extent[0], width = x_TC.extent[1];
  const auto run_row = [&](std::int64_t t, float* dw, float* db) {
    const auto at = t * width;
    gradient_row(dx_TC ? data<T>(dx_TC) + at : nullptr, dw, db, data<T>(dy_TC) + at,
                 data<T>(x_TC) + at, data<T>(w_C), mean_T ? data<float>(mean_T)[t] : 0.0F,
                 data<float>(rstd_T)[t], static_cast<bool>(mean_T), width);
  };
  if (!dw_C && !db_C) {
    for_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
      for (auto t = begin; t < end; ++t) run_row(t, nullptr, nullptr);
    });
    return;
  }
  float* parts = data<float>(scratch);  // for each chunk dw, then db
  each_round(rows, 2 * width, scratch, [&](std::int64_t first, std::int64_t last, std::int64_t n) {
    for_chunks(last - first, rows_per_chunk, [&](std::int64_t begin, std::int64_t end) {
      float* dw = parts + begin / rows_per_chunk * 2 * width;
      std::fill_n(dw, 2 * width, 0.0F);
      for (auto t = first + begin; t < first + end; ++t) run_row(t, dw, dw + width);
    });
    const auto so_far = first == 0 ? how : Accumulate::add;
    if (dw_C) combine(data<float>(dw_C), so_far, parts, 2 * width, n, width);
    if (db_C) combine(data<float>(db_C), so_far, parts + width, 2 * width, n, width);
  });
}

}  // namespace

void run(const kernel::Norm& o, View) {
  by_type(o.x_TC.dtype, "norm", [&]<class T>(T) { normalise<T>(o); });
}

void run(const kernel::NormGrad& o, View scratch) {
  if (o.dsum_TC)
    return kernel::NormGrad::in_steps(o, [&](const auto& step) { run(step, scratch); });
  by_type(o.x_TC.dtype, "norm_grad", [&]<class T>(T) { gradients<T>(o, scratch); });
}

void run(const kernel::ResidualNorm& o, View scratch) {
  kernel::ResidualNorm::in_steps(o, [&](const auto& step) { run(step, scratch); });
}

}  // namespace trireme::host
