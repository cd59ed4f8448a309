#include "kernels/host/tiles.hpp"

#include <algorithm>

#include "kernels/host/parallel.hpp"

namespace trireme::host {
namespace {

constexpr std::int64_t large = 768;  // side of a large tile

// Returns the length of tiles. The length is a multiple of `unit`. It is at most `most` if `most`
// is a multiple of `unit`, too. The tiles have about equal lengths, except that the last may be
// shorter. If there are several tiles, their number is even, so that two threads share them evenly.
std::int64_t tile(std::int64_t length, std::int64_t most, std::int64_t unit) {
  auto count = (length + most - 1) / most;
  if (count > 1) count += count % 2;
  const auto each = (length + count - 1) / count;
  return (each + unit - 1) / unit * unit;
}

void add_rows(const View& c, const ConstView& bias) {
  const auto* const b = reinterpret_cast<const float*>(bias.data);
  for (std::int64_t i = 0; i < c.extent[0]; ++i) {
    auto* const row = reinterpret_cast<float*>(c.data) + i * c.stride[0];
    for (std::int64_t j = 0; j < c.extent[1]; ++j) row[j] += b[j];
  }
}

// Calls one(i) for each i below `count`. Each call runs on one thread.
template <class One>
void each_alone(std::int64_t count, const One& one) {
  if (count == 1) {
    const OneThread alone;
    return one(0);
  }
  for_chunks(count, 1, [&](std::int64_t i, std::int64_t) { one(i); });
}

}  // namespace

void multiply_in_tiles(const Product& p) {
  const auto M = p.c.extent[0], N = p.c.extent[1];
  // oneDNN copies the operands of large tiles first, but not those of small tiles. Without the
  // copy, a product is slow if `a` is stored in columns.
  const bool copied = p.a.stride[1] != 1 && std::min(M, N) >= large && M * N >= 4 * large * large;
  const auto cols = tile(N, copied ? large : 384, 24);
  auto rows = tile(M, copied ? large : 192, 8);
  const bool worth_two = M * N * p.a.extent[1] >= 1 << 22;
  if (rows >= M && cols >= N && worth_two) rows = tile(M, (M + 1) / 2, 8);
  const auto across = (N + cols - 1) / cols, down = (M + rows - 1) / rows;
  const auto one = [&](std::int64_t i) {
    const auto m = i / across * rows, n = i % across * cols;
    const auto part = p.rows(m, std::min(rows, M - m)).columns(n, std::min(cols, N - n));
    onednn::sgemm(part.c, part.a, part.b, part.how);
    if (part.bias) add_rows(part.c, part.bias);
  };
  each_alone(across * down, one);
}

void multiply_in_blocks(const Product& p, Block kind) {
  const auto M = p.c.extent[0], N = p.c.extent[1];
  // A block takes at least a tenth of a millisecond, and there are enough blocks for several
  // threads. If `a` is stored in columns, blocks are long, because oneDNN copies `a` only for long
  // blocks.
  constexpr std::int64_t worth_two = 1 << 21, worth_one = 1 << 26, most = 32, unit = 64;
  const auto size = M * N * p.a.extent[1], length = std::max(M, N);
  const auto many = p.a.stride[1] == 1 ? most : std::min(most, length / large / 2 * 2);
  auto count = std::min(size / worth_one, many);
  count = std::max<std::int64_t>(count, size < worth_two ? 1 : 2);
  const auto each = ((length + count - 1) / count + unit - 1) / unit * unit;
  count = (length + each - 1) / each;
  each_alone(count, [&](std::int64_t i) {
    const auto begin = i * each, n = std::min(each, length - begin);
    const auto part = N >= M ? p.columns(begin, n) : p.rows(begin, n);
    if (kind == Block::primitive)
      onednn::matmul_alone(part);
    else
      onednn::sgemm(part.c, part.a, part.b, part.how);
  });
}

}  // namespace trireme::host
