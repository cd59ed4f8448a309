// Attention whose keys come in pieces, and with queries that stand anywhere in their context:
// queries have the bits of all keys at once, and gradients of keys add up to the same.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/fixed.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

constexpr auto queue = Queue::compute;
using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Case {
  AttentionShape whole;               // of T queries and their keys
  std::vector<std::int64_t> borders;  // of pieces of keys, multiples of key_tile but the end
  std::vector<std::int64_t> queries;  // borders of calls' queries
  bool documents = false;
  bool sinks = false;
};

const std::vector<Case> cases{
    {{2, 200, 2, 2, 32, 0.3}, {0, 64, 192, 200}, {0, 200}},
    {{1, 200, 3, 3, 20, 0.3}, {0, 128, 200}, {0, 37, 150, 200}},
    {{1, 300, 4, 4, 64, 0.1, 70}, {0, 64, 128, 256, 300}, {0, 64, 100, 300}},
    {{1, 300, 2, 2, 24, 0.1, 1}, {0, 128, 300}, {0, 300}},
    {{2, 300, 2, 2, 16, 0.2}, {0, 192, 256, 300}, {0, 130, 300}, true},
    {{2, 300, 2, 2, 16, 0.2, 100}, {0, 192, 256, 300}, {0, 130, 300}, true},
    {{2, 300, 2, 2, 16, 0.2, 70}, {0, 192, 256, 300}, {0, 130, 300}, true, true},
    {{1, 200, 2, 2, 20, 0.3}, {0, 64, 192, 200}, {0, 200}, false, true},
    // Pieces before a run of queries, up to it, and both, as cuDNN takes them; in a window not all.
    {{2, 192, 2, 2, 32, 0.3}, {0, 64, 128, 192}, {0, 64, 128, 192}},
    {{1, 192, 2, 2, 32, 0.3}, {0, 64, 192}, {0, 64, 128, 192}, false, true},
    {{1, 192, 2, 2, 32, 0.2, 70}, {0, 64, 128, 192}, {0, 64, 128, 192}},
};

std::string describe(const Case& c) {
  return fmt::format("T {} D {} window {}{}{}", c.whole.tokens, c.whole.head_dim, c.whole.window,
                     c.documents ? " documents" : "", c.sinks ? " sinks" : "");
}

// Everything that one context's calls read and write. [B, T, H, D] and [B, H, T].
struct Context {
  Context(Lab& l, const Case& c) : lab(l), of(c), s(c.whole) {
    const Shape rows{s.batch, s.tokens, s.heads, s.head_dim};
    q = lab.random(rows, 1);
    k = lab.random(rows, 2);
    v = lab.random(rows, 3);
    d_o = lab.random(rows, 4);
    if (c.sinks) sinks = lab.random({s.heads}, 5, 3);
    if (!c.documents) return;
    std::vector<std::int32_t> start;
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int32_t t = 0; t < s.tokens; ++t)
        for (const std::int32_t begin : {230 - 20 * static_cast<std::int32_t>(b), 71, 70, 0})
          if (t >= begin) {
            start.push_back(begin);
            break;
          }
    starts = lab.ids(start).reshaped({s.batch, s.tokens});
  }

  // The pieces of keys that queries [begin, end) see.
  Ranges pieces(std::int64_t end) const {
    Ranges all;
    for (std::size_t i = 0; i + 1 < of.borders.size() && of.borders[i] < end; ++i)
      all.emplace_back(of.borders[i], of.borders[i + 1]);
    return all;
  }
  static Piece piece(std::size_t i, std::size_t n) {
    if (n == 1) return Piece::all;
    return i == 0 ? Piece::first : i + 1 == n ? Piece::last : Piece::next;
  }
  AttentionShape shape(std::int64_t begin, std::int64_t end, std::int64_t key,
                       std::int64_t key_end) const {
    auto part = s;
    part.tokens = end - begin;
    part.query_at = begin;
    part.key_at = key;
    part.key_count = key_end - key;
    return part;
  }
  static auto rows(const auto& v, std::int64_t begin, std::int64_t end) {
    return v.slice(1, begin, end - begin);
  }
  ConstView starts_of(std::int64_t begin, std::int64_t end) const {
    return starts ? ConstView(rows(starts, begin, end)) : ConstView{};
  }
  View memory(std::size_t bytes) const { return bytes > 0 ? lab.workspace(bytes) : View{}; }

  // What is not written stays NaN.
  void forward(const View& o, const View& lse, std::int64_t begin, std::int64_t end,
               Ranges keys) const {
    View state;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [key, key_end] = keys[i];
      const auto part = shape(begin, end, key, key_end);
      const auto bytes = lab.backend.attention_bytes(part, lab.compute, Direction::forward);
      if (!state) state = memory(bytes.state);
      const bool last = i + 1 == keys.size();
      lab.backend.put(queue,
                      kernel::Attention{.o_BTHD = last ? rows(o, begin, end) : View{},
                                        .lse_BHT = last ? lse.slice(2, begin, end - begin) : View{},
                                        .q_BTHD = rows(q, begin, end),
                                        .k_BTGD = rows(k, key, key_end),
                                        .v_BTGD = rows(v, key, key_end),
                                        .shape = part,
                                        .workspace = memory(bytes.workspace),
                                        .start_BT = starts_of(begin, end),
                                        .piece = piece(i, keys.size()),
                                        .state = state,
                                        .sink_H = sinks});
    }
  }
  void backward(const View& dq, const View& dk, const View& dv, const View& o, const View& lse,
                std::int64_t begin, std::int64_t end, Ranges keys, Accumulate how, int shift = 0,
                const View& largest = {}) const {
    View state;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [key, key_end] = keys[i];
      const auto part = shape(begin, end, key, key_end);
      const auto bytes = lab.backend.attention_bytes(part, lab.compute, Direction::backward);
      if (!state) state = memory(bytes.state);
      lab.backend.put(queue, kernel::AttentionGrad{
                                 .dq_BTHD = i + 1 == keys.size() ? rows(dq, begin, end) : View{},
                                 .dk_BTGD = rows(dk, key, key_end),
                                 .dv_BTGD = rows(dv, key, key_end),
                                 .do_BTHD = rows(d_o, begin, end),
                                 .o_BTHD = rows(o, begin, end),
                                 .lse_BHT = lse.slice(2, begin, end - begin),
                                 .q_BTHD = rows(q, begin, end),
                                 .k_BTGD = rows(k, key, key_end),
                                 .v_BTGD = rows(v, key, key_end),
                                 .shape = part,
                                 .workspace = memory(bytes.workspace),
                                 .start_BT = starts_of(begin, end),
                                 .piece = piece(i, keys.size()),
                                 .state = state,
                                 .keys = how,
                                 .shift = shift,
                                 .largest = largest});
    }
  }
  Shape shape() const { return {s.batch, s.tokens, s.heads, s.head_dim}; }
  View fresh() const { return lab.fresh(Shape{s.batch, s.tokens, s.heads, s.head_dim}); }
  View zeros() const {
    const View z = lab.wide_fresh(Shape{s.batch, s.tokens, s.heads, s.head_dim});
    lab.backend.put(queue, kernel::Fill{.dst = z, .value = 0});
    return z;
  }
  // All queries, one run after the other, with the pieces of keys that each sees.
  void forward_in_pieces(const View& o, const View& lse) const {
    for (std::size_t i = 0; i + 1 < of.queries.size(); ++i)
      forward(o, lse, of.queries[i], of.queries[i + 1], pieces(of.queries[i + 1]));
  }
  View stats() const { return lab.wide_fresh({s.batch, s.heads, s.tokens}); }

  Lab& lab;
  Case of;
  AttentionShape s;
  View q, k, v, d_o, starts{}, sinks{};
};

class AttentionPieces : public ContractTest {
 protected:
  // cuDNN computes pieces apart, and rounds what each gives: no more than 8 roundings in a row.
  static void expect_same(Lab& lab, const View& got, const View& want) {
    if (!on_device() || lab.compute != DType::bf16) {
      EXPECT_EQ(lab.bytes(got), lab.bytes(want));
      return;
    }
    const auto x = lab.read(got), exact = lab.read(want);
    double off = 0, all = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      off += (x[i] - exact[i]) * (x[i] - exact[i]);
      all += exact[i] * exact[i];
    }
    // What adds up to nothing is left of dot products.
    const double rest = sum_error(DType::bf16, 64, 64) * std::sqrt(static_cast<double>(x.size()));
    EXPECT_LE(std::sqrt(off), 8 * roundoff(DType::bf16) * std::sqrt(all) + rest);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, AttentionPieces, testing::ValuesIn(tested_backends()),
                         name_of_tested);

TEST_P(AttentionPieces, QueriesHaveTheBitsOfAllKeysAtOnce) {
  for (const auto& c : cases) {
    SCOPED_TRACE(describe(c));
    run([c](Lab& lab) {
      const Context x(lab, c);
      const auto T = x.s.tokens;
      const View o = x.fresh(), lse = x.stats(), dq = x.fresh(), dk = x.zeros(), dv = x.zeros();
      x.forward(o, lse, 0, T, {{0, T}});
      x.backward(dq, dk, dv, o, lse, 0, T, {{0, T}}, Accumulate::overwrite);
      const View o_parts = x.fresh(), lse_parts = x.stats(), dq_parts = x.fresh(),
                 dk_parts = x.zeros(), dv_parts = x.zeros();
      x.forward_in_pieces(o_parts, lse_parts);
      for (std::size_t i = 0; i + 1 < c.queries.size(); ++i) {
        const auto begin = c.queries[i], end = c.queries[i + 1];
        x.backward(dq_parts, dk_parts, dv_parts, o, lse, begin, end, x.pieces(end),
                   Accumulate::add);
      }
      expect_same(lab, o_parts, o);
      expect_same(lab, lse_parts, lse);
      expect_same(lab, dq_parts, dq);
      // Sums in the wide type go on where they were left; the oracle rounds its doubles to it.
      if (wide(lab.compute) == DType::f64 || !GetParam().name.starts_with("ref")) {
        expect_same(lab, dk_parts, dk);
        expect_same(lab, dv_parts, dv);
      }
    });
  }
}

// A call's sums over its queries are one term each.
TEST_P(AttentionPieces, GradientsOfKeysAreCountedByTheCall) {
  if (on_device()) GTEST_SKIP() << "a GPU counts no quanta";
  for (const auto& c : cases) {
    SCOPED_TRACE(describe(c));
    run([c](Lab& lab) {
      const Context x(lab, c);
      const auto n = static_cast<std::size_t>(x.q.count());
      const View o = x.fresh(), lse = x.stats(), dq = x.fresh();
      x.forward(o, lse, 0, x.s.tokens, {{0, x.s.tokens}});
      const auto counts = [&] {
        return lab.numbers(std::vector<std::int64_t>(n, 1)).reshaped(x.shape());
      };
      const View dk = counts(), dv = counts(), largest = lab.of_type(DType::f32, {1}, {0});
      std::vector<std::int64_t> dk_want(n, 1), dv_want(n, 1);
      constexpr int shift = 3;
      double most = 0;
      for (std::size_t i = 0; i + 1 < c.queries.size(); ++i) {
        const auto begin = c.queries[i], end = c.queries[i + 1];
        x.backward(dq, dk, dv, o, lse, begin, end, x.pieces(end), Accumulate::add, shift, largest);
        const View dk_wide = x.zeros(), dv_wide = x.zeros();
        x.backward(dq, dk_wide, dv_wide, o, lse, begin, end, {{0, end}}, Accumulate::overwrite);
        for (auto& [want, d] : {std::tie(dk_want, dk_wide), std::tie(dv_want, dv_wide)}) {
          const auto values = lab.read(d);
          for (std::size_t e = 0; e < n; ++e) {
            want[e] += fixed::of_gradient(static_cast<float>(values[e] * (1 << shift)));
            most = std::max(most, std::abs(values[e]) * (1 << shift));
          }
        }
      }
      const auto bytes = [](const std::vector<std::int64_t>& v) {
        const auto b = std::as_bytes(std::span(v));
        return std::vector<std::byte>(b.begin(), b.end());
      };
      EXPECT_EQ(lab.bytes(dk), bytes(dk_want));
      EXPECT_EQ(lab.bytes(dv), bytes(dv_want));
      EXPECT_EQ(lab.read(largest)[0], most);
    });
  }
}

// Against plain sums over all pairs, in double.
TEST_P(AttentionPieces, WindowsDocumentsAndSinksAreWhatTheySay) {
  for (const auto& c : cases) {
    SCOPED_TRACE(describe(c));
    run([c](Lab& lab) {
      const Context x(lab, c);
      const auto& s = x.s;
      const auto T = s.tokens, H = s.heads, D = s.head_dim;
      const View o = x.fresh(), lse = x.stats();
      x.forward_in_pieces(o, lse);
      const auto q = lab.read(x.q), k = lab.read(x.k), v = lab.read(x.v), got = lab.read(o);
      const auto at = [&](std::int64_t b, std::int64_t t, std::int64_t h) {
        return static_cast<std::size_t>(((b * T + t) * H + h) * D);
      };
      const double narrow =
          on_device() && lab.compute == DType::bf16 ? 4 * roundoff(DType::bf16) : 0;
      // Rows of b = 0 as Context has its documents.
      const auto document = [](std::int64_t t) { return (t >= 70) + (t >= 71) + (t >= 230); };
      for (const std::int64_t t :
           {std::int64_t{0}, std::int64_t{69}, std::int64_t{70}, std::int64_t{71}, std::int64_t{99},
            std::int64_t{100}, std::int64_t{140}, T - 1}) {
        std::vector<double> sum(static_cast<std::size_t>(D));
        double total = c.sinks ? std::exp(lab.read(x.sinks)[0]) : 0;
        for (std::int64_t j = 0; j < T; ++j) {
          const bool hidden = j > t || (s.window > 0 && t - j >= s.window) ||
                              (c.documents && document(j) != document(t));
          if (hidden) continue;
          double score = 0;
          for (std::int64_t d = 0; d < D; ++d)
            score += q[at(0, t, 0) + static_cast<std::size_t>(d)] *
                     k[at(0, j, 0) + static_cast<std::size_t>(d)];
          const double p = std::exp(s.scale * score);
          total += p;
          for (std::int64_t d = 0; d < D; ++d)
            sum[static_cast<std::size_t>(d)] += p * v[at(0, j, 0) + static_cast<std::size_t>(d)];
        }
        const double slack = sum_error(lab.tested, D + T, 2) * 4 + narrow;
        for (std::int64_t d = 0; d < D; ++d) {
          const double want = sum[static_cast<std::size_t>(d)] / total;
          EXPECT_NEAR(got[at(0, t, 0) + static_cast<std::size_t>(d)], want,
                      tolerance(lab.compute, want, slack))
              << t;
        }
      }
    });
  }
}

}  // namespace
}  // namespace trireme
