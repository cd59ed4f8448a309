#pragma once
// Operations of mixtures of experts (Shazeer et al. 2017; Fedus et al. 2022): a router chooses K of
// E experts for each of T tokens, rows are sorted by expert, and products have a matrix an expert.
//
// Shapes as in operations.hpp, and: R = T K rows, sorted by expert and, of one expert, in the order
// of tokens; offset_E1 (i32): expert e has rows offset[e] to offset[e + 1]. Nothing is dropped: an
// expert may have all rows, or none. T / B tokens in a row are counted in one row of count_BE;
// where counted_T (i32) is there, token t is counted as token counted_T[t] would be, and below 0 it
// is padding, which is counted nowhere.
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/router_scores.hpp"
#include "kernels/sum_order.hpp"

namespace trireme::kernel {

// choice (i32): the experts with the K largest scores s(logits) + bias, the largest first; of equal
// ones, and of those that are NaN, the lower index. weight: their scores without bias, divided by
// their sum where `normalize` says so. bias_E may be absent. Logits, bias and weights are of the
// wide type. Padding has weights of 0 and experts in turns, whatever its logits are.
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

// dlogits, of the compute or the wide type, from the gradient of the weights, which may be absent,
// and from what RouterLosses adds: the first times balance_scale, the second times z_scale.
// count_BE (i64) is there where balance_scale is not 0. Choices are constants; of padding all is 0.
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

// sums (f64 or i64, two elements) += over tokens that are no padding
//   E / n sum_e p_e count_e        (DeepSeek-V3's loss of a sample: p are the token's scores,
//   divided
//                                  by their sum, n the sum of count_e), 0 without count_BE
//   (log sum_e exp(logits_e))^2    (Zoph et al. 2022, "ST-MoE")
// As i64 a token counts loss quanta.
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

// count (i64) = how many of the choices of tokens that are counted together are of each expert; or
// that is added.
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

// The order by expert. Row r is of token_R[r], for its choice number choice_R[r] = token K + k;
// that choice's row is row_TK. All i32.
struct SortChoices {
  static constexpr std::string_view name = "sort_choices";
  View offset_E1, token_R, choice_R, row_TK;
  ConstView choice_TK;
  static void operands(auto& o, auto&& f) {
    write(f, o.offset_E1, o.token_R, o.choice_R, o.row_TK);
    read(f, o.choice_TK);
  }
};

// y[t] = skip[t] + the sum over k of x[place[t, k]], in the order of k, rounded once; skip may be
// absent, and y may be skip.
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

// Rows of expert e: c = a b[e]. All in one compute type; matrices as of a Matmul, all b alike.
struct GroupedMatmul {
  static constexpr std::string_view name = "grouped_matmul";
  View c_RN;
  ConstView a_RK, offset_E1;
  std::vector<ConstView> b_KN;
  SumOrder order = SumOrder::any;
  static void operands(auto& o, auto&& f) {
    write(f, o.c_RN);
    read(f, o.a_RK, o.offset_E1);
    for (auto& b : o.b_KN) read(f, b);
  }
  double flops() const {
    return 2.0 * static_cast<double>(c_RN.count()) * static_cast<double>(a_RK.extent[1]);
  }
};

// c[e] = a' b over the rows of expert e, or that is added; c is dense, of the wide type, and absent
// where it is not wanted. As i64: leaves of `leaf` tokens in a row are multiplied by themselves,
// SumOrder::by_shape, and counted; token_R says which rows are of one leaf, largest (f32, one
// element each) are there.
struct GroupedMatmulGrad {
  static constexpr std::string_view name = "grouped_matmul_grad";
  std::vector<View> c_MN;
  Accumulate how = Accumulate::overwrite;
  ConstView a_RM, b_RN, offset_E1, token_R{};
  std::int64_t leaf = 0;
  std::vector<View> largest{};
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

}  // namespace trireme::kernel
