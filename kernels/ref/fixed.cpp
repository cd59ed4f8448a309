// Conversions between floating-point numbers and counts of quanta.
#include <cmath>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"
#include "kernels/ref/quanta.hpp"

namespace trireme::ref {

void run(const kernel::AddFixed& o) {
  expect(o.sum_N.count() == o.x_N.count() && o.sum_N.dense() && o.x_N.dense(),
         "add_fixed: of dense views of one size");
  if (o.how == Accumulate::overwrite) run(kernel::Fill{.dst = o.sum_N, .value = 0});
  const Quanta sum(o.sum_N, o.largest);
  const auto* x = reinterpret_cast<const float*>(o.x_N.data);
  for (std::int64_t i = 0; i < o.x_N.count(); ++i) sum.add(i, x[i]);
}

void run(const kernel::ReadFixed& o) {
  const bool fits = fixed::fits_gradients(o.terms, *reinterpret_cast<const float*>(o.largest.data));
  const auto& n = o.y_BTHD.extent;
  const Elements<const std::int64_t> sum(o.sum_BTHD);
  with_compute_type(o.y_BTHD.dtype, [&](auto type) {
    const Elements<decltype(type)> y(o.y_BTHD);
    for (std::int64_t b = 0; b < n[0]; ++b)
      for (std::int64_t t = 0; t < n[1]; ++t)
        for (std::int64_t h = 0; h < n[2]; ++h)
          for (std::int64_t d = 0; d < n[3]; ++d) {
            const float x = std::ldexp(fixed::to_gradient(sum.at(b, t, h, d)), -o.shift);
            y.put(fits ? x : std::nan(""), b, t, h, d);
          }
  });
}

}  // namespace trireme::ref
