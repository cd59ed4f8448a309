#include <algorithm>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"
#include "kernels/ref/quanta.hpp"

namespace trireme::ref {
namespace {

const std::int32_t* ids_of(const ConstView& ids_T) {
  expect(ids_T.dtype == DType::i32 && ids_T.dense(), "token ids are dense i32");
  return reinterpret_cast<const std::int32_t*>(ids_T.data);
}

template <class T>
void embedding_as(const View& y_TC, const ConstView& ids_T, const ConstView& table_VC) {
  const Elements<T> y(y_TC);
  const Elements<const T> table(table_VC);
  const auto* ids = ids_of(ids_T);
  for (std::int64_t t = 0; t < y_TC.extent[0]; ++t) {
    expect(ids[t] >= 0 && ids[t] < table_VC.extent[0], "a token id lies in the vocabulary");
    for (std::int64_t c = 0; c < y_TC.extent[1]; ++c) y.at(t, c) = table.at(ids[t], c);
  }
}

// Adds all rows of an id, in double, when the loop reaches the first of these rows.
template <class T>
void embedding_grad_as(const View& dtable_VC, const ConstView& dy_TC, const ConstView& ids_T) {
  const Elements<Wide<T>> dtable(dtable_VC);
  const Elements<const T> dy(dy_TC);
  const auto *ids = ids_of(ids_T), *end = ids + dy_TC.extent[0];
  for (const auto* first = ids; first != end; ++first) {
    if (std::find(ids, first, *first) != first) continue;
    sum_over_rows(
        end - first, dy_TC.extent[1],
        [&](auto t, auto c) { return first[t] == *first ? dy(first - ids + t, c) : 0.0; },
        [&](auto c, double sum) { dtable.put(dtable(*first, c) + sum, *first, c); });
  }
}

void add_quanta(const kernel::EmbeddingGrad& o) {
  const Quanta dtable(o.dtable_VC, o.largest);
  const auto* ids = ids_of(o.ids_T);
  const auto width = o.dy_TC.extent[1];
  with_compute_type(o.dy_TC.dtype, [&](auto t) {
    const Elements<const decltype(t)> dy(o.dy_TC);
    for (std::int64_t row = 0; row < o.dy_TC.extent[0]; ++row)
      for (std::int64_t c = 0; c < width; ++c) dtable.add(ids[row] * width + c, dy(row, c));
  });
}

}  // namespace

void run(const kernel::Embedding& o) {
  with_compute_type(o.y_TC.dtype,
                    [&](auto t) { embedding_as<decltype(t)>(o.y_TC, o.ids_T, o.table_VC); });
}

void run(const kernel::EmbeddingGrad& o) {
  if (o.how == Accumulate::overwrite) run(kernel::Fill{.dst = o.dtable_VC, .value = 0});
  if (o.dtable_VC.dtype == DType::i64) return add_quanta(o);
  with_compute_type(o.dy_TC.dtype,
                    [&](auto t) { embedding_grad_as<decltype(t)>(o.dtable_VC, o.dy_TC, o.ids_T); });
}

}  // namespace trireme::ref
