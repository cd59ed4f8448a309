// Biases of experts and their gradients. R rows, sorted by expert, N columns.
#include <algorithm>
#include <array>

#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/quanta.hpp"

namespace trireme::host {
namespace {

// Columns that one thread sums over all rows of an expert.
constexpr std::int64_t piece_columns = 4 * block_size;

// Calls f(row, expert) for each row in parallel. `width` is the number of elements of a row.
template <class F>
void each_row(const ConstView& offset_E1, std::int64_t width, const F& f) {
  const auto* offset = data<std::int32_t>(offset_E1);
  const auto experts = offset_E1.extent[0] - 1;
  for_rows(std::int64_t{offset[experts]}, width, [&](std::int64_t begin, std::int64_t end) {
    auto e = std::upper_bound(offset, offset + experts, begin) - offset - 1;
    for (auto r = begin; r < end; ++r) {
      while (offset[e + 1] <= r) ++e;
      f(r, static_cast<std::size_t>(e));
    }
  });
}

float weight_of(const ConstView& weight_R, std::int64_t r) {
  return weight_R ? data<float>(weight_R)[r] : 1.0F;
}

template <class T>
void add_biases(const kernel::GroupedBias& o) {
  const auto width = o.y_RN.extent[1];
  each_row(o.offset_E1, width, [&](std::int64_t r, std::size_t e) {
    const float weight = weight_of(o.weight_R, r);
    const auto body = [weight](T* y, const T* bias) {
#pragma omp simd
      for (int l = 0; l < block_size; ++l)
        put(y[l], static_cast<float>(y[l]) + weight * static_cast<float>(bias[l]));
    };
    for_blocks(width, body, data<T>(o.y_RN) + r * width, data<T>(o.bias_N[e]));
  });
}

// Columns [column, column + columns) of an expert's bias, and the rows of the expert.
struct Piece {
  std::size_t expert;
  std::int64_t begin, end, column, columns;
};

// Computes weight * dy of a row in f32.
template <class T>
void take_terms(std::array<float, piece_columns>& terms, const kernel::GroupedBiasGrad& o,
                std::int64_t r, const Piece& p) {
  const T* dy = data<T>(o.dy_RN) + r * o.dy_RN.extent[1] + p.column;
  const float weight = weight_of(o.weight_R, r);
#pragma omp simd
  for (std::int64_t i = 0; i < p.columns; ++i)
    terms[static_cast<std::size_t>(i)] = weight * static_cast<float>(dy[i]);
}

template <class T>
void count_rows(const kernel::GroupedBiasGrad& o, const Piece& p) {
  auto* const to = data<std::int64_t>(o.dbias_N[p.expert]) + p.column;
  if (o.how == Accumulate::overwrite) std::fill_n(to, p.columns, std::int64_t{0});
  std::array<float, piece_columns> terms{};
  Largest largest;
  for (auto r = p.begin; r < p.end; ++r) {
    take_terms<T>(terms, o, r, p);
    add_quanta(to, Accumulate::add, terms.data(), p.columns);
    largest.take(terms.data(), p.columns);
  }
  largest.put(o.largest[p.expert]);
}

// Sums in double, in the order of the rows.
template <class T>
void sum_rows(const kernel::GroupedBiasGrad& o, const Piece& p) {
  auto* const to = data<float>(o.dbias_N[p.expert]) + p.column;
  std::array<float, piece_columns> terms{};
  std::array<double, piece_columns> sum{};
  if (o.how == Accumulate::add) std::copy_n(to, p.columns, sum.data());
  for (auto r = p.begin; r < p.end; ++r) {
    take_terms<T>(terms, o, r, p);
#pragma omp simd
    for (std::size_t i = 0; i < piece_columns; ++i) sum[i] += static_cast<double>(terms[i]);
  }
  for (std::int64_t i = 0; i < p.columns; ++i)
    to[i] = static_cast<float>(sum[static_cast<std::size_t>(i)]);
}

template <class T>
void add_bias_gradients(const kernel::GroupedBiasGrad& o) {
  const auto* offset = data<std::int32_t>(o.offset_E1);
  const auto width = o.dy_RN.extent[1], across = (width + piece_columns - 1) / piece_columns;
  share(std::ssize(o.dbias_N) * across, [&](std::int64_t unit, std::int64_t) {
    const auto e = static_cast<std::size_t>(unit / across);
    const View& to = o.dbias_N[e];
    if (!to) return;
    const auto column = unit % across * piece_columns;
    const Piece p{e, offset[e], offset[e + 1], column, std::min(piece_columns, width - column)};
    to.dtype == DType::i64 ? count_rows<T>(o, p) : sum_rows<T>(o, p);
  });
}

template <class T>
void add_weight_gradients(const kernel::GroupedBiasGrad& o) {
  const auto width = o.dy_RN.extent[1];
  each_row(o.offset_E1, width, [&](std::int64_t r, std::size_t e) {
    Lanes<float> sums(0);  // the padding of a row's last block adds zeros
    const auto body = [&sums](const T* dy, const T* bias) {
#pragma omp simd
      for (int l = 0; l < block_size; ++l)
        sums[l] += static_cast<float>(dy[l]) * static_cast<float>(bias[l]);
    };
    for_blocks(width, body, data<T>(o.dy_RN) + r * width, data<T>(o.bias_N[e]));
    data<float>(o.dweight_R)[r] += sums.sum();
  });
}

}  // namespace

void run(const kernel::GroupedBias& o, View) {
  by_type(o.y_RN.dtype, "grouped_bias", [&]<class T>(T) { add_biases<T>(o); });
}

void run(const kernel::GroupedBiasGrad& o, View) {
  by_type(o.dy_RN.dtype, "grouped_bias_grad", [&]<class T>(T) {
    add_bias_gradients<T>(o);
    if (o.dweight_R) add_weight_gradients<T>(o);
  });
}

}  // namespace trireme::host
