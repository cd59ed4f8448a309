#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {

void column_sum(View out_C, Accumulate how, ConstView x_TC) {
  with_compute_type(x_TC.dtype, [&](auto t) {
    using T = decltype(t);
    const Elements<const T> x(x_TC);
    const Elements<Wide<T>> out(out_C);
    sum_over_rows(
        x_TC.extent[0], x_TC.extent[1], [&](auto row, auto c) { return x(row, c); },
        [&](auto c, double sum) { out.put(how == Accumulate::add ? out(c) + sum : sum, c); });
  });
}

void sum_squares(View out, ConstView x_N) {
  expect(out.dtype == DType::f64 && x_N.dense(), "sum_squares: dense to one f64");
  with_compute_type(x_N.dtype, [&](auto t) {
    const auto* x = reinterpret_cast<const decltype(t)*>(x_N.data);
    double sum = 0;
    for (std::int64_t i = 0; i < x_N.count(); ++i) sum += load(x[i]) * load(x[i]);
    *reinterpret_cast<double*>(out.data) = sum;
  });
}

}  // namespace trireme::ref
