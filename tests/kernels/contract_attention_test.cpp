#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/narrowed_attention.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

constexpr auto queue = Queue::compute;
constexpr double amplitude = 1.5;  // of q, k, v; do is below 1

AttentionShape capped(AttentionShape s, double softcap) {
  s.softcap = softcap;
  return s;
}

const std::vector<AttentionShape> shapes{
    {2, 1, 2, 2, 16, 0.25},
    {2, 77, 6, 2, 32, 0.3},
    {1, 77, 3, 1, 64, 0.125},
    {1, 65, 5, 2, 24, 0.25},
    {1, 300, 6, 2, 64, 0.125},
    {1, 300, 2, 2, 80, 0.1},
    {1, 129, 2, 1, 128, 0.08},
    {2, 65, 4, 2, 20, 0.25},
    {2, 77, 6, 2, 32, 0.3, 20},
    {1, 300, 6, 2, 64, 0.125, 130},
    {1, 77, 3, 1, 20, 0.25, 1},
    // Under soft caps, within reach of scores and far from them.
    capped({2, 77, 6, 2, 32, 0.3}, 2),
    capped({1, 300, 6, 2, 64, 0.125, 130}, 5),
    capped({1, 65, 5, 2, 24, 0.25}, 50)};

std::string describe(const AttentionShape& s) {
  return fmt::format("B {} T {} heads {}/{} D {} window {} soft cap {}", s.batch, s.tokens, s.heads,
                     s.kv_heads, s.head_dim, s.window, s.softcap);
}

// q, k and v stand packed, as views of [B, T, H + 2 G, D].
struct Packed {
  Packed(const View& all, const AttentionShape& s)
      : whole(all),
        q(all.slice(2, 0, s.heads)),
        k(all.slice(2, s.heads, s.kv_heads)),
        v(all.slice(2, s.heads + s.kv_heads, s.kv_heads)) {}
  View whole, q, k, v;
};
Shape packed_shape(const AttentionShape& s) {
  return {s.batch, s.tokens, s.heads + 2 * s.kv_heads, s.head_dim};
}
Shape output_shape(const AttentionShape& s) {
  return {s.batch, s.tokens, s.heads, s.head_dim};
}
Packed inputs(Lab& lab, const AttentionShape& s) {
  return {lab.random(packed_shape(s), 1, amplitude), s};
}

// A dot product's terms add to at most the product of its rows' lengths; q, k and v have rows of at
// most `row`.
//   score  the error of a score, whose terms add to `most`, and of the largest one
//   p      the relative error of exp(score - lse): those of score and lse, and a few roundings
struct Errors {
  Errors(DType t, const AttentionShape& s, double row) {
    const double u = roundoff(wide(t)), most = s.scale * row * row;
    // A soft cap c makes no error larger, and adds that of a tanh and a few roundings of up to c.
    score = sum_error(t, s.head_dim, most) + 10 * u * s.softcap;
    given = score + 8 * u * (most + std::log(static_cast<double>(s.tokens)) + 1);
    lse = 2 * score + sum_error(t, s.tokens, 1) + given - score;
    p = given + lse;
  }
  double score, lse, p;
  double given;  // of p where lse is an input, the same for all
};

// Lengths of a sample's documents, of which the last goes on to its end; none: causal.
using Lengths = std::vector<std::int64_t>;

std::vector<std::int32_t> starts(std::int64_t T, const Lengths& lengths) {
  std::vector<std::int32_t> start;
  std::int64_t begin = 0;
  for (const auto n : lengths) {
    start.insert(start.end(), static_cast<std::size_t>(std::min(n, T - begin)),
                 static_cast<std::int32_t>(begin));
    begin += std::min(n, T - begin);
  }
  start.resize(static_cast<std::size_t>(T), static_cast<std::int32_t>(begin));
  return start;
}

// Of every sample, the lengths turned round in each second one.
std::vector<std::int32_t> starts_of(const AttentionShape& s, Lengths lengths) {
  if (lengths.empty()) return {};
  std::vector<std::int32_t> all;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const auto one = starts(s.tokens, lengths);
    all.insert(all.end(), one.begin(), one.end());
    std::ranges::reverse(lengths);
  }
  return all;
}
View documents(Lab& lab, const AttentionShape& s, const Lengths& lengths) {
  if (lengths.empty()) return {};
  return lab.ids(starts_of(s, lengths)).reshaped({s.batch, s.tokens});
}

// Windows come with sinks.
View sinks_of(Lab& lab, const AttentionShape& s) {
  return s.window > 0 ? lab.random({s.heads}, 3, 2) : View{};
}

struct Forward {
  View o, lse;
};
Forward attend(Lab& lab, const Packed& in, const AttentionShape& s, const Lengths& lengths = {}) {
  const Forward f{lab.fresh(output_shape(s)), lab.wide_fresh({s.batch, s.heads, s.tokens})};
  const View work =
      lab.workspace(lab.backend.attention_bytes(s, lab.compute, Direction::forward).workspace);
  lab.backend.put(queue, kernel::Attention{.o_BTHD = f.o,
                                           .lse_BHT = f.lse,
                                           .q_BTHD = in.q,
                                           .k_BTGD = in.k,
                                           .v_BTGD = in.v,
                                           .shape = s,
                                           .workspace = work,
                                           .start_BT = documents(lab, s, lengths),
                                           .sink_H = sinks_of(lab, s)});
  return f;
}

// One for each shape, that separate in all ways: a token each; a border of tiles inside of, at the
// begin and at the end of a document; a tile and more without any.
const std::vector<Lengths> lengths_of{{},
                                      {1, 1, 1, 30, 40},
                                      {70, 1, 1},
                                      {64},
                                      {10, 100, 90, 60},
                                      {128, 64, 1, 1},
                                      {127, 1},
                                      {63, 1},
                                      {30, 40},
                                      {200},
                                      {76},
                                      {30},
                                      {64, 70},
                                      {1, 40}};

struct Apart {
  AttentionShape shape;
  Lengths lengths;
};
// Causal ones first.
std::vector<Apart> all_shapes() {
  std::vector<Apart> all;
  for (const auto& s : shapes) all.push_back({s, {}});
  for (std::size_t i = 1; i < shapes.size(); ++i) all.push_back({shapes[i], lengths_of[i]});
  return all;
}
std::string describe(const Apart& a) {
  return describe(a.shape) + (a.lengths.empty() ? "" : " documents");
}

class AttentionContract : public ContractTest {
 protected:
  Narrowed narrowed_here(const Apart& a) {
    const auto& s = a.shape;
    if (!on_tensor_cores(GetParam(), s)) return {};
    const auto of = oracle([s](Lab& lab) {
      lab.result("qkv", inputs(lab, s).whole, 0);
      lab.result("do", lab.random(output_shape(s), 2), 0);
    });
    return narrowed(s, {of[0].values, s.tokens, s.heads + 2 * s.kv_heads, s.head_dim},
                    {of[1].values, s.tokens, s.heads, s.head_dim}, starts_of(s, a.lengths));
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, AttentionContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

// o is a mean of v with weights p that add to 1.
TEST_P(AttentionContract, Forward) {
  for (const auto& a : all_shapes())
    compare(describe(a), [a, s = a.shape, narrow = narrowed_here(a)](Lab& lab) {
      const auto in = inputs(lab, s);
      const auto f = attend(lab, in, s, a.lengths);
      const Errors e(lab.tested, s, lab.longest_row(in.whole));
      // A GPU rounds o without sinks first.
      const double twice = s.window > 0 && on_device() ? roundoff(lab.tested) * amplitude : 0;
      lab.result("o", f.o,
                 narrow.o + twice + e.p * amplitude + sum_error(lab.tested, s.tokens, amplitude));
      lab.result("lse", f.lse, e.lse);
    });
}

View backward(Lab& lab, const Packed& in, const View& d_o, const View& o, const View& lse,
              const AttentionShape& s, const Lengths& lengths = {}) {
  const View dqkv = lab.fresh(packed_shape(s));
  const Packed d(dqkv, s);
  const View work =
      lab.workspace(lab.backend.attention_bytes(s, lab.compute, Direction::backward).workspace);
  lab.backend.put(queue, kernel::AttentionGrad{.dq_BTHD = d.q,
                                               .dk_BTGD = d.k,
                                               .dv_BTGD = d.v,
                                               .do_BTHD = d_o,
                                               .o_BTHD = o,
                                               .lse_BHT = lse,
                                               .q_BTHD = in.q,
                                               .k_BTGD = in.k,
                                               .v_BTGD = in.v,
                                               .shape = s,
                                               .workspace = work,
                                               .start_BT = documents(lab, s, lengths)});
  return dqkv;
}

// dp and delta are dot products of do with v and o, off by `dot`. ds = scale p (dp - delta) is off
// by p each_ds. dq(t) sums ds k over keys, where p adds to 1; dk(s) and dv(s) sum ds q and p do
// over queries, where p adds to `column`: what dv is for a do of ones.
TEST_P(AttentionContract, Gradient) {
  for (const auto& apart : all_shapes()) {
    const auto s = apart.shape;
    const auto forward = oracle([s, apart](Lab& lab) {
      const auto f = attend(lab, inputs(lab, s), s, apart.lengths);
      lab.result("o", f.o, 0);
      lab.result("lse", f.lse, 0);
      const std::vector<double> ones(static_cast<std::size_t>(f.o.count()), 1.0);
      const auto d = backward(lab, inputs(lab, s), lab.values(output_shape(s), ones), f.o, f.lse, s,
                              apart.lengths);
      const auto dv = d.slice(2, s.heads + s.kv_heads, s.kv_heads);
      const View dense = lab.fresh({s.batch, s.tokens, s.kv_heads, s.head_dim});
      lab.backend.put(queue, kernel::Copy{.dst = dense, .src = dv});
      lab.result("column", dense, 0);
    });
    double column = 0;
    for (double x : forward[2].values) column = std::max(column, x);
    compare(describe(apart), [=, narrow = narrowed_here(apart)](Lab& lab) {
      const View o = lab.values(output_shape(s), forward[0].values);
      const View lse = lab.wide_values({s.batch, s.heads, s.tokens}, forward[1].values);
      const View d_o = lab.random(output_shape(s), 2);
      const auto in = inputs(lab, s);
      const View dqkv = backward(lab, in, d_o, o, lse, s, apart.lengths);
      const double row = lab.longest_row(in.whole), d_o_row = lab.longest_row(d_o);
      const double p = Errors(lab.tested, s, row).given;
      const double dot = sum_error(lab.tested, s.head_dim, row * d_o_row);
      const double most_ds = s.scale * 2 * row * d_o_row;
      // Under a soft cap c ds is times 1 - (z / c)^2, off by twice what z / c is.
      const double cap = s.softcap > 0 ? 2 * p / s.softcap + 4 * roundoff(wide(lab.tested)) : 0;
      const double each_ds =
          (p + cap + 4 * roundoff(wide(lab.tested))) * most_ds + s.scale * 2 * dot;
      const auto terms = s.tokens * (s.heads / s.kv_heads + 1);
      const double dq = amplitude * (each_ds + sum_error(lab.tested, terms, most_ds));
      const double dk = column * dq;
      const double dv = column * (p + sum_error(lab.tested, terms, 1));
      const Packed d(dqkv, s);
      for (const auto& [name, part, slack] : {std::tuple{"dq", d.q, dq + narrow.dq},
                                              {"dk", d.k, dk + narrow.dk},
                                              {"dv", d.v, dv + narrow.dv}}) {
        const View dense = lab.fresh({s.batch, s.tokens, part.extent[2], s.head_dim});
        lab.backend.put(queue, kernel::Copy{.dst = dense, .src = part});
        lab.result(name, dense, slack);
      }
    });
  }
}

// Of terms exp(sink - lse) do.o, each at most the product of two rows' lengths.
TEST_P(AttentionContract, SinkGradient) {
  for (const auto how : {Accumulate::overwrite, Accumulate::add})
    for (const Shape& n : {Shape{2, 300, 6, 20}, Shape{1, 1100, 3, 64}})
      compare(fmt::format("T {}", n[1]), [=](Lab& lab) {
        const View all = lab.random({n[0], n[1], 2 * n[2], n[3]}, 1);
        const View d_o = all.slice(2, 0, n[2]), o = all.slice(2, n[2], n[2]);
        const View dsink = lab.wide_random({n[2]}, 2), sink = lab.random({n[2]}, 3);
        lab.backend.put(queue, kernel::SinkGrad{.dsink_H = dsink,
                                                .how = how,
                                                .do_BTHD = d_o,
                                                .o_BTHD = o,
                                                .lse_BHT = lab.wide_random({n[0], n[2], n[1]}, 4),
                                                .sink_H = sink});
        const double row = lab.longest_row(all), most = std::exp(2) * row * row;
        const auto terms = n[0] * n[1];
        lab.result("dsink", dsink,
                   static_cast<double>(terms) * (sum_error(lab.tested, n[3], most) +
                                                 4 * roundoff(wide(lab.tested)) * most) +
                       sum_error(lab.tested, terms, static_cast<double>(terms) * most));
      });
}

// A sample has the same bits alone, and the future does not reach the past.
TEST_P(AttentionContract, SamplesStandAlone) {
  for (const std::int64_t D : {32, 20}) {
    // Tensor cores multiply later tokens by 0, which hides numbers only.
    const bool multiplied = on_tensor_cores(GetParam(), {3, 77, 6, 2, D, 0.2});
    run([D, later = multiplied ? 1e4 : std::nan("")](Lab& lab) {
      const AttentionShape s{3, 77, 6, 2, D, 0.2};
      AttentionShape one = s;
      one.batch = 1;
      const auto in = inputs(lab, s);
      const auto all = attend(lab, in, s);
      const auto alone = attend(lab, Packed(in.whole.slice(0, 1, 1), one), one);
      EXPECT_EQ(lab.bytes(alone.o), lab.bytes(all.o.slice(0, 1, 1)));
      EXPECT_EQ(lab.bytes(alone.lse), lab.bytes(all.lse.slice(0, 1, 1)));

      lab.backend.put(queue, kernel::Fill{.dst = in.whole.slice(1, 40, 37), .value = later});
      const auto cut = attend(lab, in, s);
      EXPECT_EQ(lab.bytes(cut.o.slice(0, 0, 1).slice(1, 0, 40)),
                lab.bytes(all.o.slice(0, 0, 1).slice(1, 0, 40)));
    });
  }
}

// A document has the gradient's bits of a sample that it fills, and the output's where it begins at
// a border of tiles: sums over keys are chains in their order, but maxima are taken tile by tile.
// Tensor cores add up tile by tile, so there the gradient has them only at such a border, too.
TEST_P(AttentionContract, DocumentsStandAlone) {
  for (const std::int64_t D : {32, 20}) {
    const AttentionShape s{1, 300, 6, 2, D, 0.2};
    const bool by_tiles = on_tensor_cores(GetParam(), s);
    run([s, by_tiles](Lab& lab) {
      const Lengths lengths{64, 1, 1, 62, 65, 63, 44};
      const auto in = inputs(lab, s);
      const auto all = attend(lab, in, s, lengths);
      const View d_o = lab.random(output_shape(s), 2);
      const View dqkv = backward(lab, in, d_o, all.o, all.lse, s, lengths);
      std::int64_t begin = 0;
      int aligned = 0;
      for (const auto n : lengths) {
        SCOPED_TRACE(begin);
        const auto part = [&](const View& v, int dim) { return lab.dense(v.slice(dim, begin, n)); };
        AttentionShape one = s;
        one.tokens = n;
        // One document, not none, which cuDNN would compute.
        const Lengths only = by_tiles ? Lengths{n} : Lengths{};
        const Packed alone_in(part(in.whole, 1), one);
        const auto alone = attend(lab, alone_in, one, only);
        const bool at_border = begin % 64 == 0;
        if (at_border || GetParam().name.starts_with("ref")) {
          ++aligned;
          EXPECT_EQ(lab.bytes(alone.o), lab.bytes(part(all.o, 1)));
          EXPECT_EQ(lab.bytes(alone.lse), lab.bytes(part(all.lse, 2)));
        }
        const View d_alone =
            backward(lab, alone_in, part(d_o, 1), part(all.o, 1), part(all.lse, 2), one, only);
        if (at_border || !by_tiles) {
          EXPECT_EQ(lab.bytes(d_alone), lab.bytes(part(dqkv, 1)));
        }
        begin += n;
      }
      EXPECT_EQ(begin, s.tokens);
      EXPECT_GE(aligned, 4);
    });
  }
}

// Scores far beyond the range of exp.
TEST_P(AttentionContract, LargeScores) {
  const AttentionShape s{1, 77, 2, 2, 16, 1};
  compare(describe(s), [s](Lab& lab) {
    const double large = 64;  // scores up to 16 * 64^2 = 65536
    const Packed in(lab.random(packed_shape(s), 1, large), s);
    const auto f = attend(lab, in, s);
    const double score = sum_error(lab.tested, s.head_dim, 16 * large * large);
    lab.result("lse", f.lse,
               score + sum_error(lab.tested, s.tokens, 1) + 4 * roundoff(wide(lab.tested)) * 65536);
    EXPECT_LE(lab.largest(f.o), large * (1 + roundoff(lab.compute)));
    for (double x : lab.read(f.o)) EXPECT_TRUE(std::isfinite(x));
  });
}

}  // namespace
}  // namespace trireme
