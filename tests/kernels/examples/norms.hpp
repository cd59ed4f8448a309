#pragma once
#include "tests/kernels/examples/example.hpp"

namespace trireme {

// A layer norm has a mean and, in two of three examples, a bias; an RMS norm has neither.
enum class NormFlavour { layer, layer_without_bias, rms };
inline constexpr NormFlavour norm_flavours[] = {NormFlavour::layer, NormFlavour::layer_without_bias,
                                                NormFlavour::rms};
inline std::string text_of(NormFlavour k, std::int64_t width) {
  constexpr const char* names[] = {"layer norm", "layer norm without bias", "RMS norm"};
  return names[static_cast<int>(k)] + std::string(" of ") + std::to_string(width);
}

inline Examples<kernel::Norm> examples(Of<kernel::Norm>) {
  constexpr std::int64_t T = 5;
  Examples<kernel::Norm> list;
  for (const std::int64_t C : {7, 72, 129})
    for (const auto kind : norm_flavours)
      list.push_back({text_of(kind, C), [=](Operands& o) {
                        return kernel::Norm{
                            .y_TC = o.values({T, C}),
                            .mean_T = kind == NormFlavour::rms ? View{} : o.wide_values({T}),
                            .rstd_T = o.wide_values({T}),
                            .x_TC = o.values({T, C}, 3),
                            .w_C = o.values({C}),
                            .b_C = kind == NormFlavour::layer ? o.values({C}) : View{},
                            .eps = 0.1};
                      }});
  return list;
}

// What is wanted of a norm's gradient, as letters: x, w, b, s for a sum beside it, o where dx is
// written over dy.
inline Example<kernel::NormGrad> norm_grad_example(NormFlavour kind, std::string wanted,
                                                   Accumulate how, std::int64_t T, std::int64_t C) {
  return {text_of(kind, C) + " d" + wanted + mode(how), [=](Operands& o) {
            const Shape all{T, C};
            const auto wants = [&](char what) { return wanted.find(what) != std::string::npos; };
            const View dy = o.values(all);
            return kernel::NormGrad{
                .dx_TC = wants('o')   ? dy
                         : wants('x') ? o.values(all)
                                      : View{},
                .dw_C = wants('w') ? o.wide_values({C}) : View{},
                .db_C = wants('b') ? o.wide_values({C}) : View{},
                .how = how,
                .dsum_TC = wants('s') ? o.values(all) : View{},
                .dy_TC = dy,
                .x_TC = o.values(all, 2),
                // Weight gradients alone need none; with a sum beside them one is there.
                .w_C = wants('x') || wants('o') || wants('s') ? o.values({C}) : View{},
                .mean_T = kind == NormFlavour::rms ? View{} : o.wide_values({T}, 0.1),
                .rstd_T = o.positive({T})};
          }};
}

inline Examples<kernel::NormGrad> examples(Of<kernel::NormGrad>) {
  Examples<kernel::NormGrad> list;
  for (const auto how : both_modes)
    for (const std::int64_t C : {7, 72}) {
      for (const char* wanted :
           {"xwb", "x", "wb", "w", "b", "xw", "xb", "xwbs", "xs", "wbs", "owb", "o", "owbs"})
        list.push_back(norm_grad_example(NormFlavour::layer, wanted, how, 37, C));
      for (const char* wanted : {"xw", "x", "w", "xws", "xs", "ws", "ow", "ows"})
        list.push_back(norm_grad_example(NormFlavour::rms, wanted, how, 37, C));
    }
  return list;
}

enum class SumIn { memory_of_its_own, memory_of_x };

inline Examples<kernel::ResidualNorm> examples(Of<kernel::ResidualNorm>) {
  constexpr std::int64_t B = 2, T = 3;
  Examples<kernel::ResidualNorm> list;
  const auto add = [&](const char* what, NormFlavour kind, float p, bool skip, SumIn where,
                       std::int64_t C) {
    list.push_back({text_of(kind, C) + what, [=](Operands& o) {
                      const Shape all{B, T, C};
                      const View x = o.values(all);
                      const bool mean = kind != NormFlavour::rms, bias = kind == NormFlavour::layer;
                      return kernel::ResidualNorm{
                          .sum_BTC = where == SumIn::memory_of_x ? x : o.values(all),
                          .y_BTC = o.values(all),
                          .mean_T = mean ? o.wide_values({B * T}) : View{},
                          .rstd_T = o.wide_values({B * T}),
                          .x_BTC = x,
                          .skip_BTC = skip ? o.values(all) : View{},
                          .w_C = o.values({C}),
                          .b_C = bias ? o.values({C}) : View{},
                          .eps = 0.1,
                          .key = {0x123456789abcdefULL, p},
                          .rows = {p > 0 ? o.numbers({7, 3}) : View{}, 5,
                                   p > 0 && skip ? o.ids({4, 0, 9}) : View{}}};
                    }});
  };
  for (const std::int64_t C : {7, 72})
    for (const auto kind : norm_flavours) {
      add(" of x with gaps and skip", kind, 0.3F, true, SumIn::memory_of_its_own, C);
      add(" of x and skip", kind, 0, true, SumIn::memory_of_its_own, C);
      add(" of x with gaps", kind, 0.3F, false, SumIn::memory_of_its_own, C);
      add(" of x", kind, 0, false, SumIn::memory_of_its_own, C);
      add(" of x with gaps and skip, over x", kind, 0.3F, true, SumIn::memory_of_x, C);
      add(" of x and skip, over x", kind, 0, true, SumIn::memory_of_x, C);
    }
  return list;
}

}  // namespace trireme
