#pragma once
// All operations that Trireme asks a backend to compute. A backend implements each operation X as
// run(const kernel::X&, ...). A backend that lacks an operation does not compile.
//
// Shapes: B samples, T positions (or rows: B*T flattened if there is no B), C width, H query heads,
// G key/value heads, D head dim, F hidden width, V vocabulary, M N K sizes of a matrix product, N
// elements of any shape. Views are dense unless a comment says strided. Dtypes: one compute type
// (bf16, f32 or f64) in an operation; statistics, weight gradients, master weights and moments in
// wide(compute); token ids i32; sample numbers i64; sums f64. A sum of type i64 counts quanta
// (lib/base/fixed.hpp). Operations with an i64 sum have an optional operand `largest` (f32, one
// element). They raise it to the largest magnitude of all terms, or to infinity if a term is NaN.
#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/fp8_products.hpp"
#include "kernels/operation.hpp"
#include "kernels/routing.hpp"
#include "kernels/update_rule.hpp"
#include "lib/base/rng.hpp"

namespace trireme {

// Sample numbers and positions of the rows of a [B, T, ...] view.
struct SampleRows {
  ConstView sample_B;      // i64, global sample numbers
  std::int64_t t0 = 0;     // position of the first row of each sample; the others count up from it
  ConstView position_T{};  // i32; if present, replaces t0 by the position of each row
};

// Work that is fused with a product c = a b. If all members are absent, there is no extra work. At
// most one view may be present, except that a bias may accompany activated_MN. The bias is added to
// each row of c.
struct Epilogue {
  ConstView bias_N{};
  Activation activation = Activation::gelu;  // the function for the next two members
  View activated_MN{};          // output: the activation of c; c itself keeps the pre-activation
  ConstView activated_at_MN{};  // dense; c is multiplied by the activation's derivative here
  View row_sum_M{};             // wide; the sum of a over K, accumulated like c; a' is dense
};

// Whether a loss keeps the logits or replaces them by their gradient.
enum class Logits : std::uint8_t { keep, become_gradient };

// Logits of the teacher, another model, for the same rows and in the same type. If `logits_TV` is
// absent, there is no teacher. CrossEntropy explains `temperature` and `share`.
struct Teacher {
  ConstView logits_TV{};
  double softcap = 0;  // soft cap on the teacher's logits; 0 means none
  double temperature = 1, share = 0;
};

namespace kernel {

// Copies: dst = src, or dst += src. Both views have the same shape and may be strided in every dim.
// The copy casts between floating-point types. i64 and i32 are copied only to the same type. i32
// does not support addition.
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

// Sets all elements of `dst` to `value`. The view may be strided and have any dtype.
struct Fill {
  static constexpr std::string_view name = "fill";
  View dst;
  double value = 0;
  static void operands(auto& o, auto&& f) { write(f, o.dst); }
};

// Converts x (f32) to integer multiples of the gradient quantum (lib/base/fixed.hpp): sum = x, or
// sum += x. `sum_N` is i64.
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

// Converts counts back to numbers of a compute type: y = sum * 2^-shift gradient quanta. `largest`
// is the largest magnitude among the terms of the sum. If a sum of `terms` terms of this magnitude
// could overflow, all of y becomes NaN. The views are strided: only their last dim must be dense.
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

// Decodes S records of 4-bit weights (kernels/nf4.hpp): y = code * scale in f32, then rounded to
// the type of y. `y_N` is dense and holds all weights of the records in order. Each scale is
// rounded once (kernels/math/nf4.hpp), so the bits are the same on every backend. The other views
// may be strided but must have dense rows.
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  View y_N;
  ConstView code_SW, scale_SW, unit_S1;  // i32, i32 and f32
  static void operands(auto& o, auto&& f) {
    write(f, o.y_N);
    read(f, o.code_SW, o.scale_SW, o.unit_S1);
  }
};

// Computes c = a b, or c += a b, and then the epilogue. Each matrix has two dims, and one of its
// two strides is 1, so that transposes are views. c has the compute type, or the wide type for
// weight gradients and router logits. In bf16 the product may be rounded before the bias or the
// previous c is added, as some algorithms of cuBLASLt do.
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

// Normalises each row. Layer norm (Ba et al. 2016): y = (x - mean) * rstd * w + b, where b may be
// absent. RMS norm (Zhang, Sennrich 2019), if mean and b are absent: y = x * rstd * w with rstd = 1
// / sqrt(mean(x^2) + eps).
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

// Backward pass of Norm. dx = dsum + the gradient of the norm with respect to its input, where
// `dsum_TC` may be absent. `dx_TC` is absent if it is not needed. `dw_C` and `db_C` are absent if
// their parameter is frozen. `how` says whether dw and db are overwritten or added to. Computing dx
// alone, or dw and db alone, gives the same bits as computing all three. `w_C` may be absent if
// `dx_TC` is. dx may share memory with dy, but not with dsum.
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

// Computes y = skip + x * keep / (1 - p), where `keep` is a random mask of 0 and 1. DropoutKey
// defines the mask. `skip_BTC` may be absent. p = 0 keeps everything. y may share memory with x or
// skip.
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

// Fuses Dropout and Norm: sum = skip + dropout(x), y = norm(sum). sum may share memory with x.
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

// Rotary position embedding (Su et al. 2021), in place on a strided view. The two halves (x1, x2)
// of each head are rotated by the angles of their position: forward gives (x1 c - x2 s, x2 c + x1
// s), backward the inverse. A row of the table holds the cosines and then the sines of E = D/2
// frequencies, in the wide type. Row t of each sample uses table row t or, if `position_BT` (i32)
// is present, table row position(b, t).
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

// Computes y = activation(x). y may share memory with x.
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

// Computes dx = dy * activation'(x). dx may share memory with dy.
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

// Multiplies x by `factor`, in place.
struct Scale {
  static constexpr std::string_view name = "scale";
  View x_N;
  double factor = 1;
  static void operands(auto& o, auto&& f) { add(f, o.x_N); }
};

// Computes the Euclidean norm of each row: norm_N = sqrt(sum over C of x_NC^2). The rows of x may
// be strided.
struct RowNorms {
  static constexpr std::string_view name = "row_norms";
  View norm_N;  // wide type
  ConstView x_NC;
  static void operands(auto& o, auto&& f) {
    write(f, o.norm_N);
    read(f, o.x_NC);
  }
};

// Scales each column: y = x * factor / divisor + bias. factor_N and divisor_N have the wide type.
// factor_N, divisor_N and bias_N may be absent. If a divisor is 0, factor / divisor is 0. y may
// share memory with x. x and y may be column ranges of wider matrices.
struct ScaleColumns {
  static constexpr std::string_view name = "scale_columns";
  View y_TN;
  ConstView x_TN, factor_N{}, divisor_N{}, bias_N{};
  static void operands(auto& o, auto&& f) {
    write(f, o.y_TN);
    read(f, o.x_TN);
    may_read(f, o.factor_N, o.divisor_N, o.bias_N);
  }
};

// Gated MLP activation (Shazeer 2020): y = act(gate) * up with gate = gate_up[:, 0, :] and up =
// gate_up[:, 1, :]. `act` is silu (SwiGLU) or gelu (GeGLU). The clamped SwiGLU of gpt-oss has
// another formula (kernels/math/swiglu.hpp). If `weight_T` (wide type) is present, each row is also
// multiplied by its weight.
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

// Backward pass of Swiglu. `dweight_T` may be present only if `weight_T` is.
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

// Returns an upper bound of the bytes that a lookup of `rows` ids reads from the table. Each table
// row counts at most once.
inline double bytes_of_rows(const ConstView& table_VC, std::int64_t rows) {
  return static_cast<double>(std::min(rows, table_VC.extent[0]) * table_VC.extent[1]) *
         static_cast<double>(bytes_of(table_VC.dtype));
}

// Copies table rows: y[t] = table[ids[t]]. The table is an embedding table, or the rows of tokens
// that are sorted by expert. An id may occur several times.
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

// Backward pass of Embedding: adds row t of dy to row ids[t] of dtable. Rows with the same id are
// added in row order. dtable has the wide type or is i64.
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

// Cross-entropy loss. `loss` (f64 or i64, one element) gets the sum over rows of -log
// softmax(logits)[target]. Rows with target -1 contribute nothing. With Logits::become_gradient,
// the logits are replaced by scale * d(sum)/d(logits). If `loss` is i64, it counts loss quanta, and
// the loss of each row is rounded separately. A soft cap c > 0 replaces the logits by c tanh(logits
// / c).
//
// With a teacher, the loss of a row is (1 - share) * cross-entropy + share * t^2 * sum p log(p /
// q), where t is the temperature and p = softmax(y / t) and q = softmax(z / t) for the teacher's
// logits y and these logits z (Hinton et al. 2015).
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

// Computes the sum of x over its rows, in the wide type or as i64.
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

// Performs one optimizer step on flat shards of weights. The shards do not overlap, and many of
// them are small. `state_N` has one view for each array in arrays_of(rule). Gradients may be i64.
// `copy_N` receives the new weights in the compute type; it is absent if the master weights are
// used directly. All copies have the same dtype.
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

// Moves moving averages toward new values: average += share (x - average). The average of a
// constant is then exactly the constant. The shards do not overlap, and many of them are small. All
// views have the same dtype, f32 or f64.
struct Average {
  static constexpr std::string_view name = "average";
  struct Shard {
    View average_N;
    ConstView x_N;
  };
  double share = 0;
  std::vector<Shard> shards;
  static void operands(auto& o, auto&& f) {
    for (auto& s : o.shards) {
      add(f, s.average_N);
      read(f, s.x_N);
    }
  }
};

// Computes out[i] (f64) = the sum of squares of x[i], in f64. The sum is finite if and only if
// every element is. All x have the same dtype. If they are i64, out[4 i] to out[4 i + 3] are the
// limbs of the exact sum of squares.
struct SumSquares {
  static constexpr std::string_view name = "sum_squares";
  View out_N;
  std::vector<ConstView> x;
  static void operands(auto& o, auto&& f) {
    write(f, o.out_N);
    for (auto& v : o.x) read(f, v);
  }
};

// Computes out[i] (i64) = the digest (lib/base/digest.hpp) of the dense view parts[i].x, which
// holds a part of an array: its elements from index `first` on. `first` must be the beginning of a
// digest block. The digest of the whole array is the sum of the digests of its parts, modulo 2^64.
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

// Variant of all operations.
using Operation =
    std::variant<Copy, Fill, AddFixed, ReadFixed, Dequantize, Matmul, Attention, AttentionGrad,
                 SinkGrad, CachedAttention, Norm, NormGrad, Dropout, ResidualNorm, Rotary, Activate,
                 ActivateGrad, Scale, RowNorms, ScaleColumns, Swiglu, SwigluGrad, Embedding,
                 EmbeddingGrad, CrossEntropy, ColumnSum, Update, Average, SumSquares, Digest, Route,
                 RouteGrad, RouterLosses, CountChoices, SortChoices, SumRows, GroupedMatmul,
                 GroupedMatmulGrad, GroupedBias, GroupedBiasGrad, RoundToFp8, Fp8Matmul,
                 LargestOfTiles, ScalesOfTiles, EncodeTiles, DecodeTiles>;

std::string_view name_of(const Operation&);
// Throws Error if a required operand is absent.
void check_operands(const Operation&);

}  // namespace kernel
}  // namespace trireme
