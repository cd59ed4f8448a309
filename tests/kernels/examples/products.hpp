#pragma once
#include <algorithm>

#include "tests/kernels/examples/example.hpp"

namespace trireme {

inline Examples<kernel::Matmul> examples(Of<kernel::Matmul>) {
  using O = kernel::Matmul;
  constexpr std::int64_t M = 5, N = 7, K = 11;
  Examples<O> list;
  for (const auto how : both_modes) {
    list.push_back({"by rows" + mode(how), [how](Operands& o) {
                      return O{.c_MN = o.values({M, N}),
                               .a_MK = o.values({M, K}),
                               .b_KN = o.values({K, N}),
                               .how = how};
                    }});
    list.push_back({"parts of matrices" + mode(how), [how](Operands& o) {
                      return O{.c_MN = o.values({M, N + 2}).slice(1, 0, N),
                               .a_MK = o.values({M, K + 3}).slice(1, 1, K),
                               .b_KN = o.values({N, K + 1}).slice(1, 0, K).transposed(),
                               .how = how};
                    }});
    list.push_back({"larger" + mode(how), [how](Operands& o) {
                      return O{.c_MN = o.values({33, 65}),
                               .a_MK = o.values({33, 129}),
                               .b_KN = o.values({129, 65}),
                               .how = how};
                    }});
    for (const bool sums : {false, true})
      list.push_back({(sums ? "gradient of weights and bias" : "gradient of weights") + mode(how),
                      [=](Operands& o) {
                        return O{.c_MN = o.wide_values({M, N}),
                                 .a_MK = o.values({K, M}).transposed(),
                                 .b_KN = o.values({K, N}),
                                 .how = how,
                                 .epilogue = {.row_sum_M = sums ? o.wide_values({M}) : View{}}};
                      }});
  }
  const auto with = [&](const char* name, const std::function<Epilogue(Operands&)>& epilogue) {
    list.push_back({name, [epilogue](Operands& o) {
                      return O{.c_MN = o.values({M, N}),
                               .a_MK = o.values({M, K}),
                               .b_KN = o.values({N, K}).transposed(),
                               .epilogue = epilogue(o)};
                    }});
  };
  with("bias", [](Operands& o) { return Epilogue{.bias_N = o.values({N})}; });
  with("gelu", [](Operands& o) { return Epilogue{.activated_MN = o.values({M, N})}; });
  with("bias and gelu", [](Operands& o) {
    return Epilogue{.bias_N = o.values({N}), .activated_MN = o.values({M, N})};
  });
  with("slope of gelu", [](Operands& o) {
    return Epilogue{.activated_at_MN = o.values({M, N}, 3)};
  });
  return list;
}

// q, k, v and o stand packed, as their gradients do: strided, with each other in their gaps.
struct PackedAttention {
  PackedAttention(Operands& from, const AttentionShape& s)
      : all(from.values({s.batch, s.tokens, 2 * s.heads + 2 * s.kv_heads + 1, s.head_dim})),
        q(all.slice(2, 0, s.heads)),
        k(all.slice(2, s.heads, s.kv_heads)),
        v(all.slice(2, s.heads + s.kv_heads, s.kv_heads)),
        o(all.slice(2, s.heads + 2 * s.kv_heads, s.heads)) {}
  View all, q, k, v, o;
};

inline const AttentionShape attention_shapes[] = {{2, 5, 2, 2, 16, 0.25},
                                                  {1, 33, 6, 2, 20, 0.2},
                                                  {2, 1, 3, 1, 32, 0.3},
                                                  {1, 70, 2, 1, 64, 0.125},
                                                  {1, 70, 2, 1, 32, 0.2, 34}};
inline std::string text_of(const AttentionShape& s) {
  return "T " + std::to_string(s.tokens) + " D " + std::to_string(s.head_dim) +
         (s.window > 0 ? " window" : "");
}

// Documents of four tokens, of which the first in sample b lacks b + 1.
inline View documents(Operands& o, const AttentionShape& s) {
  std::vector<std::int32_t> start;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t t = 0; t < s.tokens; ++t)
      start.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, t - (t + b + 1) % 4)));
  return o.ids(start).reshaped({s.batch, s.tokens});
}

inline Examples<kernel::Attention> examples(Of<kernel::Attention>) {
  Examples<kernel::Attention> list;
  for (const auto& s : attention_shapes)
    for (const bool apart : {false, true})
      list.push_back(
          {text_of(s) + (apart ? " within documents" : ""), [s, apart](Operands& o) {
             const PackedAttention x(o, s);
             const View sinks = s.tokens > 60 ? o.values({s.heads}) : View{};
             return kernel::Attention{
                 .o_BTHD = x.o,
                 .lse_BHT = o.wide_values({s.batch, s.heads, s.tokens}),
                 .q_BTHD = x.q,
                 .k_BTGD = x.k,
                 .v_BTGD = x.v,
                 .shape = s,
                 .workspace = o.workspace(
                     o.backend.attention_bytes(s, o.compute, Direction::forward).workspace),
                 .start_BT = apart ? documents(o, s) : View{},
                 .sink_H = sinks};
           }});
  return list;
}

// lse and o are any numbers: weights are exp(score - lse), whatever they add to.
inline Examples<kernel::AttentionGrad> examples(Of<kernel::AttentionGrad>) {
  Examples<kernel::AttentionGrad> list;
  for (const auto& s : attention_shapes)
    for (const bool apart : {false, true})
      list.push_back(
          {text_of(s) + (apart ? " within documents" : ""), [s, apart](Operands& o) {
             const PackedAttention x(o, s), d(o, s);
             return kernel::AttentionGrad{
                 .dq_BTHD = d.q,
                 .dk_BTGD = d.k,
                 .dv_BTGD = d.v,
                 .do_BTHD = d.o,
                 .o_BTHD = x.o,
                 .lse_BHT = o.wide_values({s.batch, s.heads, s.tokens}),
                 .q_BTHD = x.q,
                 .k_BTGD = x.k,
                 .v_BTGD = x.v,
                 .shape = s,
                 .workspace = o.workspace(
                     o.backend.attention_bytes(s, o.compute, Direction::backward).workspace),
                 .start_BT = apart ? documents(o, s) : View{}};
           }});
  list.push_back({"counts",
                  [](Operands& o) {
                    const auto s = attention_shapes[1];
                    const PackedAttention x(o, s), d(o, s);
                    const Shape keys{s.batch, s.tokens, s.kv_heads, s.head_dim};
                    return kernel::AttentionGrad{
                        .dq_BTHD = d.q,
                        .dk_BTGD = counts(o, keys),
                        .dv_BTGD = counts(o, keys),
                        .do_BTHD = d.o,
                        .o_BTHD = x.o,
                        .lse_BHT = o.wide_values({s.batch, s.heads, s.tokens}),
                        .q_BTHD = x.q,
                        .k_BTGD = x.k,
                        .v_BTGD = x.v,
                        .shape = s,
                        .workspace = o.workspace(
                            o.backend.attention_bytes(s, o.compute, Direction::backward).workspace),
                        .keys = Accumulate::add,
                        .largest = largest(o)};
                  },
                  true});
  return list;
}

inline Examples<kernel::SinkGrad> examples(Of<kernel::SinkGrad>) {
  Examples<kernel::SinkGrad> list;
  for (const auto& s : attention_shapes)
    for (const auto how : both_modes)
      list.push_back({text_of(s) + mode(how), [s, how](Operands& o) {
                        const PackedAttention x(o, s), d(o, s);
                        return kernel::SinkGrad{
                            .dsink_H = o.wide_values({s.heads}),
                            .how = how,
                            .do_BTHD = d.o,
                            .o_BTHD = x.o,
                            .lse_BHT = o.wide_values({s.batch, s.heads, s.tokens}),
                            .sink_H = o.values({s.heads})};
                      }});
  return list;
}

// Rows of q, k, v and o stand packed; what the caches have behind the last position stays.
inline Examples<kernel::CachedAttention> examples(Of<kernel::CachedAttention>) {
  Examples<kernel::CachedAttention> list;
  struct Sizes {
    std::int64_t rows, at, heads, kv_heads, dim, window = 0;
  };
  for (const auto& [T, at, H, G, D, window] : {Sizes{1, 0, 2, 2, 16},
                                               {1, 70, 6, 2, 20},
                                               {3, 62, 2, 1, 64},
                                               {2, 5, 3, 3, 8},
                                               {2, 200, 3, 3, 8, 100}})
    list.push_back({"at " + std::to_string(at) + " D " + std::to_string(D), [=](Operands& o) {
                      const auto packed = o.values({T, 2 * H + 2 * G, D});
                      const auto caches = o.values({2 * G, window > 0 ? 128 : at + T + 2, D});
                      auto cache = [&](std::int64_t first) {
                        auto v = caches.slice(0, first, G);
                        std::swap(v.extent[0], v.extent[1]);
                        std::swap(v.stride[0], v.stride[1]);
                        return v;
                      };
                      return kernel::CachedAttention{
                          .o_THD = packed.slice(1, H + 2 * G, H),
                          .k_cache_PGD = cache(0),
                          .v_cache_PGD = cache(G),
                          .q_THD = packed.slice(1, 0, H),
                          .k_TGD = packed.slice(1, H, G),
                          .v_TGD = packed.slice(1, H + G, G),
                          .at = at,
                          .scale = 0.25,
                          .window = window,
                          .sink_H = at == 5 || window > 0 ? o.values({H}) : View{}};
                    }});
  return list;
}

}  // namespace trireme
