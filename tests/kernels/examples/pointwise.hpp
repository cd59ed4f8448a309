#pragma once
#include <cmath>

#include "tests/kernels/examples/example.hpp"

namespace trireme {

inline Examples<kernel::Dropout> examples(Of<kernel::Dropout>) {
  Examples<kernel::Dropout> list;
  enum Where { of_its_own, over_x, over_skip };
  const auto add = [&](const char* name, float p, bool skip, Where where) {
    for (const std::int64_t C : {7, 72})
      list.push_back({name + (" of " + std::to_string(C)), [=](Operands& o) {
                        const Shape all{2, 3, C};
                        const View x = o.values(all), beside = skip ? o.values(all) : View{};
                        return kernel::Dropout{
                            .y_BTC = where == over_x      ? x
                                     : where == over_skip ? beside
                                                          : o.values(all),
                            .x_BTC = x,
                            .skip_BTC = beside,
                            .key = {0x123456789abcdefULL, p},
                            .rows = {p > 0 ? o.numbers({7, (1LL << 40) + 3}) : View{}, 5,
                                     p > 0 && skip ? o.ids({4, 0, 9}) : View{}}};
                      }});
  };
  add("x", 0.5F, false, of_its_own);
  add("x and skip", 0.5F, true, of_its_own);
  add("x, in place", 0.5F, false, over_x);
  add("x and skip, over x", 0.5F, true, over_x);
  add("x and skip, over skip", 0.5F, true, over_skip);
  add("all of x", 0, false, of_its_own);
  add("all of x and skip", 0, true, of_its_own);
  add("all of x and skip, over x", 0, true, over_x);
  add("all of x and skip, over skip", 0, true, over_skip);
  return list;
}

// Some heads of a packed view, turned by any angles.
inline Examples<kernel::Rotary> examples(Of<kernel::Rotary>) {
  Examples<kernel::Rotary> list;
  for (const auto direction : {Direction::forward, Direction::backward})
    for (const std::int64_t D : {2, 16, 66})
      list.push_back(
          {(direction == Direction::forward ? "forward, D " : "backward, D ") + std::to_string(D),
           [=](Operands& o) {
             return kernel::Rotary{.x_BTHD = o.values({2, 5, 6, D}).slice(2, 1, 3),
                                   .table_T2E = o.wide_values({7, 2, D / 2}).slice(0, 2, 5),
                                   .direction = direction};
           }});
  list.push_back({"at positions",
                  [](Operands& o) {
                    return kernel::Rotary{
                        .x_BTHD = o.values({2, 5, 6, 16}).slice(2, 1, 3),
                        .table_T2E = o.wide_values({7, 2, 8}),
                        .position_BT = o.ids({0, 1, 2, 0, 1, 6, 0, 0, 0, 1}).reshaped({2, 5})};
                  },
                  true});
  return list;
}

inline constexpr std::int64_t lengths[] = {1, 7, 65, 128};
inline std::string elements(std::int64_t n) {
  return std::to_string(n) + " elements";
}

inline Examples<kernel::Activate> examples(Of<kernel::Activate>) {
  Examples<kernel::Activate> list;
  for (const auto n : lengths) {
    list.push_back({elements(n), [n](Operands& o) {
                      return kernel::Activate{.activation = Activation::gelu,
                                              .y_N = o.values({n}),
                                              .x_N = o.values({n}, 4)};
                    }});
    list.push_back({elements(n) + " in place", [n](Operands& o) {
                      const View x = o.values({n}, 4);
                      return kernel::Activate{.activation = Activation::gelu, .y_N = x, .x_N = x};
                    }});
  }
  return list;
}

inline Examples<kernel::ActivateGrad> examples(Of<kernel::ActivateGrad>) {
  Examples<kernel::ActivateGrad> list;
  for (const auto n : lengths) {
    list.push_back({elements(n), [n](Operands& o) {
                      return kernel::ActivateGrad{.activation = Activation::gelu,
                                                  .dx_N = o.values({n}),
                                                  .dy_N = o.values({n}),
                                                  .x_N = o.values({n}, 4)};
                    }});
    list.push_back(
        {elements(n) + " over dy", [n](Operands& o) {
           const View d = o.values({n});
           return kernel::ActivateGrad{
               .activation = Activation::gelu, .dx_N = d, .dy_N = d, .x_N = o.values({n}, 4)};
         }});
  }
  return list;
}

inline Examples<kernel::Scale> examples(Of<kernel::Scale>) {
  Examples<kernel::Scale> list;
  for (const auto n : lengths)
    list.push_back({elements(n), [n](Operands& o) {
                      return kernel::Scale{.x_N = o.values({n}), .factor = 1.7};
                    }});
  return list;
}

inline Examples<kernel::RowNorms> examples(Of<kernel::RowNorms>) {
  Examples<kernel::RowNorms> list;
  for (const std::int64_t C : {1, 7, 72})
    list.push_back(
        {"width " + std::to_string(C), [C](Operands& o) {
           return kernel::RowNorms{.norm_N = o.wide_values({5}), .x_NC = o.values({5, C})};
         }});
  return list;
}

// A letter for each operand that is present: f, d, b. s: columns of wider matrices. o: y over x.
inline Examples<kernel::ScaleColumns> examples(Of<kernel::ScaleColumns>) {
  Examples<kernel::ScaleColumns> list;
  for (const std::string what : {"", "f", "d", "b", "fdb", "fds", "fdbo"})
    for (const std::int64_t N : {1, 7, 72})
      list.push_back({what + " width " + std::to_string(N), [=](Operands& o) {
                        const auto has = [&](char c) { return what.find(c) != what.npos; };
                        const auto matrix = [&] {
                          return has('s') ? o.values({5, N + 8}).slice(1, 8, N) : o.values({5, N});
                        };
                        const View x = matrix();
                        return kernel::ScaleColumns{
                            .y_TN = has('o') ? x : matrix(),
                            .x_TN = x,
                            .factor_N = has('f') ? o.wide_values({N}) : View{},
                            .divisor_N = has('d') ? o.wide_values({N}) : View{},
                            .bias_N = has('b') ? o.values({N}) : View{}};
                      }});
  return list;
}

inline Examples<kernel::Swiglu> examples(Of<kernel::Swiglu>) {
  Examples<kernel::Swiglu> list;
  for (const bool clamped : {false, true})
    list.push_back({clamped ? "clamped" : "gelu", [=](Operands& o) {
                      return kernel::Swiglu{
                          .y_TF = o.values({5, 9}),
                          .gate_up_T2F = o.values({5, 2, 9}, 9),
                          .gate = clamped ? GateFunction::clamped_silu : GateFunction::gelu};
                    }});
  for (const bool weighted : {false, true})
    for (const std::int64_t F : {1, 7, 72})
      list.push_back(
          {"width " + std::to_string(F) + (weighted ? " weighted" : ""), [=](Operands& o) {
             return kernel::Swiglu{.y_TF = o.values({5, F}),
                                   .gate_up_T2F = o.values({5, 2, F}, 3),
                                   .weight_T = weighted ? o.wide_values({5}) : View{}};
           }});
  return list;
}

inline Examples<kernel::SwigluGrad> examples(Of<kernel::SwigluGrad>) {
  Examples<kernel::SwigluGrad> list;
  for (const bool clamped : {false, true})
    list.push_back({clamped ? "clamped" : "gelu", [=](Operands& o) {
                      return kernel::SwigluGrad{
                          .dgate_up_T2F = o.values({5, 2, 9}),
                          .dweight_T = o.wide_values({5}),
                          .dy_TF = o.values({5, 9}),
                          .gate_up_T2F = o.values({5, 2, 9}, 9),
                          .weight_T = o.wide_values({5}),
                          .gate = clamped ? GateFunction::clamped_silu : GateFunction::gelu};
                    }});
  enum Weights { absent, constant, wanted };
  for (const auto weights : {absent, constant, wanted})
    for (const std::int64_t F : {1, 7, 72})
      list.push_back({"width " + std::to_string(F) +
                          (weights == absent     ? ""
                           : weights == constant ? " weighted"
                                                 : " and of weights"),
                      [=](Operands& o) {
                        return kernel::SwigluGrad{
                            .dgate_up_T2F = o.values({5, 2, F}),
                            .dweight_T = weights == wanted ? o.wide_values({5}) : View{},
                            .dy_TF = o.values({5, F}),
                            .gate_up_T2F = o.values({5, 2, F}, 3),
                            .weight_T = weights == absent ? View{} : o.wide_values({5})};
                      }});
  return list;
}

}  // namespace trireme
