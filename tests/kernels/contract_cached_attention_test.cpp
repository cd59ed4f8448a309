// Attention with kept keys and values, against attention over all positions at once by the oracle;
// and products by row.
#include <fmt/format.h>

#include <cmath>

#include "tests/support/contract.hpp"

namespace trireme {
namespace {

constexpr auto queue = Queue::compute;
constexpr double amplitude = 1.5;

class CachedContract : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Backends, CachedContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

// One sample's q, k and v of all positions, packed, and its caches of P positions, [G, P, D].
struct Sample {
  Sample(Lab& l, const AttentionShape& s)
      : lab(l),
        shape(s),
        qkv(l.random({s.tokens, s.heads + 2 * s.kv_heads, s.head_dim}, 1, amplitude)),
        o(l.fresh({s.tokens, s.heads, s.head_dim})),
        sinks(s.window > 0 ? l.random({s.heads}, 2, 3) : View{}),
        k(l.fresh({s.kv_heads, rows_kept(s), s.head_dim})),
        v(l.fresh({s.kv_heads, rows_kept(s), s.head_dim})) {}
  // More than there are positions, or those of a window alone, in whole pieces.
  static std::int64_t rows_kept(const AttentionShape& s) {
    return s.window > 0 ? (s.window + 63) / 64 * 64 : s.tokens + 3;
  }
  View rows(std::int64_t first, std::int64_t heads, std::int64_t t, std::int64_t n) const {
    return qkv.slice(1, first, heads).slice(0, t, n);
  }
  static View by_position(View v) {
    std::swap(v.extent[0], v.extent[1]);
    std::swap(v.stride[0], v.stride[1]);
    return v;
  }
  void put(std::int64_t t, std::int64_t n) const {
    const auto H = shape.heads, G = shape.kv_heads;
    lab.backend.put(queue, kernel::CachedAttention{.o_THD = o.slice(0, t, n),
                                                   .k_cache_PGD = by_position(k),
                                                   .v_cache_PGD = by_position(v),
                                                   .q_THD = rows(0, H, t, n),
                                                   .k_TGD = rows(H, G, t, n),
                                                   .v_TGD = rows(H + G, G, t, n),
                                                   .at = t,
                                                   .scale = shape.scale,
                                                   .window = shape.window,
                                                   .sink_H = sinks,
                                                   .softcap = shape.softcap});
  }
  Lab& lab;
  AttentionShape shape;
  View qkv, o, sinks, k, v;
};

// The oracle attends to all positions at once; the backend under test makes them in pieces. The
// bound is that of contract_attention_test.cpp: p is off by the errors of two scores and a sum.
TEST_P(CachedContract, PositionsOneByOneAreThoseAtOnce) {
  for (const AttentionShape& s : {AttentionShape{1, 9, 3, 1, 16, 0.25},
                                  {1, 70, 4, 2, 20, 0.25},
                                  {1, 131, 2, 2, 64, 0.125},
                                  {1, 66, 5, 2, 24, 0.2},
                                  {1, 200, 2, 2, 24, 0.2, 7},
                                  {1, 300, 4, 2, 32, 0.2, 100},
                                  {1, 560, 9, 1, 24, 0.2},
                                  {1, 12, 2, 1, 200, 0.07},
                                  {1, 70, 4, 2, 20, 0.25, 0, 0, 0, 0, false, 1.5},
                                  {1, 300, 4, 2, 32, 0.2, 100, 0, 0, 0, false, 3}}) {
    const auto whole = oracle([s](Lab& lab) {
      const Sample x(lab, s);
      const View o = lab.fresh({1, s.tokens, s.heads, s.head_dim});
      const auto all = x.qkv.reshaped({1, s.tokens, s.heads + 2 * s.kv_heads, s.head_dim});
      lab.backend.put(
          queue, kernel::Attention{
                     .o_BTHD = o,
                     .lse_BHT = lab.wide_fresh({1, s.heads, s.tokens}),
                     .q_BTHD = all.slice(2, 0, s.heads),
                     .k_BTGD = all.slice(2, s.heads, s.kv_heads),
                     .v_BTGD = all.slice(2, s.heads + s.kv_heads, s.kv_heads),
                     .shape = s,
                     .workspace = lab.workspace(
                         lab.backend.attention_bytes(s, lab.compute, Direction::forward).workspace),
                     .sink_H = x.sinks});
      lab.result("o", o, 0);
    });
    compare(fmt::format("T {} heads {}/{} D {}", s.tokens, s.heads, s.kv_heads, s.head_dim),
            [s, expected = whole[0].values](Lab& lab) {
              const Sample x(lab, s);
              const auto first = s.window > 0 ? 1 : std::max(s.tokens / 2, s.tokens - 40);
              x.put(0, first);
              for (auto t = first; t < s.tokens; ++t) x.put(t, 1);
              const double row = lab.longest_row(x.qkv), most = s.scale * row * row;
              const double u = roundoff(wide(lab.tested));
              const double score = sum_error(lab.tested, s.head_dim, most) + 10 * u * s.softcap;
              const double p = 3 * score + 8 * u * (most + std::log(double(s.tokens)) + 1) +
                               sum_error(lab.tested, s.tokens, 1);
              const double slack = p * amplitude + sum_error(lab.tested, s.tokens, amplitude);
              lab.result("o", x.o, slack);
              const auto got = lab.read(x.o);
              for (std::size_t i = 0; i < got.size(); ++i)
                ASSERT_NEAR(got[i], expected[i], tolerance(lab.compute, got[i], slack)) << i;
            });
  }
}

// The bits of a position do not depend on the positions that the same call computes.
TEST_P(CachedContract, CallsOfSeveralPositions) {
  for (const AttentionShape& s :
       {AttentionShape{1, 24, 3, 1, 16, 0.25}, {1, 270, 2, 1, 8, 0.25}, {1, 90, 4, 2, 16, 0.25, 7}})
    run([s](Lab& lab) {
      const Sample one(lab, s), some(lab, s);
      const auto before = std::max<std::int64_t>(0, s.tokens - 90);
      for (const auto* x : {&one, &some})
        if (before > 0) x->put(0, before);
      for (auto t = before; t < s.tokens; ++t) one.put(t, 1);
      for (auto t = before, n = t; t < s.tokens; t += n) {
        n = std::min<std::int64_t>(1 + t % 4, s.tokens - t);
        some.put(t, n);
      }
      EXPECT_EQ(lab.bytes(some.o), lab.bytes(one.o));
    });
}

// A row has the same bits whatever rows stand beside it.
TEST_P(CachedContract, ProductsByRow) {
  for (const auto& [N, K] : {std::pair<std::int64_t, std::int64_t>{7, 5}, {65, 96}, {130, 77}})
    for (const auto how : {Accumulate::overwrite, Accumulate::add})
      compare(fmt::format("N {} K {}", N, K), [N = N, K = K, how](Lab& lab) {
        const std::int64_t M = 6;
        const View a = lab.random({M, K}, 1), b = lab.random({N, K}, 2), bias = lab.random({N}, 3);
        const auto multiply = [&](std::int64_t first, std::int64_t rows) {
          const View c = lab.random({M, N}, 4).slice(0, first, rows);
          lab.backend.put(queue, kernel::Matmul{.c_MN = c,
                                                .a_MK = a.slice(0, first, rows),
                                                .b_KN = ConstView(b).transposed(),
                                                .how = how,
                                                .epilogue = {.bias_N = bias},
                                                .order = SumOrder::by_row});
          return c;
        };
        const View all = multiply(0, M);
        for (const std::int64_t rows : {1, 2, 3, 5})
          for (std::int64_t m = 0; m + rows <= M; ++m)
            EXPECT_EQ(lab.bytes(multiply(m, rows)), lab.bytes(all.slice(0, m, rows)));
        lab.result("c", all, sum_error(lab.tested, K + 2, double(K) + 2));
      });
}

}  // namespace
}  // namespace trireme
