#pragma once
#include <algorithm>
#include <string>

#include "tests/kernels/examples/example.hpp"

namespace trireme {

inline constexpr RouterScores both_scores[] = {RouterScores::softmax, RouterScores::sigmoid};
inline std::string text_of(RouterScores s) {
  return s == RouterScores::softmax ? "softmax" : "sigmoid";
}

// K of E experts for each token; the last expert has none where there are more than K.
inline View choices(Operands& o, std::int64_t T, std::int64_t K, std::int64_t E) {
  const auto chosen = std::max(K, E - 1);
  std::vector<std::int32_t> choice;
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t k = 0; k < K; ++k)
      choice.push_back(static_cast<std::int32_t>((t * t + k) % chosen));
  return o.ids(choice).reshaped({T, K});
}

// How many choices are of each expert, by row.
inline View loads(Operands& o, std::int64_t B, std::int64_t E) {
  std::vector<std::int64_t> load;
  for (std::int64_t i = 0; i < B * E; ++i) load.push_back(1 + 7 * i % 31);
  return o.numbers(load).reshaped({B, E});
}
// The second token is padding, others are counted with the first or the last.
inline View counted(Operands& o, std::int64_t T) {
  std::vector<std::int32_t> as;
  for (std::int64_t t = 0; t < T; ++t)
    as.push_back(static_cast<std::int32_t>(t == 1 ? -1 : t % 2 * (T - 1)));
  return o.ids(as);
}

inline Examples<kernel::Route> examples(Of<kernel::Route>) {
  constexpr std::int64_t T = 5, K = 3;
  Examples<kernel::Route> list;
  for (const auto scores : both_scores)
    for (const bool normalize : {false, true})
      for (const bool bias : {false, true})
        for (const std::int64_t E : {3, 7, 70})
          list.push_back({text_of(scores) + (normalize ? " normalized" : "") +
                              (bias ? " with bias and padding" : "") + " of " + std::to_string(E),
                          [=](Operands& o) {
                            return kernel::Route{.weight_TK = o.wide_values({T, K}),
                                                 .choice_TK = choices(o, T, K, E),
                                                 .logits_TE = o.wide_values({T, E}, 3),
                                                 .bias_E = bias ? o.wide_values({E}) : View{},
                                                 .counted_T = bias ? counted(o, T) : View{},
                                                 .scores = scores,
                                                 .normalize = normalize};
                          }});
  return list;
}

// What a gradient is made of, as letters: w, n for weights and normalized ones, b, z; p: there is
// padding.
inline Examples<kernel::RouteGrad> examples(Of<kernel::RouteGrad>) {
  constexpr std::int64_t B = 2, T = 6, K = 2;
  Examples<kernel::RouteGrad> list;
  for (const auto scores : both_scores)
    for (const std::string what : {"w", "n", "b", "z", "wbz", "nbz", "wbzp"})
      for (const bool wide : {false, true})
        for (const std::int64_t E : {3, 70})
          list.push_back({text_of(scores) + " " + what + " of " + std::to_string(E) +
                              (wide ? " into the wide type" : ""),
                          [=](Operands& o) {
                            const auto has = [&](char c) { return what.find(c) != what.npos; };
                            const bool weights = has('w') || has('n');
                            return kernel::RouteGrad{
                                .dlogits_TE = wide ? o.wide_values({T, E}) : o.values({T, E}),
                                .dweight_TK = weights ? o.wide_values({T, K}) : View{},
                                .choice_TK = choices(o, T, K, E),
                                .logits_TE = o.wide_values({T, E}, 3),
                                .count_BE = has('b') ? loads(o, B, E) : View{},
                                .counted_T = has('p') ? counted(o, T) : View{},
                                .scores = scores,
                                .normalize = has('n'),
                                .balance_scale = has('b') ? 0.3 : 0.0,
                                .z_scale = has('z') ? 0.2 : 0.0};
                          }});
  return list;
}

inline Examples<kernel::RouterLosses> examples(Of<kernel::RouterLosses>) {
  Examples<kernel::RouterLosses> list;
  for (const auto scores : both_scores)
    for (const bool quanta : {false, true})
      for (const bool balance : {false, true})
        for (const bool padding : {false, true})
          list.push_back(
              {text_of(scores) + (quanta ? " counted" : "") + (balance ? "" : " of z") +
                   (padding ? " with padding" : ""),
               [=](Operands& o) {
                 return kernel::RouterLosses{
                     .sums = o.of_type(quanta ? DType::i64 : DType::f64, {2}, quanta ? 0x1p40 : 9),
                     .logits_TE = o.wide_values({6, 7}, 3),
                     .count_BE = balance ? loads(o, 2, 7) : View{},
                     .counted_T = padding ? counted(o, 6) : View{},
                     .scores = scores,
                     .largest = quanta ? largest(o) : View{}};
               },
               quanta});
  return list;
}

inline Examples<kernel::CountChoices> examples(Of<kernel::CountChoices>) {
  Examples<kernel::CountChoices> list;
  for (const auto how : both_modes)
    for (const bool padding : {false, true})
      list.push_back({(padding ? "padding" : "two samples") + mode(how), [=](Operands& o) {
                        return kernel::CountChoices{.count_BE = o.of_type(DType::i64, {2, 5}, 1000),
                                                    .how = how,
                                                    .choice_TK = choices(o, 6, 2, 5),
                                                    .counted_T = padding ? counted(o, 6) : View{}};
                      }});
  return list;
}

inline Examples<kernel::SortChoices> examples(Of<kernel::SortChoices>) {
  Examples<kernel::SortChoices> list;
  for (const std::int64_t T : {1, 9, 700})
    list.push_back({std::to_string(T) + " tokens", [=](Operands& o) {
                      constexpr std::int64_t K = 2, E = 5;
                      const auto ids = [&](std::int64_t n) {
                        return o.ids(std::vector<std::int32_t>(static_cast<std::size_t>(n)));
                      };
                      return kernel::SortChoices{.offset_E1 = ids(E + 1),
                                                 .token_R = ids(T * K),
                                                 .choice_R = ids(T * K),
                                                 .row_TK = ids(T * K).reshaped({T, K}),
                                                 .choice_TK = choices(o, T, K, E)};
                    }});
  return list;
}

inline Examples<kernel::SumRows> examples(Of<kernel::SumRows>) {
  Examples<kernel::SumRows> list;
  enum Beside { nothing, a_skip, its_result };
  for (const auto beside : {nothing, a_skip, its_result})
    for (const std::int64_t C : {1, 7, 72})
      list.push_back({"width " + std::to_string(C) +
                          (beside == nothing  ? ""
                           : beside == a_skip ? " and a skip"
                                              : " into the skip"),
                      [=](Operands& o) {
                        constexpr std::int64_t T = 4, K = 3, R = T * K;
                        std::vector<std::int32_t> place;
                        for (int r = 0; r < R; ++r) place.push_back((5 * r + 3) % R);
                        const View y = o.values({T, C});
                        return kernel::SumRows{.y_TC = y,
                                               .x_RC = o.values({R, C}),
                                               .row_TK = o.ids(place).reshaped({T, K}),
                                               .skip_TC = beside == nothing  ? View{}
                                                          : beside == a_skip ? o.values({T, C})
                                                                             : y};
                      }});
  return list;
}

inline Examples<kernel::GroupedMatmul> examples(Of<kernel::GroupedMatmul>) {
  constexpr std::int64_t N = 7, K = 11;
  Examples<kernel::GroupedMatmul> list;
  enum Layout { by_rows, by_columns, parts };
  const auto add = [&](const char* name, std::vector<std::int32_t> offset, Layout layout,
                       SumOrder order) {
    list.push_back({name, [=](Operands& o) {
                      const auto b = [&] {
                        if (layout == by_rows) return o.values({K, N});
                        if (layout == by_columns) return o.values({N, K}).transposed();
                        return o.values({N, K + 2}).slice(1, 1, K).transposed();
                      };
                      kernel::GroupedMatmul x{.c_RN = o.values({offset.back(), N}),
                                              .a_RK = o.values({offset.back(), K}),
                                              .offset_E1 = o.ids(offset),
                                              .b_KN = {},
                                              .order = order};
                      for (std::size_t e = 0; e + 1 < offset.size(); ++e) x.b_KN.push_back(b());
                      return x;
                    }});
  };
  for (const auto layout : {by_rows, by_columns, parts}) {
    const bool rows = layout == by_rows;
    add(rows ? "by rows" : "by columns", {0, 5, 5, 12}, layout, SumOrder::any);
    add(rows ? "one has all, by rows" : "one has all", {0, 0, 37, 37}, layout, SumOrder::any);
    add(rows ? "each by itself, by rows" : "each by itself", {0, 5, 5, 12}, layout,
        SumOrder::by_row);
  }
  add("one expert", {0, 9}, by_columns, SumOrder::any);
  return list;
}

inline Examples<kernel::GroupedMatmulGrad> examples(Of<kernel::GroupedMatmulGrad>) {
  constexpr std::int64_t M = 7, N = 11, E = 3;
  Examples<kernel::GroupedMatmulGrad> list;
  enum Absent { first = 0, second = 1, third = 2, none };
  const auto add = [&](const char* name, std::vector<std::int32_t> offset, Accumulate how,
                       bool counted, int absent) {
    list.push_back({name + mode(how),
                    [=](Operands& o) {
                      kernel::GroupedMatmulGrad x{.c_MN = {},
                                                  .how = how,
                                                  .a_RM = o.values({offset.back(), M}),
                                                  .b_RN = o.values({offset.back(), N}),
                                                  .offset_E1 = o.ids(offset)};
                      for (int e = 0; e < E; ++e) {
                        const bool wanted = e != absent;
                        if (!wanted)
                          x.c_MN.push_back({});
                        else
                          x.c_MN.push_back(counted ? counts(o, {M, N}) : o.wide_values({M, N}));
                        if (counted) x.largest.push_back(wanted ? largest(o) : View{});
                      }
                      if (!counted) return x;
                      std::vector<std::int32_t> token;
                      for (int e = 0; e < E; ++e)
                        for (int r = offset[static_cast<std::size_t>(e)], t = e;
                             r < offset[static_cast<std::size_t>(e) + 1]; ++r, t += 2)
                          token.push_back(t);
                      x.token_R = o.ids(token);
                      x.leaf = 4;
                      return x;
                    },
                    counted});
  };
  for (const auto how : both_modes)
    for (const bool counted : {false, true}) {
      // An expert without rows gets none: what is there stays, or becomes 0.
      add(counted ? "counts" : "sums", {0, 5, 8, 12}, how, counted, none);
      add(counted ? "counts without the first" : "without the first", {0, 5, 8, 12}, how, counted,
          first);
      add(counted ? "counts without the second" : "without the second", {0, 5, 8, 12}, how, counted,
          second);
      add(counted ? "counts without the third" : "without the third", {0, 5, 8, 12}, how, counted,
          third);
      add(counted ? "counts, one has all" : "one has all", {0, 37, 37, 37}, how, counted, none);
    }
  return list;
}

// The second expert has no rows.
inline Examples<kernel::GroupedBias> examples(Of<kernel::GroupedBias>) {
  Examples<kernel::GroupedBias> list;
  for (const bool weighted : {false, true})
    for (const std::int64_t N : {1, 7, 72})
      list.push_back(
          {"width " + std::to_string(N) + (weighted ? " weighted" : ""), [=](Operands& o) {
             kernel::GroupedBias x{.y_RN = o.values({12, N}),
                                   .offset_E1 = o.ids({0, 5, 5, 12}),
                                   .bias_N = {},
                                   .weight_R = weighted ? o.wide_values({12}) : View{}};
             for (int e = 0; e < 3; ++e) x.bias_N.push_back(o.values({N}));
             return x;
           }});
  return list;
}

// Gradients of biases, of weights, or of both. A letter each: b, w; q: biases are quanta; x: rows
// have weights. The second expert has no rows, and the gradient of the third one is not needed.
inline Examples<kernel::GroupedBiasGrad> examples(Of<kernel::GroupedBiasGrad>) {
  Examples<kernel::GroupedBiasGrad> list;
  for (const auto how : both_modes)
    for (const std::string what : {"b", "w", "bw", "bx", "bwx", "bq", "bwqx"})
      for (const std::int64_t N : {1, 7, 72}) {
        const auto has = [=](char c) { return what.find(c) != what.npos; };
        list.push_back({what + " width " + std::to_string(N) + mode(how),
                        [=](Operands& o) {
                          kernel::GroupedBiasGrad x{
                              .how = how,
                              .dweight_R = has('w') ? o.wide_values({19}) : View{},
                              .dy_RN = o.values({19, N}),
                              .offset_E1 = o.ids({0, 5, 5, 12, 19}),
                              .weight_R = has('x') ? o.wide_values({19}) : View{}};
                          // Lists have the same length in all examples, and another expert
                          // without a bias.
                          const int without = how == Accumulate::add ? 2 : 1;
                          for (int e = 0; e < 4; ++e) {
                            const bool wanted = has('b') && e != without;
                            x.dbias_N.push_back(!wanted    ? View{}
                                                : has('q') ? counts(o, {N})
                                                           : o.wide_values({N}));
                            x.largest.push_back(wanted && has('q') ? largest(o) : View{});
                            x.bias_N.push_back(o.values({N}));
                          }
                          return x;
                        },
                        has('q')});
      }
  return list;
}

}  // namespace trireme
