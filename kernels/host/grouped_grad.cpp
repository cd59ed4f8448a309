// Weight gradients with one matrix for each expert: c[e] = a' b over the expert's rows. The number
// of these rows differs from call to call. c is divided into pieces, and each piece is computed on
// one thread. Products of few rows, and of leaves, do not use oneDNN, so that the bits of an
// element depend only on those rows.
#include <cstring>
#include <vector>

#include "kernels/host/kernels.hpp"
#include "kernels/host/matrices.hpp"
#include "kernels/host/packed_tile.hpp"
#include "kernels/host/quanta.hpp"

namespace trireme::host {
namespace {

enum class Way : std::uint8_t { tile, sgemm, primitive };

struct Piece {
  std::size_t expert;
  Way way;
  std::int64_t row, rows, column, columns;  // part of c
};

// A primitive computes a block of c with sides of at most `block_side`. It adds up to `block_depth`
// rows of the expert at a time, padded with zeros to a multiple of `depth_step`.
constexpr std::int64_t block_side = 256, block_depth = 256, depth_step = 32;
constexpr std::int64_t block_bytes = 2 * block_depth * block_side * std::int64_t{sizeof(bf16)} +
                                     block_side * block_side * std::int64_t{sizeof(float)};
constexpr std::int64_t tile_bytes = tile_floats * std::int64_t{sizeof(float)};

class Pieces {
 public:
  explicit Pieces(const kernel::GroupedMatmulGrad& o) {
    const auto* offset = data<std::int32_t>(o.offset_E1);
    for (std::size_t e = 0; e < o.c_MN.size(); ++e) {
      const View& c = o.c_MN[e];
      const auto rows = std::int64_t{offset[e + 1]} - offset[e];
      if (!c || (rows == 0 && o.how == Accumulate::add)) continue;
      const auto way = way_of(o, c, rows);
      const auto down = way == Way::tile ? tile_rows : block_side,
                 across = way == Way::tile    ? tile_columns
                          : way == Way::sgemm ? 4 * block_side
                                              : block_side;
      for (std::int64_t i = 0; i < c.extent[0]; i += down)
        for (std::int64_t j = 0; j < c.extent[1]; j += across)
          list.push_back(
              {e, way, i, std::min(down, c.extent[0] - i), j, std::min(across, c.extent[1] - j)});
      bytes = std::max(bytes, way == Way::primitive ? block_bytes : tile_bytes);
    }
  }

  std::vector<Piece> list;
  std::int64_t bytes = tile_bytes;  // maximum scratch of a piece

 private:
  // Returns the fastest method for floating-point results, by measurements on Zen 5. Results that
  // count quanta always use tiles.
  static Way way_of(const kernel::GroupedMatmulGrad& o, const View& c, std::int64_t rows) {
    if (c.dtype == DType::i64) return Way::tile;
    if (o.a_RM.dtype == DType::f32) return rows > 64 ? Way::sgemm : Way::tile;
    return rows > 24 && onednn::multiplies_bf16_fast() ? Way::primitive : Way::tile;
  }
};

// Rows [begin, end) of a piece's operands: the piece's columns of a, transposed, and the piece's
// columns of b.
struct Operands {
  ConstView a, b;
  Operands(const kernel::GroupedMatmulGrad& o, const Piece& p, std::int64_t begin, std::int64_t end)
      : a(part_of(o.a_RM, begin, end - begin, p.row, p.rows).transposed()),
        b(part_of(o.b_RN, begin, end - begin, p.column, p.columns)) {}
};

void count_leaves(const kernel::GroupedMatmulGrad& o, const Piece& p, const View& c,
                  std::int64_t begin, std::int64_t end, float* memory) {
  const auto* token = data<std::int32_t>(o.token_R);
  Largest largest;
  auto how = o.how;
  auto first = begin;
  do {  // no rows are one leaf, whose sum is 0
    auto last = first;
    while (last < end && token[last] / o.leaf == token[first] / o.leaf) ++last;
    const Operands x(o, p, first, last);
    const float* sum = multiply_tile(x.a, x.b, memory);
    for (std::int64_t r = 0; r < p.rows; ++r, sum += tile_columns) {
      add_quanta(data<std::int64_t>(c) + r * c.stride[0], how, sum, p.columns);
      largest.take(sum, p.columns);
    }
    first = last;
    how = Accumulate::add;
  } while (first < end);
  largest.put(o.largest[p.expert]);
}

// Copies `from` to the beginning of a matrix of `rows` rows at `to`. Sets the remaining rows to
// zero.
View padded(std::byte* to, const ConstView& from, std::int64_t rows) {
  const View all(to, from.dtype, Shape{rows, from.extent[1]});
  const auto width = static_cast<std::size_t>(from.extent[1]) * sizeof(bf16);
  for (std::int64_t r = 0; r < rows; ++r) {
    auto* row = to + static_cast<std::size_t>(r) * width;
    if (r < from.extent[0])
      std::memcpy(row, data<bf16>(from) + r * from.stride[0], width);
    else
      std::memset(row, 0, width);
  }
  return all;
}

// Computes a piece with the primitive. If the result is added to c, the sum is computed in `memory`
// and then added here, because the primitive takes twice the time to add to c.
void by_primitive(const kernel::GroupedMatmulGrad& o, const Piece& p, const View& c,
                  std::int64_t begin, std::int64_t end, std::byte* memory) {
  std::byte* left = memory + block_side * block_side * sizeof(float);
  std::byte* right = left + block_depth * block_side * sizeof(bf16);
  const bool direct = o.how == Accumulate::overwrite;
  const View sum = direct ? c : View(memory, DType::f32, Shape{p.rows, p.columns});
  for (auto first = begin; first < end; first += block_depth) {
    const Operands x(o, p, first, std::min(end, first + block_depth));
    const auto depth = (x.b.extent[0] + depth_step - 1) / depth_step * depth_step;
    const ConstView a = padded(left, x.a.transposed(), depth), b = padded(right, x.b, depth);
    onednn::matmul_alone({sum, normal(a.transposed(), "a"), normal(b, "b"),
                          first == begin ? Accumulate::overwrite : Accumulate::add});
  }
  if (direct) return;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    float* to = data<float>(c) + r * c.stride[0];
    const float* from = data<float>(sum) + r * p.columns;
#pragma omp simd
    for (std::int64_t i = 0; i < p.columns; ++i) to[i] += from[i];
  }
}

}  // namespace

void run(const kernel::GroupedMatmulGrad& o, View scratch) {
  const auto R = o.a_RM.extent[0], M = o.a_RM.extent[1], N = o.b_RN.extent[1];
  require(o.b_RN.extent[0] == R && o.a_RM.dtype == o.b_RN.dtype && o.a_RM.stride[1] == 1 &&
              o.b_RN.stride[1] == 1 &&
              o.offset_E1.count() == static_cast<std::int64_t>(o.c_MN.size()) + 1,
          "grouped_matmul_grad: [{}, {}] and [{}, {}] do not match", R, M, o.b_RN.extent[0], N);
  for (const auto& c : o.c_MN)
    require(!c || (c.extent[0] == M && c.extent[1] == N && c.dense() &&
                   (c.dtype == DType::f32 || c.dtype == DType::i64)),
            "grouped_matmul_grad: a result must be [{}, {}] in f32 or counts in i64", M, N);
  const bool counts =
      std::ranges::any_of(o.c_MN, [](auto& c) { return c && c.dtype == DType::i64; });
  require(!counts || (o.token_R && o.leaf > 0 && o.largest.size() == o.c_MN.size()),
          "grouped_matmul_grad: counts need leaves and a largest term for each result");
  const Pieces pieces(o);
  const auto slots = static_cast<std::int64_t>(scratch.span_bytes()) / pieces.bytes;
  require(slots > 0, "grouped_matmul_grad: {} bytes of scratch are needed, but there are {}",
          pieces.bytes, scratch.span_bytes());
  const auto* offset = data<std::int32_t>(o.offset_E1);
  const auto one = [&](std::int64_t i, std::int64_t slot) {
    const OneThread alone;
    const Piece& p = pieces.list[static_cast<std::size_t>(i)];
    std::byte* memory = scratch.data + slot * pieces.bytes;
    auto* floats = reinterpret_cast<float*>(memory);
    const auto begin = offset[p.expert], end = offset[p.expert + 1];
    const View c = part_of(o.c_MN[p.expert], p.row, p.rows, p.column, p.columns);
    if (c.dtype == DType::i64) return count_leaves(o, p, c, begin, end, floats);
    if (p.way == Way::primitive) return by_primitive(o, p, c, begin, end, memory);
    const Operands x(o, p, begin, end);
    if (p.way == Way::sgemm) return onednn::sgemm(c, normal(x.a, "a"), normal(x.b, "b"), o.how);
    multiply_tile({c, x.a, x.b, o.how}, floats);
  };
  share(std::ssize(pieces.list), one, slots);
}

}  // namespace trireme::host
