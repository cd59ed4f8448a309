#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"
#include "kernels/ref/quanta.hpp"

namespace trireme::ref {

static void add_quanta(const kernel::ColumnSum& o) {
  if (o.how == Accumulate::overwrite) run(kernel::Fill{.dst = o.out_C, .value = 0});
  const Quanta out(o.out_C, o.largest);
  with_compute_type(o.x_TC.dtype, [&](auto t) {
    const Elements<const decltype(t)> x(o.x_TC);
    for (std::int64_t row = 0; row < o.x_TC.extent[0]; ++row)
      for (std::int64_t c = 0; c < o.x_TC.extent[1]; ++c) out.add(c, x(row, c));
  });
}

void run(const kernel::ColumnSum& o) {
  if (o.out_C.dtype == DType::i64) return add_quanta(o);
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
    if (x_N.dtype == DType::i64) {
      const auto* x = reinterpret_cast<const std::int64_t*>(x_N.data);
      fixed::Int128 sum = 0;
      for (std::int64_t i = 0; i < x_N.count(); ++i)
        sum = fixed::capped_sum(sum, fixed::square_of(x[i]));
      for (const double limb : fixed::to_limbs(sum)) *out++ = limb;
      continue;
    }
    with_compute_type(x_N.dtype, [&](auto t) {
      const auto* x = reinterpret_cast<const decltype(t)*>(x_N.data);
      double sum = 0;
      for (std::int64_t i = 0; i < x_N.count(); ++i) sum += load(x[i]) * load(x[i]);
      *out++ = sum;
    });
  }
}

}  // namespace trireme::ref
