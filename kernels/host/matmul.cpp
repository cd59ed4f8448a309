// c_MN = a_MK b_KN. The method depends only on the shape of the product, so the bits are the same
// each time. The methods were chosen by measurements on transformers (M, N, K from 128 to 50304).
// oneDNN may divide K of a small product among several threads. SumOrder::by_shape computes each
// block on one thread instead.
#include <algorithm>
#include <cstring>

#include "kernels/host/few_rows.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/matrices.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/tiles.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

std::int64_t half(std::int64_t n) {
  return (n / 2 + 63) / 64 * 64;
}

// Multiplies with the primitive. If the primitive needs more scratch than there is, the function
// halves the longer side.
void by_primitive(const Product& p, const View& scratch) {
  const auto rows = p.c.extent[0], cols = p.c.extent[1];
  const auto wanted = onednn::matmul_scratch(p);
  if (wanted <= scratch.span_bytes()) {
    onednn::matmul(p, scratch);
  } else if (rows >= cols && rows > 64) {
    const auto m = half(rows);
    by_primitive(p.rows(0, m), scratch);
    by_primitive(p.rows(m, rows - m), scratch);
  } else {
    require(cols > 64, "matmul: a block [{}, {}, {}] needs {} bytes of scratch, but there are {}",
            rows, cols, p.a.extent[1], wanted, scratch.span_bytes());
    const auto n = half(cols);
    by_primitive(p.columns(0, n), scratch);
    by_primitive(p.columns(n, cols - n), scratch);
  }
}

// x W' is fastest with the primitive, and dy W with sgemm. dy' x is fastest with the primitive if
// the result is large and tall. Both methods give a row the same bits, whatever other rows the
// product has. The exception is sgemm with a single row.
void multiply_f32(const Product& p, const View& scratch, SumOrder order) {
  if (!onednn::same_in_every_place()) return multiply_in_tiles(p);
  const auto M = p.c.extent[0], N = p.c.extent[1];
  const bool forward = row_major(p.a) && !row_major(p.b);
  const bool tall = !row_major(p.a) && row_major(p.b) && M >= N && M * N >= (1 << 19);
  const bool primitive = p.bias || forward || tall;
  if (order == SumOrder::by_shape) {
    multiply_in_blocks(p, primitive ? Block::primitive : Block::sgemm);
  } else if (primitive) {
    by_primitive(p, scratch);
  } else {
    onednn::sgemm(p.c, p.a, p.b, p.how);
  }
}

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

// Multiplies bf16 in blocks that are converted to f32. This is used where it is faster than the
// CPU's own bf16 products. Products of bf16 are exact in f32, so only the order of the sum differs.
void multiply_widened(const Product& p, const View& scratch, SumOrder order) {
  const auto& [c, a, b, how, bias] = p;
  constexpr std::size_t for_primitive = 2 << 20;
  std::int64_t edge = 1024;
  const auto bytes = [&] { return 3 * static_cast<std::size_t>(edge * edge) * sizeof(float); };
  while (edge > 64 && bytes() + for_primitive > scratch.span_bytes()) edge /= 2;
  require(bytes() + for_primitive <= scratch.span_bytes(),
          "matmul: bf16 needs 3 MiB of scratch, got {} bytes", scratch.span_bytes());

  const auto block_bytes = edge * edge * static_cast<std::int64_t>(sizeof(float));
  const auto place = [&](int i, std::int64_t rows, std::int64_t cols, bool by_rows) {
    View v(scratch.data + i * block_bytes, DType::f32, Shape{rows, cols});
    if (!by_rows) v.stride = {1, rows, 0, 0, 0, 0};
    return v;
  };
  const View rest(scratch.data + 3 * block_bytes, DType::f32,
                  Shape{(static_cast<std::int64_t>(scratch.span_bytes()) - 3 * block_bytes) / 4});

  const auto ms = cut(c.extent[0], edge), ns = cut(c.extent[1], edge), ks = cut(a.extent[1], edge);
  View a_wide, b_wide;
  std::array<std::int64_t, 2> a_at{-1, -1}, b_at{-1, -1};  // blocks in a_wide and b_wide
  for (std::int64_t m = 0; m < ms.length; m += ms.block) {
    for (std::int64_t n = 0; n < ns.length; n += ns.block) {
      const auto c_block = c.slice(0, m, ms.size(m)).slice(1, n, ns.size(n));
      const bool direct = c.dtype == DType::f32;
      const auto sum = direct ? c_block : place(2, ms.size(m), ns.size(n), true);
      for (std::int64_t k = 0; k < ks.length; k += ks.block) {
        if (a_at != std::array{m, k}) {
          a_at = {m, k};
          a_wide = place(0, ms.size(m), ks.size(k), row_major(a));
          widen(a_wide, a.slice(0, m, ms.size(m)).slice(1, k, ks.size(k)));
        }
        if (b_at != std::array{k, n}) {
          b_at = {k, n};
          b_wide = place(1, ks.size(k), ns.size(n), row_major(b));
          widen(b_wide, b.slice(0, k, ks.size(k)).slice(1, n, ns.size(n)));
        }
        const bool add = k > 0 || (direct && how == Accumulate::add);
        const auto into = add ? Accumulate::add : Accumulate::overwrite;
        multiply_f32({sum, a_wide, b_wide, into}, rest, order);
      }
      if (!direct) {
        narrow(c_block, sum, how, bias ? bias.slice(0, n, ns.size(n)) : bias);
      }
    }
  }
}

void clear(const View& c) {
  for (std::int64_t i = 0; i < c.extent[0]; ++i) {
    const auto row = c.slice(0, i, 1);
    std::memset(row.data, 0, row.span_bytes());
  }
}

}  // namespace

bool bf16_products() {
  return onednn::multiplies_bf16();
}

void run(const kernel::Matmul& o, View scratch) {
  const auto& [c_MN, a_MK, b_KN, how, epilogue, order] = o;
  const auto& bias = epilogue.bias_N;
  const auto M = c_MN.extent[0], N = c_MN.extent[1], K = a_MK.extent[1];
  require(a_MK.extent[0] == M && b_KN.extent[0] == K && b_KN.extent[1] == N,
          "matmul: [{}, {}] x [{}, {}] does not give [{}, {}]", a_MK.extent[0], K, b_KN.extent[0],
          b_KN.extent[1], M, N);
  require(a_MK.dtype == b_KN.dtype && (c_MN.dtype == a_MK.dtype || c_MN.dtype == DType::f32),
          "matmul: {} x {} -> {} is not supported: both operands must have the same type, and the "
          "result that type or f32",
          name_of(a_MK.dtype), name_of(b_KN.dtype), name_of(c_MN.dtype));
  require(!bias || (bias.dtype == c_MN.dtype && bias.extent[0] == N && bias.dense() &&
                    c_MN.dtype == a_MK.dtype),
          "matmul: a bias must have {} dense elements of the type of operands and result", N);
  if (M == 0 || N == 0) return;
  const auto c = normal(c_MN, "c");
  if (!row_major(c)) {
    require(!bias, "matmul: a bias needs a row-major result");
    run(kernel::Matmul{.c_MN = c.transposed(),
                       .a_MK = b_KN.transposed(),
                       .b_KN = a_MK.transposed(),
                       .how = how,
                       .order = order},
        scratch);
  } else if (K == 0) {
    require(!bias, "matmul: a bias needs operands that are not empty");
    if (how == Accumulate::overwrite) clear(c);
  } else {
    const Product product{c, normal(a_MK, "a"), normal(b_KN, "b"), how, bias};
    if (order == SumOrder::by_row) {
      multiply_few_rows(product);
    } else if (a_MK.dtype == DType::f32) {
      multiply_f32(product, scratch, order);
    } else if (!onednn::multiplies_bf16_fast()) {
      multiply_widened(product, scratch, order);
    } else if (order == SumOrder::by_shape) {
      multiply_in_blocks(product, Block::primitive);
    } else {
      by_primitive(product, scratch);
    }
  }
  if (epilogue.activated_MN)
    run(
        kernel::Activate{
            .activation = epilogue.activation, .y_N = epilogue.activated_MN, .x_N = c_MN},
        scratch);
  if (epilogue.activated_at_MN)
    run(kernel::ActivateGrad{.activation = epilogue.activation,
                             .dx_N = c_MN,
                             .dy_N = c_MN,
                             .x_N = epilogue.activated_at_MN},
        scratch);
  if (epilogue.row_sum_M)
    run(kernel::ColumnSum{.out_C = epilogue.row_sum_M, .how = how, .x_TC = a_MK.transposed()},
        scratch);
}

}  // namespace trireme::host
