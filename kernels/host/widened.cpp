#include "kernels/host/widened.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/host/matrices.hpp"
#include "kernels/host/parallel.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

void widen(const View& dst, const ConstView& src) {
  if (!row_major(src)) return widen(dst.transposed(), src.transposed());
  const auto cols = src.extent[1];
  for_rows(src.extent[0], cols, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto* from = reinterpret_cast<const bf16*>(src.data) + i * src.stride[0];
      auto* to = reinterpret_cast<float*>(dst.data) + i * dst.stride[0];
      for (std::int64_t j = 0; j < cols; ++j) to[j] = static_cast<float>(from[j]);
    }
  });
}

// Computes c = bf16(sum + bias), or c = bf16(c + sum + bias).
void narrow(const View& c, const ConstView& sum, Accumulate how, const ConstView& bias) {
  const auto cols = c.extent[1];
  const auto* added = reinterpret_cast<const bf16*>(bias.data);
  for_rows(c.extent[0], cols, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto* from = reinterpret_cast<const float*>(sum.data) + i * sum.stride[0];
      auto* to = reinterpret_cast<bf16*>(c.data) + i * c.stride[0];
      if (how == Accumulate::add) {
        for (std::int64_t j = 0; j < cols; ++j) {
          const float b = added ? static_cast<float>(added[j]) : 0.0F;
          to[j] = bf16(static_cast<float>(to[j]) + (from[j] + b));
        }
      } else if (added) {
        for (std::int64_t j = 0; j < cols; ++j)
          to[j] = bf16(from[j] + static_cast<float>(added[j]));
      } else {
        for (std::int64_t j = 0; j < cols; ++j) to[j] = bf16(from[j]);
      }
    }
  });
}

struct Cut {
  std::int64_t length, block;  // the last block may be shorter
  std::int64_t size(std::int64_t begin) const { return std::min(block, length - begin); }
};

// Divides a length into blocks of about equal size, at most `edge`.
Cut cut(std::int64_t length, std::int64_t edge) {
  const auto count = (length + edge - 1) / edge;
  return {length, std::min(edge, ((length + count - 1) / count + 63) / 64 * 64)};
}

}  // namespace

Widened Widened::transposed() const {
  return {columns, rows, !by_rows,
          [other = widen](const View& to, std::int64_t row, std::int64_t column) {
            other(to.transposed(), column, row);
          }};
}

Widened widened_bf16(const ConstView& m) {
  return {m.extent[0], m.extent[1], row_major(m),
          [m](const View& to, std::int64_t row, std::int64_t column) {
            widen(to, part_of(m, row, to.extent[0], column, to.extent[1]));
          }};
}

void multiply_widened(const View& c, const Widened& a, const Widened& b, Accumulate how,
                      const ConstView& bias, const View& scratch, SumOrder order) {
  constexpr std::size_t for_primitive = 2 << 20;
  std::int64_t edge = 1024;
  const auto bytes = [&] { return 3 * static_cast<std::size_t>(edge * edge) * sizeof(float); };
  while (edge > 64 && bytes() + for_primitive > scratch.span_bytes()) edge /= 2;
  require(bytes() + for_primitive <= scratch.span_bytes(),
          "a product in bf16 or fp8 needs 3 MiB of scratch, got {} bytes", scratch.span_bytes());

  const auto block_bytes = edge * edge * static_cast<std::int64_t>(sizeof(float));
  const auto place = [&](int i, std::int64_t rows, std::int64_t cols, bool by_rows) {
    View v(scratch.data + i * block_bytes, DType::f32, Shape{rows, cols});
    if (!by_rows) v.stride = {1, rows, 0, 0, 0, 0};
    return v;
  };
  const View rest(scratch.data + 3 * block_bytes, DType::f32,
                  Shape{(static_cast<std::int64_t>(scratch.span_bytes()) - 3 * block_bytes) / 4});

  const auto ms = cut(c.extent[0], edge), ns = cut(c.extent[1], edge), ks = cut(a.columns, edge);
  View a_wide, b_wide;
  std::array<std::int64_t, 2> a_at{-1, -1}, b_at{-1, -1};  // blocks in a_wide and b_wide
  for (std::int64_t m = 0; m < ms.length; m += ms.block) {
    for (std::int64_t n = 0; n < ns.length; n += ns.block) {
      const auto c_block = part_of(c, m, ms.size(m), n, ns.size(n));
      const auto bias_block = bias ? bias.slice(0, n, ns.size(n)) : bias;
      const bool direct = c.dtype == DType::f32;
      const auto sum = direct ? c_block : place(2, ms.size(m), ns.size(n), true);
      for (std::int64_t k = 0; k < ks.length; k += ks.block) {
        if (a_at != std::array{m, k}) {
          a_at = {m, k};
          a_wide = place(0, ms.size(m), ks.size(k), a.by_rows);
          a.widen(a_wide, m, k);
        }
        if (b_at != std::array{k, n}) {
          b_at = {k, n};
          b_wide = place(1, ks.size(k), ns.size(n), b.by_rows);
          b.widen(b_wide, k, n);
        }
        const bool add = k > 0 || (direct && how == Accumulate::add);
        const auto into = add ? Accumulate::add : Accumulate::overwrite;
        const auto added = direct && k == 0 ? bias_block : ConstView{};
        multiply_f32({sum, a_wide, b_wide, into, added}, rest, order);
      }
      if (!direct) narrow(c_block, sum, how, bias_block);
    }
  }
}

}  // namespace trireme::host
