// Grouped matrix products: one Matmul for the rows of each expert. Biases of experts.
#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"
#include "kernels/ref/quanta.hpp"

namespace trireme::ref {
namespace {

// Calls f(expert, first row, number of rows) for each expert.
template <class F>
void each_group(const ConstView& offset_E1, std::size_t experts, const F& f) {
  expect(offset_E1.dtype == DType::i32 && offset_E1.dense() &&
             offset_E1.extent[0] == static_cast<std::int64_t>(experts) + 1,
         "offsets of groups are dense i32, one more than groups");
  const auto* offset = reinterpret_cast<const std::int32_t*>(offset_E1.data);
  for (std::size_t e = 0; e < experts; ++e) f(e, offset[e], offset[e + 1] - offset[e]);
}

template <class Sum>
void add_counts(const kernel::GroupedMatmulGrad& o, const View& c, const View& largest,
                std::int64_t begin, std::int64_t rows) {
  const auto* token = reinterpret_cast<const std::int32_t*>(o.token_R.data);
  const Quanta counts(c, largest);
  std::vector<Sum> product(static_cast<std::size_t>(c.count()));
  const View leaf(reinterpret_cast<std::byte*>(product.data()), dtype_of<Sum>,
                  {c.extent[0], c.extent[1]});
  for (std::int64_t first = begin, end = begin; first < begin + rows; first = end) {
    while (end < begin + rows && token[end] / o.leaf == token[first] / o.leaf) ++end;
    run(kernel::Matmul{.c_MN = leaf,
                       .a_MK = o.a_RM.slice(0, first, end - first).transposed(),
                       .b_KN = o.b_RN.slice(0, first, end - first)});
    for (std::int64_t i = 0; i < c.count(); ++i)
      counts.add(i, product[static_cast<std::size_t>(i)]);
  }
}

template <class T>
void add_biases(const kernel::GroupedBias& o) {
  const Elements<T> y(o.y_RN);
  const Elements<const Wide<T>> weight(o.weight_R);
  each_group(o.offset_E1, o.bias_N.size(), [&](std::size_t e, std::int64_t begin, auto rows) {
    const Elements<const T> bias(o.bias_N[e]);
    for (auto r = begin; r < begin + rows; ++r)
      for (std::int64_t n = 0; n < o.y_RN.extent[1]; ++n)
        y.put(y(r, n) + (weight ? weight(r) : 1) * bias(n), r, n);
  });
}

// Computes the gradient of one expert's bias from rows [begin, begin + rows).
template <class T>
void add_bias_gradient(const kernel::GroupedBiasGrad& o, std::size_t e, std::int64_t begin,
                       std::int64_t rows) {
  const View& to = o.dbias_N[e];
  const Elements<const T> dy(o.dy_RN);
  const Elements<const Wide<T>> weight(o.weight_R);
  const auto term = [&](std::int64_t r, std::int64_t n) {
    return (weight ? weight(begin + r) : 1) * dy(begin + r, n);
  };
  if (to.dtype == DType::i64) {
    if (o.how == Accumulate::overwrite) run(kernel::Fill{.dst = to, .value = 0});
    const Quanta sum(to, o.largest[e]);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t n = 0; n < to.count(); ++n) sum.add(n, term(r, n));
    return;
  }
  const Elements<Wide<T>> dbias(to);
  sum_over_rows(rows, to.count(), term, [&](std::int64_t n, double sum) {
    dbias.put(o.how == Accumulate::add ? dbias(n) + sum : sum, n);
  });
}

template <class T>
void add_weight_gradients(const kernel::GroupedBiasGrad& o) {
  const Elements<const T> dy(o.dy_RN);
  const Elements<Wide<T>> dweight(o.dweight_R);
  each_group(o.offset_E1, o.bias_N.size(), [&](std::size_t e, std::int64_t begin, auto rows) {
    const Elements<const T> bias(o.bias_N[e]);
    for (auto r = begin; r < begin + rows; ++r) {
      double sum = dweight(r);
      for (std::int64_t n = 0; n < o.dy_RN.extent[1]; ++n) sum += dy(r, n) * bias(n);
      dweight.put(sum, r);
    }
  });
}

}  // namespace

void run(const kernel::GroupedMatmul& o) {
  each_group(o.offset_E1, o.b_KN.size(), [&](std::size_t e, std::int64_t begin, std::int64_t rows) {
    if (rows > 0)
      run(kernel::Matmul{.c_MN = o.c_RN.slice(0, begin, rows),
                         .a_MK = o.a_RK.slice(0, begin, rows),
                         .b_KN = o.b_KN[e]});
  });
}

void run(const kernel::GroupedMatmulGrad& o) {
  each_group(o.offset_E1, o.c_MN.size(), [&](std::size_t e, std::int64_t begin, std::int64_t rows) {
    const View& c = o.c_MN[e];
    if (!c) return;
    const bool counts = c.dtype == DType::i64;
    if ((rows == 0 || counts) && o.how == Accumulate::overwrite)
      run(kernel::Fill{.dst = c, .value = 0});
    if (counts)
      return with_compute_type(o.a_RM.dtype, [&](auto t) {
        add_counts<Wide<decltype(t)>>(o, c, o.largest[e], begin, rows);
      });
    if (rows > 0)
      run(kernel::Matmul{.c_MN = c,
                         .a_MK = o.a_RM.slice(0, begin, rows).transposed(),
                         .b_KN = o.b_RN.slice(0, begin, rows),
                         .how = o.how});
  });
}

void run(const kernel::GroupedBias& o) {
  with_compute_type(o.y_RN.dtype, [&](auto t) { add_biases<decltype(t)>(o); });
}

void run(const kernel::GroupedBiasGrad& o) {
  with_compute_type(o.dy_RN.dtype, [&](auto t) {
    if (!o.dbias_N.empty())
      each_group(o.offset_E1, o.dbias_N.size(), [&](std::size_t e, std::int64_t begin, auto rows) {
        if (o.dbias_N[e]) add_bias_gradient<decltype(t)>(o, e, begin, rows);
      });
    if (o.dweight_R) add_weight_gradients<decltype(t)>(o);
  });
}

}  // namespace trireme::ref
