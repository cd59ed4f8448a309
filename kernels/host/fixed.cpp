// Conversions between floating-point numbers and counts of quanta.
#include <cmath>

#include "kernels/host/kernels.hpp"
#include "kernels/host/quanta.hpp"

namespace trireme::host {

void run(const kernel::AddFixed& o, View) {
  expect(o.sum_N.count() == o.x_N.count() && o.sum_N.dense() && o.x_N.dense(),
         "add_fixed: of dense views of one size");
  for_chunks(o.x_N.count(), 4 * grain, [&](std::int64_t begin, std::int64_t end) {
    const float* x = data<float>(o.x_N) + begin;
    add_quanta(data<std::int64_t>(o.sum_N) + begin, o.how, x, end - begin);
    Largest largest;
    largest.take(x, end - begin);
    largest.put(o.largest);
  });
}

void run(const kernel::ReadFixed& o, View) {
  const auto& y = o.y_BTHD;
  const auto& sum = o.sum_BTHD;
  expect(y.dims == 4 && sum.dims == 4 && y.extent == sum.extent && sum.dtype == DType::i64 &&
             y.stride[3] == 1 && sum.stride[3] == 1,
         "read_fixed: of views of one shape with a dense last dim");
  const bool fits = fixed::fits_gradients(o.terms, *data<float>(o.largest));
  const float factor = fits ? std::ldexp(1.0F, -o.shift) : std::nanf("");
  const auto T = y.extent[1], H = y.extent[2], D = y.extent[3];
  by_type(y.dtype, "read_fixed", [&]<class E>(E) {
    for_rows(y.extent[0] * T, H * D, [&](std::int64_t begin, std::int64_t end) {
      for (auto row = begin; row < end; ++row)
        for (std::int64_t h = 0; h < H; ++h) {
          E* const to =
              data<E>(y) + row / T * y.stride[0] + row % T * y.stride[1] + h * y.stride[2];
          const auto* const from = data<std::int64_t>(sum) + row / T * sum.stride[0] +
                                   row % T * sum.stride[1] + h * sum.stride[2];
          for (std::int64_t d = 0; d < D; ++d) put(to[d], fixed::to_gradient(from[d]) * factor);
        }
    });
  });
}

}  // namespace trireme::host
