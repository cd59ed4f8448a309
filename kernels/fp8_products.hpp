#pragma once
// Operations on matrices in fp8 (kernels/fp8.hpp).
//
// The last four operations encode weights that several ranks hold together, and decode them after
// an all-gather. Each rank holds a part of the matrix: consecutive elements in row order, from
// element `first` on. Parts may begin and end anywhere in a tile, so the scale of a tile depends on
// the largest magnitudes on several ranks. The codes and scales of the whole matrix are those of
// RoundToFp8 with Scales::tiles. Views _IG have an element for each tile in the bands of the part
// (fp8::bands_of), with as many columns as scale_shape(). All backends give the same bits.
#include <string_view>

#include "kernels/fp8.hpp"
#include "kernels/operation.hpp"
#include "kernels/sum_order.hpp"

namespace trireme::kernel {

// Rounds a matrix to fp8. Columns of y beyond those of x are zeros. x may be strided, but one of
// its two strides must be 1. If the elements of a group are not all finite, its scale is NaN. All
// backends give the same bits.
struct RoundToFp8 {
  static constexpr std::string_view name = "round_to_fp8";
  fp8::Matrix<View> y;
  ConstView x_RK;
  static void operands(auto& o, auto&& f) {
    write(f, o.y.code_RW, o.y.scale);
    read(f, o.x_RK);
  }
};

// Computes c = a b' + bias, or c += a b' + bias, for matrices in fp8. Products are exact, and sums
// are in f32. On Hopper GPUs, sums of up to 128 products may keep only about 14 bits (DeepSeek-V3,
// section 3.3.2). c has the compute type, or the wide type for weight gradients. Its rows are
// dense. `bias_N` has the type of c and may be absent. a and b have the same number of columns. At
// most one of them has Scales::tiles.
struct Fp8Matmul {
  static constexpr std::string_view name = "fp8_matmul";
  View c_MN;
  fp8::Matrix<ConstView> a_MK, b_NK;
  Accumulate how = Accumulate::overwrite;
  ConstView bias_N{};
  SumOrder order = SumOrder::any;
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.c_MN);
    read(f, o.a_MK.code_RW, o.a_MK.scale, o.b_NK.code_RW, o.b_NK.scale);
    may_read(f, o.bias_N);
  }
  double flops() const {
    return 2.0 * static_cast<double>(c_MN.count()) * static_cast<double>(a_MK.columns());
  }
};

// Computes the largest magnitude in each tile of a part, as bits in f32. Magnitudes in f64 are
// rounded up. Tiles without elements of the part have 0. NaN counts as larger than all numbers.
struct LargestOfTiles {
  static constexpr std::string_view name = "largest_of_tiles";
  View largest_IG;  // i32
  ConstView x_N;    // dense
  std::int64_t first = 0, columns = 1;
  static void operands(auto& o, auto&& f) {
    write(f, o.largest_IG);
    read(f, o.x_N);
  }
};

// Computes the scales of T tiles from the results of LargestOfTiles on R ranks. Row r of
// `largest_RW` has the magnitudes of tiles first_R[r] to first_R[r] + W - 1 on rank r.
struct ScalesOfTiles {
  static constexpr std::string_view name = "scales_of_tiles";
  View scale_T;                   // f32, dense
  ConstView largest_RW, first_R;  // i32; largest_RW has dense rows
  static void operands(auto& o, auto&& f) {
    write(f, o.scale_T);
    read(f, o.largest_RW, o.first_R);
  }
};

// Encodes a part with the scales of its tiles, four codes in a word. Codes beyond the last element
// and codes in a tile whose scale is NaN are zeros.
struct EncodeTiles {
  static constexpr std::string_view name = "encode_tiles";
  View code_W;         // i32, dense
  ConstView x_N;       // dense
  ConstView scale_IG;  // f32, dense
  std::int64_t first = 0, columns = 1;
  static void operands(auto& o, auto&& f) {
    write(f, o.code_W);
    read(f, o.x_N, o.scale_IG);
  }
};

// Decodes a part. The results are exact, except that magnitudes above 248 * 2^120 may become
// infinite.
struct DecodeTiles {
  static constexpr std::string_view name = "decode_tiles";
  View y_N;            // dense
  ConstView code_W;    // i32, dense
  ConstView scale_IG;  // f32, dense
  std::int64_t first = 0, columns = 1;
  static void operands(auto& o, auto&& f) {
    write(f, o.y_N);
    read(f, o.code_W, o.scale_IG);
  }
};

}  // namespace trireme::kernel
