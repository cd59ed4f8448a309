#pragma once
// Everything that Trireme asks a machine to compute, each operation once. Backends implement each
// as run(const kernel::X&, ...); one that is missing does not compile.
//
// Shapes: B samples, T positions (or rows: B*T flattened where no B stands beside it), C width,
// H query heads, G key/value heads, D head dim, F hidden width, V vocabulary, M N K of a product,
// N elements of any shape. Views are dense unless strided is said.
// Dtypes: one compute type (bf16, f32 or f64) in an operation; statistics, gradients of weights,
// master weights and moments in wide(compute); token ids i32; sample numbers i64; sums f64. Where
// i64 is said of a sum it counts quanta (lib/base/fixed.hpp) and `largest` (f32, one element), if
// it is there, becomes the larger of itself and every term's magnitude, infinite with a NaN.
#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/operation.hpp"
#include "kernels/routing.hpp"
#include "kernels/update_rule.hpp"
#include "lib/base/rng.hpp"

namespace trireme {

// Which samples and positions the rows of a [B, T, ...] view are.
struct SampleRows {
  ConstView sample_B;      // i64, global sample numbers
  std::int64_t t0 = 0;     // position of the first row of each sample, the others follow it, ...
  ConstView position_T{};  // ... or, where this is there (i32), the position of each
};

// What is done to a product c = a b while its operands are at hand; nothing where all are absent.
// At most one is there, but a bias may go with activated_MN.
struct Epilogue {
  ConstView bias_N{};
  Activation activation = Activation::gelu;  // of the next two
  View activated_MN{};          // gets the activation of c, which stays the pre-activation
  ConstView activated_at_MN{};  // c, dense, is multiplied by the activation's slope at these
  View row_sum_M{};             // wide; gets the sum over K of a, added to where c is; a' is dense
};

enum class Logits : std::uint8_t { keep, become_gradient };

// What another model makes of the same rows, in the same type; absent: none.
struct Teacher {
  ConstView logits_TV{};
  double softcap = 0;  // of these
  double temperature = 1, share = 0;
};

namespace kernel {

// dst = src, or dst += src. Strided on both sides, any dims of one shape; casts between compute
// types, f64 and themselves; i64 and i32 from their own kind, i32 not added.
struct Copy {
  static constexpr std::string_view name = "copy";
  View dst;
  ConstView src;
  Accumulate how = Accumulate::overwrite;
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.dst);
    read(f, o.src);
  }
};

// Strided, of any dtype.
struct Fill {
  static constexpr std::string_view name = "fill";
  View dst;
  double value = 0;
  static void operands(auto& o, auto&& f) { write(f, o.dst); }
};

// sum (i64) = x, or sum += x, as counts of gradients' quanta; x is f32.
struct AddFixed {
  static constexpr std::string_view name = "add_fixed";
  View sum_N;
  Accumulate how = Accumulate::overwrite;
  ConstView x_N;
  View largest{};
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.sum_N);
    read(f, o.x_N);
    may_result(f, Accumulate::add, o.largest);
  }
};

// y = what counts of 2^-shift quanta come to, in a compute type, or NaN, all of it, if `terms`
// terms of the largest one's magnitude do not fit. Strided: only the last dim is dense.
struct ReadFixed {
  static constexpr std::string_view name = "read_fixed";
  View y_BTHD;
  ConstView sum_BTHD, largest;
  double terms = 1;
  int shift = 0;
  static void operands(auto& o, auto&& f) {
    write(f, o.y_BTHD);
    read(f, o.sum_BTHD, o.largest);
  }
};

// y = code * scale in f32, then rounded, of S records of weights of 4 bits (kernels/nf4.hpp); y_N
// is dense, with all weights of each. Scales are rounded once (kernels/math/nf4.hpp), so bits are
// the same everywhere. Strided: rows of the others are dense.
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  View y_N;
  ConstView code_SW, scale_SW, unit_S1;  // i32, i32 and f32
  static void operands(auto& o, auto&& f) {
    write(f, o.y_N);
    read(f, o.code_SW, o.scale_SW, o.unit_S1);
  }
};

// c = a b, or c += a b. Two dims each, one of the two strides is 1 (transposes are strides). c is
// in the compute type, or in its wide type for gradients of weights and routers' logits. In bf16 a
// product may be rounded before a bias, or what is there, is added: algorithms of cuBLASLt do so.
struct Matmul {
  static constexpr std::string_view name = "matmul";
  View c_MN;
  ConstView a_MK, b_KN;
  Accumulate how = Accumulate::overwrite;
  Epilogue epilogue{};
  SumOrder order = SumOrder::any;
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.c_MN);
    read(f, o.a_MK, o.b_KN);
    may_read(f, o.epilogue.bias_N, o.epilogue.activated_at_MN);
    may_write(f, o.epilogue.activated_MN);
    may_result(f, o.how, o.epilogue.row_sum_M);
  }
  double flops() const {
    return 2.0 * static_cast<double>(c_MN.count()) * static_cast<double>(a_MK.extent[1]);
  }
};

// Layer norm (Ba et al. 2016): y = (x - mean) * rstd * w + b over each row; b may be absent.
// Without mean and b the RMS norm (Zhang, Sennrich 2019): y = x * rstd * w,
// rstd = 1 / sqrt(mean(x^2) + eps).
struct Norm {
  static constexpr std::string_view name = "norm";
  View y_TC, mean_T{}, rstd_T;
  ConstView x_TC, w_C, b_C{};
  double eps = 0;
  static void operands(auto& o, auto&& f) {
    write(f, o.y_TC, o.rstd_T);
    may_write(f, o.mean_T);
    read(f, o.x_TC, o.w_C);
    may_read(f, o.b_C);
  }
};

// dx, absent when it is not wanted, gets dsum (which may be absent) + the norm's gradient by x; dw
// and db are absent when their parameter is frozen, and `how` applies to them. dx alone, or dw and
// db alone, have the same bits as all together. w may be absent where dx is. dx may be dy, but not
// dsum.
struct NormGrad {
  static constexpr std::string_view name = "norm_grad";
  View dx_TC{}, dw_C{}, db_C{};
  Accumulate how = Accumulate::overwrite;
  ConstView dsum_TC{}, dy_TC, x_TC, w_C{}, mean_T{}, rstd_T;
  static void operands(auto& o, auto&& f) {
    may_write(f, o.dx_TC);
    may_result(f, o.how, o.dw_C, o.db_C);
    may_read(f, o.dsum_TC, o.mean_T, o.w_C);
    read(f, o.dy_TC, o.x_TC, o.rstd_T);
  }
  static void in_steps(const NormGrad& o, const auto& put) {
    auto alone = o;
    alone.dsum_TC = {};
    put(alone);
    if (o.dx_TC && o.dsum_TC) put(Copy{.dst = o.dx_TC, .src = o.dsum_TC, .how = Accumulate::add});
  }
};

// y = skip + x * keep / (1 - p); skip may be absent; p = 0 keeps everything; y may be x or skip.
struct Dropout {
  static constexpr std::string_view name = "dropout";
  View y_BTC;
  ConstView x_BTC, skip_BTC{};
  DropoutKey key{};
  SampleRows rows{};
  static void operands(auto& o, auto&& f) {
    write(f, o.y_BTC);
    read(f, o.x_BTC);
    may_read(f, o.skip_BTC, o.rows.sample_B, o.rows.position_T);
  }
};

// sum = skip + dropout(x), y = its norm. sum may be x.
struct ResidualNorm {
  static constexpr std::string_view name = "residual_norm";
  View sum_BTC, y_BTC, mean_T{}, rstd_T;
  ConstView x_BTC, skip_BTC{}, w_C, b_C{};
  double eps = 0;
  DropoutKey key{};
  SampleRows rows{};
  static void operands(auto& o, auto&& f) {
    write(f, o.sum_BTC, o.y_BTC, o.rstd_T);
    may_write(f, o.mean_T);
    read(f, o.x_BTC, o.w_C);
    may_read(f, o.skip_BTC, o.b_C, o.rows.sample_B, o.rows.position_T);
  }
  static void in_steps(const ResidualNorm& o, const auto& put) {
    put(Dropout{.y_BTC = o.sum_BTC,
                .x_BTC = o.x_BTC,
                .skip_BTC = o.skip_BTC,
                .key = o.key,
                .rows = o.rows});
    const Shape rows{o.x_BTC.extent[0] * o.x_BTC.extent[1], o.x_BTC.extent[2]};
    put(Norm{.y_TC = o.y_BTC.reshaped(rows),
             .mean_T = o.mean_T,
             .rstd_T = o.rstd_T,
             .x_TC = o.sum_BTC.reshaped(rows),
             .w_C = o.w_C,
             .b_C = o.b_C,
             .eps = o.eps});
  }
};

// Su et al. 2021. In place on a strided view: the halves (x1, x2) of each head turn by the angle of
// their position: forward (x1 c - x2 s, x2 c + x1 s), backward the inverse. The table holds cos
// then sin for E = D/2 frequencies in the wide type; its first row belongs to the view's position
// 0, or, where position_BT (i32) is there, row position(b, t) to row t of sample b.
struct Rotary {
  static constexpr std::string_view name = "rotary";
  View x_BTHD;
  ConstView table_T2E;
  Direction direction = Direction::forward;
  ConstView position_BT{};
  static void operands(auto& o, auto&& f) {
    add(f, o.x_BTHD);
    read(f, o.table_T2E);
    may_read(f, o.position_BT);
  }
};

// y may be x.
struct Activate {
  static constexpr std::string_view name = "activate";
  Activation activation;
  View y_N;
  ConstView x_N;
  static void operands(auto& o, auto&& f) {
    write(f, o.y_N);
    read(f, o.x_N);
  }
};

// dx may be dy.
struct ActivateGrad {
  static constexpr std::string_view name = "activate_grad";
  Activation activation;
  View dx_N;
  ConstView dy_N, x_N;
  static void operands(auto& o, auto&& f) {
    write(f, o.dx_N);
    read(f, o.dy_N, o.x_N);
  }
};

// x = factor x.
struct Scale {
  static constexpr std::string_view name = "scale";
  View x_N;
  double factor = 1;
  static void operands(auto& o, auto&& f) { add(f, o.x_N); }
};

// Shazeer 2020: y = silu(gate) * up with gate = gate_up[:, 0, :], up = gate_up[:, 1, :], or of
// GeGLU gelu(gate) * up; times the row's weight, in the wide type, if that is there.
struct Swiglu {
  static constexpr std::string_view name = "swiglu";
  View y_TF;
  ConstView gate_up_T2F, weight_T{};
  GateFunction gate = GateFunction::silu;
  static void operands(auto& o, auto&& f) {
    write(f, o.y_TF);
    read(f, o.gate_up_T2F);
    may_read(f, o.weight_T);
  }
};

// dweight_T may be there where weight_T is.
struct SwigluGrad {
  static constexpr std::string_view name = "swiglu_grad";
  View dgate_up_T2F, dweight_T{};
  ConstView dy_TF, gate_up_T2F, weight_T{};
  GateFunction gate = GateFunction::silu;
  static void operands(auto& o, auto&& f) {
    write(f, o.dgate_up_T2F);
    may_write(f, o.dweight_T);
    read(f, o.dy_TF, o.gate_up_T2F);
    may_read(f, o.weight_T);
  }
};

// Bytes of the rows of a table that `rows` ids name, each row once: an upper bound.
inline double bytes_of_rows(const ConstView& table_VC, std::int64_t rows) {
  return static_cast<double>(std::min(rows, table_VC.extent[0]) * table_VC.extent[1]) *
         static_cast<double>(bytes_of(table_VC.dtype));
}

// Rows of a table, as often as they are named: of a vocabulary, or of tokens, sorted by expert.
struct Embedding {
  static constexpr std::string_view name = "embedding";
  View y_TC;
  ConstView ids_T, table_VC;
  static void operands(auto& o, auto&& f) {
    write(f, o.y_TC);
    read(f, o.ids_T, o.table_VC);
  }
  double bytes() const {
    return bytes_seen(ids_T) + bytes_seen(y_TC) + bytes_of_rows(table_VC, y_TC.extent[0]);
  }
};

// Rows of the same id are added in row order, or into i64.
struct EmbeddingGrad {
  static constexpr std::string_view name = "embedding_grad";
  View dtable_VC;
  Accumulate how = Accumulate::overwrite;
  ConstView dy_TC, ids_T;
  View largest{};
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.dtable_VC);
    read(f, o.dy_TC, o.ids_T);
    may_result(f, Accumulate::add, o.largest);
  }
  double bytes() const {
    return bytes_seen(dy_TC) + bytes_seen(ids_T) + 2 * bytes_of_rows(dtable_VC, dy_TC.extent[0]) +
           (how == Accumulate::overwrite ? bytes_seen(dtable_VC) : 0);
  }
};

// loss (f64 or i64, one element) gets the sum over rows of -log softmax(logits)[target], rows with
// target -1 contribute nothing; logits become scale * d(that sum)/d(logits) when asked to. As i64 a
// row counts loss quanta. With a soft cap c the softmax is of c tanh(logits / c). With the logits
// of a teacher, of whose softmax(z / t) is p and of these q, a row's loss is (1 - share) of that
// and share t^2 sum p log(p / q) (Hinton et al. 2015).
struct CrossEntropy {
  static constexpr std::string_view name = "cross_entropy";
  View loss;
  Accumulate how = Accumulate::overwrite;
  View logits_TV;
  ConstView target_T;
  double scale = 1;
  Logits logits = Logits::keep;
  View largest{};
  double softcap = 0;
  Teacher teacher{};
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.loss);
    f(o.logits_TV, o.logits == Logits::keep ? Role::read : Role::add);
    read(f, o.target_T);
    may_read(f, o.teacher.logits_TV);
    may_result(f, Accumulate::add, o.largest);
  }
};

// out = sum over rows, in the wide type or as i64.
struct ColumnSum {
  static constexpr std::string_view name = "column_sum";
  View out_C;
  Accumulate how = Accumulate::overwrite;
  ConstView x_TC;
  View largest{};
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.out_C);
    read(f, o.x_TC);
    may_result(f, Accumulate::add, o.largest);
  }
};

// An optimizer's step over flat shards, many of which are small; they do not overlap. `state_N` is
// one view for each of arrays_of(rule); gradients may be i64; `copy` is the compute-type copy of
// the new weights, absent when master serves; copies are of one dtype.
struct Update {
  static constexpr std::string_view name = "update";
  struct Shard {
    View master_N, copy_N{};
    ConstView grad_N;
    std::vector<View> state_N{};
    UpdateFactors factors;
  };
  UpdateRule rule;
  std::vector<Shard> shards;
  static void operands(auto& o, auto&& f) {
    for (auto& s : o.shards) {
      add(f, s.master_N);
      for (auto& array : s.state_N) add(f, array);
      may_write(f, s.copy_N);
      read(f, s.grad_N);
    }
  }
};

// out[i] (f64) = sum of squares of x[i] in f64: finite exactly when every element is. All x are of
// one dtype; of i64, out[4 i] to out[4 i + 3] are the limbs of the squares' exact sum.
struct SumSquares {
  static constexpr std::string_view name = "sum_squares";
  View out_N;
  std::vector<ConstView> x;
  static void operands(auto& o, auto&& f) {
    write(f, o.out_N);
    for (auto& v : o.x) read(f, v);
  }
};

// out[i] (i64) = the digest (lib/base/digest.hpp) of dense x[i], as far as it is here: the array's
// elements from `first` on, which begin a block. Digests of what others have of it are added
// modulo 2^64.
struct Digest {
  static constexpr std::string_view name = "digest";
  struct Part {
    ConstView x;
    std::int64_t first = 0;
  };
  View out_N;
  std::vector<Part> parts;
  static void operands(auto& o, auto&& f) {
    write(f, o.out_N);
    for (auto& part : o.parts) read(f, part.x);
  }
};

using Operation =
    std::variant<Copy, Fill, AddFixed, ReadFixed, Dequantize, Matmul, Attention, AttentionGrad,
                 SinkGrad, CachedAttention, Norm, NormGrad, Dropout, ResidualNorm, Rotary, Activate,
                 ActivateGrad, Scale, Swiglu, SwigluGrad, Embedding, EmbeddingGrad, CrossEntropy,
                 ColumnSum, Update, SumSquares, Digest, Route, RouteGrad, RouterLosses,
                 CountChoices, SortChoices, SumRows, GroupedMatmul, GroupedMatmulGrad>;

std::string_view name_of(const Operation&);
// Throws Error where an operand that must be there is absent.
void check_operands(const Operation&);

}  // namespace kernel
}  // namespace trireme
