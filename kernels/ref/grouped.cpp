// Grouped matrix products: one Matmul for the rows of each expert.
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

}  // namespace trireme::ref
