#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {

void run(const kernel::ColumnSum& o) {
  with_compute_type(o.x_TC.dtype, [&](auto t) {
    using T = decltype(t);
    const Elements<const T> x(o.x_TC);
    const Elements<Wide<T>> out(o.out_C);
    sum_over_rows(
        o.x_TC.extent[0], o.x_TC.extent[1], [&](auto row, auto c) { return x(row, c); },
        [&](auto c, double sum) { out.put(o.how == Accumulate::add ? out(c) + sum : sum, c); });
  });
}

void run(const kernel::SumSquares& o) {
  expect(o.out_N.dtype == DType::f64, "sum_squares: sums are f64");
  auto* out = reinterpret_cast<double*>(o.out_N.data);
  for (const auto& x_N : o.x) {
    expect(x_N.dense(), "sum_squares: of dense views");
    with_compute_type(x_N.dtype, [&](auto t) {
      const auto* x = reinterpret_cast<const decltype(t)*>(x_N.data);
      double sum = 0;
      for (std::int64_t i = 0; i < x_N.count(); ++i) sum += load(x[i]) * load(x[i]);
      *out++ = sum;
    });
  }
}

}  // namespace trireme::ref
