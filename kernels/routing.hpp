#pragma once
// Operations of mixture-of-experts layers (Shazeer et al. 2017; Fedus et al. 2022). A router
// chooses K of E experts for each of T tokens. The rows are then sorted by expert, and each expert
// multiplies its rows by its own matrices.
//
// The letters of shapes are those of operations.hpp. R = T K is the number of rows, which are
// sorted by expert and, within an expert, in token order. offset_E1 (i32) says that expert e has
// rows [offset[e], offset[e + 1]). No token is dropped: an expert may have all rows, or none.
//
// count_BE (i64) holds how often each expert was chosen, in B rows. Each row counts T / B
// consecutive tokens. If `counted_T` (i32) is present, token t is counted as if it were token
// counted_T[t]. A negative value marks padding, which is not counted.
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/router_scores.hpp"
#include "kernels/sum_order.hpp"

namespace trireme::kernel {

// Chooses experts. choice (i32) holds the experts with the K largest values of score + bias,
// largest first. Of equal values, and of NaNs, the lower index comes first. weight holds the scores
// of the chosen experts, without the bias. `normalize` divides these scores by their sum. `bias_E`
// may be absent. Logits, bias and weights have the wide type. For a padding token t, the logits are
// ignored: its weights are 0, and its choice k is expert (t K + k) mod E.
struct Route {
  static constexpr std::string_view name = "route";
  View weight_TK, choice_TK;
  ConstView logits_TE, bias_E{}, counted_T{};
  RouterScores scores = RouterScores::softmax;
  bool normalize = false;
  static void operands(auto& o, auto&& f) {
    write(f, o.weight_TK, o.choice_TK);
    read(f, o.logits_TE);
    may_read(f, o.bias_E, o.counted_T);
  }
};

// Computes dlogits, of the compute or the wide type, as the sum of up to three terms: the gradient
// through the weights (if `dweight_TK` is present), balance_scale times the gradient of the first
// sum of RouterLosses, and z_scale times the gradient of the second. `count_BE` must be present if
// balance_scale is not 0. Choices are treated as constants. Padding tokens get 0.
struct RouteGrad {
  static constexpr std::string_view name = "route_grad";
  View dlogits_TE;
  ConstView dweight_TK{}, choice_TK, logits_TE, count_BE{}, counted_T{};
  RouterScores scores = RouterScores::softmax;
  bool normalize = false;
  double balance_scale = 0, z_scale = 0;
  static void operands(auto& o, auto&& f) {
    write(f, o.dlogits_TE);
    may_read(f, o.dweight_TK);
    read(f, o.choice_TK, o.logits_TE);
    may_read(f, o.count_BE, o.counted_T);
  }
};

// Adds two auxiliary losses to `sums` (f64 or i64, two elements), summed over all tokens that are
// not padding:
//   E / n sum_e p_e count_e        load-balancing loss of a sample, as in DeepSeek-V3; p is the
//                                  token's scores divided by their sum, n the sum of count_e;
//                                  0 without count_BE
//   (log sum_e exp(logits_e))^2    z-loss (Zoph et al. 2022, "ST-MoE")
// As i64 the sums count loss quanta (lib/base/fixed.hpp), and the loss of each token is rounded
// separately.
struct RouterLosses {
  static constexpr std::string_view name = "router_losses";
  View sums;
  ConstView logits_TE, count_BE{}, counted_T{};
  RouterScores scores = RouterScores::softmax;
  View largest{};
  static void operands(auto& o, auto&& f) {
    add(f, o.sums);
    read(f, o.logits_TE);
    may_read(f, o.count_BE, o.counted_T);
    may_result(f, Accumulate::add, o.largest);
  }
};

// Counts how often the tokens of each row of count_BE (i64) chose each expert. Stores the counts in
// count_BE, or adds them to it.
struct CountChoices {
  static constexpr std::string_view name = "count_choices";
  View count_BE;
  Accumulate how = Accumulate::overwrite;
  ConstView choice_TK, counted_T{};
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.count_BE);
    read(f, o.choice_TK);
    may_read(f, o.counted_T);
  }
};

// Sorts the choices by expert. Row r belongs to choice k of token token_R[r], and choice_R[r] =
// token * K + k. The inverse map is row_TK[token, k] = r. All views are i32.
struct SortChoices {
  static constexpr std::string_view name = "sort_choices";
  View offset_E1, token_R, choice_R, row_TK;
  ConstView choice_TK;
  static void operands(auto& o, auto&& f) {
    write(f, o.offset_E1, o.token_R, o.choice_R, o.row_TK);
    read(f, o.choice_TK);
  }
};

// Computes y[t] = skip[t] + the sum over k of x[row[t, k]], in the order of k, rounded once.
// `skip_TC` may be absent. y may share memory with skip.
struct SumRows {
  static constexpr std::string_view name = "sum_rows";
  View y_TC;
  ConstView x_RC, row_TK, skip_TC{};
  static void operands(auto& o, auto&& f) {
    write(f, o.y_TC);
    read(f, o.x_RC, o.row_TK);
    may_read(f, o.skip_TC);
  }
};

// Computes c = a b[e] on the rows of each expert e. All views have the same compute type. The
// matrices follow the rules of Matmul, and all b have the same shape and strides.
struct GroupedMatmul {
  static constexpr std::string_view name = "grouped_matmul";
  View c_RN;
  ConstView a_RK, offset_E1;
  std::vector<ConstView> b_KN;
  SumOrder order = SumOrder::any;
  // The numbers in offset_E1, if the host knows them. If the list is empty, a backend may wait
  // until offset_E1 is computed.
  std::vector<std::int32_t> known_offset{};
  static void operands(auto& o, auto&& f) {
    write(f, o.c_RN);
    read(f, o.a_RK, o.offset_E1);
    for (auto& b : o.b_KN) read(f, b);
  }
  double flops() const {
    return 2.0 * static_cast<double>(c_RN.count()) * static_cast<double>(a_RK.extent[1]);
  }
};

// Computes c[e] = a' b over the rows of each expert e, or adds the product to c[e]. c[e] is dense
// and has the wide type. It is absent if it is not needed.
//
// If c is i64, it counts gradient quanta. The rows of each `leaf` consecutive tokens form a leaf.
// Each leaf is multiplied separately with SumOrder::by_shape, and its product is added as one term.
// token_R gives the token of each row. token_R and `largest` (f32, one element for each expert)
// must then be present.
struct GroupedMatmulGrad {
  static constexpr std::string_view name = "grouped_matmul_grad";
  std::vector<View> c_MN;
  Accumulate how = Accumulate::overwrite;
  ConstView a_RM, b_RN, offset_E1, token_R{};
  std::int64_t leaf = 0;
  std::vector<View> largest{};
  std::vector<std::int32_t> known_offset{};  // as in GroupedMatmul
  static void operands(auto& o, auto&& f) {
    for (auto& c : o.c_MN) may_result(f, o.how, c);
    read(f, o.a_RM, o.b_RN, o.offset_E1);
    may_read(f, o.token_R);
    for (auto& l : o.largest) may_result(f, Accumulate::add, l);
  }
  double flops() const {
    return 2.0 * static_cast<double>(a_RM.count()) * static_cast<double>(b_RN.extent[1]);
  }
};

// Adds the bias of its expert to each row: y_r += weight_r bias[e] for the rows r of expert e. The
// biases have the type of y. `weight_R` (wide type) may be absent, which means weights of 1.
struct GroupedBias {
  static constexpr std::string_view name = "grouped_bias";
  View y_RN;
  ConstView offset_E1;
  std::vector<ConstView> bias_N;
  ConstView weight_R{};
  static void operands(auto& o, auto&& f) {
    add(f, o.y_RN);
    read(f, o.offset_E1);
    for (auto& b : o.bias_N) read(f, b);
    may_read(f, o.weight_R);
  }
};

// Backward pass of GroupedBias. dbias[e] = the sum of weight_r dy_r over the rows of expert e, or
// the sum is added to dbias[e]. dbias[e] is dense, and has the wide type or is i64. As i64 it
// counts gradient quanta, and each row is one term. dbias[e] is absent if it is not needed, and the
// whole list may be empty. If `dweight_R` (wide type) is present, the product of dy_r and bias[e]
// is added to it. Otherwise `bias_N` may be empty. Either result alone has the same bits as both
// together.
struct GroupedBiasGrad {
  static constexpr std::string_view name = "grouped_bias_grad";
  std::vector<View> dbias_N{};
  Accumulate how = Accumulate::overwrite;
  View dweight_R{};
  ConstView dy_RN, offset_E1;
  std::vector<ConstView> bias_N{};
  ConstView weight_R{};
  std::vector<View> largest{};
  static void operands(auto& o, auto&& f) {
    for (auto& d : o.dbias_N) may_result(f, o.how, d);
    may_result(f, Accumulate::add, o.dweight_R);
    read(f, o.dy_RN, o.offset_E1);
    for (auto& b : o.bias_N) read(f, b);
    may_read(f, o.weight_R);
    for (auto& l : o.largest) may_result(f, Accumulate::add, l);
  }
};

}  // namespace trireme::kernel
