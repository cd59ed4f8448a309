// Matrix products with one matrix for each expert. The number of an expert's rows differs from call
// to call. The expert's product is therefore divided into pieces that need few different
// primitives. Each piece is computed on one thread, so the bits depend neither on the number of
// threads nor on which thread was idle. The method for each piece was chosen by measurements (rows
// from 1 to 512, K and N from 512 to 2048).
#include <cstring>
#include <vector>

#include "kernels/host/few_rows.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/matrices.hpp"
#include "kernels/host/packed_tile.hpp"

namespace trireme::host {
namespace {

enum class Way : std::uint8_t { few_rows, sgemm, primitive, tile };

struct Piece {
  std::size_t expert;
  Way way;
  std::int64_t row, rows, column, columns;
  std::int64_t computed;  // number of computed rows, at least `rows`, that suits a primitive
};

// `worth_two` is the number of multiplications for which a second piece pays off. `narrowest` is
// the minimum number of columns in a piece.
constexpr std::int64_t worth_two = 1 << 27, narrowest = 512;
constexpr std::int64_t most_bytes = 512 << 10;  // scratch of one piece

class Pieces {
 public:
  explicit Pieces(const kernel::GroupedMatmul& o)
      : o_(o),
        all_(o.a_RK.extent[0]),
        columns_(o.c_RN.extent[1]),
        K_(o.a_RK.extent[1]),
        size_(static_cast<std::int64_t>(bytes_of(o.a_RK.dtype))),
        wide_(o.a_RK.dtype == DType::f32),
        b_in_rows_(!row_major(normal(o.b_KN.at(0), "b"))) {
    const auto* offset = data<std::int32_t>(o.offset_E1);
    for (std::size_t e = 0; e < o.b_KN.size(); ++e) add(e, offset[e], offset[e + 1]);
  }

  // Returns the bytes of scratch that a piece needs at most.
  std::int64_t bytes() const {
    std::int64_t most = 64;
    for (const auto& p : list) {
      if (p.way == Way::tile) most = std::max(most, tile_floats * std::int64_t{sizeof(float)});
      if (p.computed != p.rows) most = std::max(most, p.computed * p.columns * size_);
    }
    return rounded(most, 64);
  }

  std::vector<Piece> list;

 private:
  Way way(std::int64_t rows) const {
    if (o_.order != SumOrder::any) return Way::few_rows;
    if (wide_) return !b_in_rows_ ? Way::sgemm : rows <= 8 ? Way::few_rows : Way::primitive;
    if (!onednn::multiplies_bf16_fast()) return rows <= 8 ? Way::few_rows : Way::tile;
    return b_in_rows_ && rows <= 2 ? Way::few_rows : Way::primitive;
  }

  void add(std::size_t expert, std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      Piece p{expert, way(end - begin), begin, end - begin, 0, columns_, 0};
      fit_rows(p);
      const auto each = columns_of(p);
      for (; p.column < columns_; p.column += each) {
        p.columns = std::min(each, columns_ - p.column);
        list.push_back(p);
      }
      begin += p.rows;
    }
  }

  // Sets the number of rows. There are primitives for 4, 8, 16 .. 64, 128, 192 and 256 rows. Up to
  // 64, the number of rows is rounded up, and the primitive also computes rows after or before the
  // piece.
  void fit_rows(Piece& p) const {
    constexpr std::int64_t most = 256, step = 64;
    if (p.way == Way::tile) p.rows = std::min(p.rows, tile_rows);
    p.rows = p.computed = std::min(p.rows, most);
    if (p.way != Way::primitive) return;
    if (p.rows > step) {
      p.rows = p.computed = p.rows / step * step;
      return;
    }
    p.computed = p.rows <= 4 ? 4 : rounded(p.rows, 8);
    if (p.computed <= all_) return;
    p.computed = p.rows;
    p.way = wide_ ? Way::sgemm : Way::tile;
  }

  std::int64_t columns_of(const Piece& p) const {
    if (p.way == Way::tile) return tile_columns;
    if (p.way == Way::few_rows) return 64;
    const auto parts = std::max<std::int64_t>(1, p.rows * K_ * columns_ / worth_two);
    auto each = rounded(std::max(narrowest, (columns_ + parts - 1) / parts), 64);
    if (p.computed != p.rows) each = std::min(each, most_bytes / (p.computed * size_));
    return each;
  }

  static std::int64_t rounded(std::int64_t n, std::int64_t step) {
    return (n + step - 1) / step * step;
  }

  const kernel::GroupedMatmul& o_;
  std::int64_t all_, columns_, K_, size_;
  bool wide_, b_in_rows_;
};

void copy_rows(const View& to, const ConstView& from) {
  const auto size = bytes_of(to.dtype);
  const auto at = [&](std::int64_t row, std::int64_t step) {
    return static_cast<std::size_t>(row * step) * size;
  };
  for (std::int64_t r = 0; r < to.extent[0]; ++r)
    std::memcpy(to.data + at(r, to.stride[0]), from.data + at(r, from.stride[0]),
                static_cast<std::size_t>(to.extent[1]) * size);
}

// Computes additional rows, as the primitive requires, in `memory`. Copies the piece's rows to the
// result.
void by_padded_primitive(const Product& p, const ConstView& all_RK, const Piece& piece,
                         std::byte* memory) {
  const auto first = std::min(piece.row, all_RK.extent[0] - piece.computed);
  const View c(memory, p.c.dtype, Shape{piece.computed, piece.columns});
  onednn::matmul_alone({c, all_RK.slice(0, first, piece.computed), p.b});
  copy_rows(p.c, c.slice(0, piece.row - first, piece.rows));
}

}  // namespace

void run(const kernel::GroupedMatmul& o, View scratch) {
  const auto experts = static_cast<std::int64_t>(o.b_KN.size());
  const auto R = o.a_RK.extent[0], K = o.a_RK.extent[1], N = o.c_RN.extent[1];
  require(o.c_RN.extent[0] == R && o.offset_E1.count() == experts + 1,
          "grouped_matmul: [{}, {}] in {} groups does not give [{}, {}]", R, K,
          o.offset_E1.count() - 1, o.c_RN.extent[0], N);
  if (R == 0 || N == 0) return;
  if (K == 0) return run(kernel::Fill{.dst = o.c_RN, .value = 0}, scratch);
  const auto c = normal(o.c_RN, "c");
  const auto a = normal(o.a_RK, "a");
  require(row_major(c) && row_major(a), "grouped_matmul: a and c must be row-major");
  std::vector<ConstView> b;
  for (const auto& one : o.b_KN) {
    require(one.extent[0] == K && one.extent[1] == N && one.dtype == a.dtype && c.dtype == a.dtype,
            "grouped_matmul: an expert's {} [{}, {}] differs from {} [{}, {}]", name_of(one.dtype),
            one.extent[0], one.extent[1], name_of(a.dtype), K, N);
    b.push_back(normal(one, "b"));
  }
  const Pieces pieces(o);
  const auto bytes = pieces.bytes(),
             slots = static_cast<std::int64_t>(scratch.span_bytes()) / bytes;
  require(slots > 0, "grouped_matmul: {} bytes of scratch are needed, but there are {}", bytes,
          scratch.span_bytes());
  const auto one = [&](std::int64_t i, std::int64_t slot) {
    const OneThread alone;
    const Piece& piece = pieces.list[static_cast<std::size_t>(i)];
    std::byte* memory = scratch.data + slot * bytes;
    const Product p{part_of(c, piece.row, piece.rows, piece.column, piece.columns),
                    a.slice(0, piece.row, piece.rows),
                    b[piece.expert].slice(1, piece.column, piece.columns)};
    switch (piece.way) {
      case Way::few_rows:
        return multiply_few_rows_alone(p);
      case Way::sgemm:
        return onednn::sgemm(p.c, p.a, p.b, p.how);
      case Way::tile:
        return multiply_tile(p, reinterpret_cast<float*>(memory));
      case Way::primitive:
        if (piece.computed == piece.rows) return onednn::matmul_alone(p);
        return by_padded_primitive(p, a, piece, memory);
    }
  };
  share(std::ssize(pieces.list), one, slots);
}

}  // namespace trireme::host
