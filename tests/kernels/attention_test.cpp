// host::attention and its gradient against plain loops in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>
#include <vector>

#include "kernels/host/host.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/parallel.hpp"
#include "lib/base/rng.hpp"

namespace trireme {
namespace {

struct Case {
  std::int64_t tokens, head_dim, heads, kv_heads;
  DType dtype;
  double amplitude;  // of q, k and v
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "T " << c.tokens << ", D " << c.head_dim << ", heads " << c.heads << "/" << c.kv_heads
       << ", " << name_of(c.dtype) << ", amplitude " << c.amplitude;
}

// A tensor with its memory; values pseudo-random in [-amplitude, amplitude).
class Buffer {
 public:
  Buffer(DType t, const Shape& s, double amplitude = 0, std::uint64_t seed = 0,
         std::int64_t first = 0)
      : bytes_(static_cast<std::size_t>(s.count()) * bytes_of(t)), view_(bytes_.data(), t, s) {
    for (std::int64_t i = 0; i < s.count(); ++i) {
      const auto r = static_cast<std::uint32_t>(
          hash64(seed, static_cast<std::uint64_t>(first * (s.count() / s[0]) + i)));
      const auto x = static_cast<float>(amplitude * (2 * unit_float(r) - 1));
      if (t == DType::bf16)
        reinterpret_cast<bf16*>(bytes_.data())[i] = bf16(x);
      else
        reinterpret_cast<float*>(bytes_.data())[i] = x;
    }
  }
  const View& view() const { return view_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  View view_;
};

double at(const View& v, std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3 = 0) {
  const auto i = i0 * v.stride[0] + i1 * v.stride[1] + i2 * v.stride[2] + i3 * v.stride[3];
  return v.dtype == DType::bf16 ? static_cast<float>(reinterpret_cast<const bf16*>(v.data)[i])
                                : reinterpret_cast<const float*>(v.data)[i];
}

// Inputs as views into a packed [B, T, H + 2G, D]; likewise their gradients.
struct Packed {
  Packed(const Buffer& buffer, const Case& c)
      : q(buffer.view().slice(2, 0, c.heads)),
        k(buffer.view().slice(2, c.heads, c.kv_heads)),
        v(buffer.view().slice(2, c.heads + c.kv_heads, c.kv_heads)) {}
  View q, k, v;
};

struct Pass {
  // Samples [first, first + batch) of the same two.
  explicit Pass(const Case& c, std::int64_t first = 0, std::int64_t batch = 2)
      : shape{batch, c.tokens, c.heads, c.kv_heads, c.head_dim, 1 / std::sqrt(c.head_dim)},
        qkv(c.dtype, {batch, c.tokens, c.heads + 2 * c.kv_heads, c.head_dim}, c.amplitude, 1,
            first),
        d_qkv(c.dtype, {batch, c.tokens, c.heads + 2 * c.kv_heads, c.head_dim}, 7.0, 2),
        o(c.dtype, {batch, c.tokens, c.heads, c.head_dim}),
        d_o(c.dtype, {batch, c.tokens, c.heads, c.head_dim}, 1.0, 3, first),
        lse(DType::f32, {batch, c.heads, c.tokens}),
        in(qkv, c),
        grad(d_qkv, c) {
    const auto scratch = [&](Direction d) {
      const auto bytes = host::attention_bytes(shape, c.dtype, d).workspace;
      return Buffer(DType::f32, {static_cast<std::int64_t>(bytes + 3) / 4}, NAN);
    };
    const auto forward = scratch(Direction::forward), backward = scratch(Direction::backward);
    host::run(kernel::Attention{.o_BTHD = o.view(),
                                .lse_BHT = lse.view(),
                                .q_BTHD = in.q,
                                .k_BTGD = in.k,
                                .v_BTGD = in.v,
                                .shape = shape,
                                .workspace = forward.view()},
              {});
    host::run(kernel::AttentionGrad{.dq_BTHD = grad.q,
                                    .dk_BTGD = grad.k,
                                    .dv_BTGD = grad.v,
                                    .do_BTHD = d_o.view(),
                                    .o_BTHD = o.view(),
                                    .lse_BHT = lse.view(),
                                    .q_BTHD = in.q,
                                    .k_BTGD = in.k,
                                    .v_BTGD = in.v,
                                    .shape = shape,
                                    .workspace = backward.view()},
              {});
  }

  AttentionShape shape;
  Buffer qkv, d_qkv, o, d_o, lse;
  Packed in, grad;
};

// One sample and head at a time; gradients are added up in double.
struct Reference {
  using Values = std::vector<double>;

  explicit Reference(const Pass& run)
      : s(run.shape),
        o(size(s.heads)),
        lse(size(1) * s.heads),
        dq(size(s.heads)),
        dk(size(s.kv_heads)),
        dv(size(s.kv_heads)) {
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h) head(run, b, h);
  }

  std::int64_t size(std::int64_t heads) const { return s.batch * s.tokens * heads * s.head_dim; }
  std::size_t index(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t heads) const {
    return static_cast<std::size_t>(((b * s.tokens + t) * heads + h) * s.head_dim);
  }

  double length(const View& v, std::int64_t b, std::int64_t t, std::int64_t h) const {
    double square = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d) square += at(v, b, t, h, d) * at(v, b, t, h, d);
    return std::sqrt(square);
  }

  void head(const Pass& run, std::int64_t b, std::int64_t h) {
    const auto T = s.tokens, D = s.head_dim, g = h * s.kv_heads / s.heads;
    const auto &q = run.in.q, &k = run.in.k, &v = run.in.v, &d_o = run.d_o.view();
    Values p(static_cast<std::size_t>(T)), column(static_cast<std::size_t>(T));
    for (std::int64_t i = 0; i < T; ++i) {
      double max = -INFINITY, sum = 0, delta = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        double score = 0;
        for (std::int64_t d = 0; d < D; ++d) score += at(q, b, i, h, d) * at(k, b, j, g, d);
        p[j] = s.scale * score;
        max = std::max(max, p[j]);
      }
      for (std::int64_t j = 0; j <= i; ++j) sum += p[j] = std::exp(p[j] - max);
      lse[static_cast<std::size_t>((b * s.heads + h) * T + i)] = max + std::log(sum);
      double* out = &o[index(b, i, h, s.heads)];
      for (std::int64_t j = 0; j <= i; ++j) {
        p[j] /= sum;
        column[j] += p[j] * p[j];
        for (std::int64_t d = 0; d < D; ++d) out[d] += p[j] * at(v, b, j, g, d);
      }
      for (std::int64_t d = 0; d < D; ++d) delta += at(d_o, b, i, h, d) * out[d];
      q_longest = std::max(q_longest, length(q, b, i, h));
      k_longest = std::max(k_longest, length(k, b, i, g));
      v_longest = std::max(v_longest, length(v, b, i, g));
      do_longest = std::max(do_longest, length(d_o, b, i, h));
      for (std::int64_t j = 0; j <= i; ++j) {
        double dp = 0;
        for (std::int64_t d = 0; d < D; ++d) dp += at(d_o, b, i, h, d) * at(v, b, j, g, d);
        spread = std::max(spread, std::abs(dp - delta));
        const double ds = s.scale * p[j] * (dp - delta);
        for (std::int64_t d = 0; d < D; ++d) {
          dv[index(b, j, g, s.kv_heads) + d] += p[j] * at(d_o, b, i, h, d);
          dk[index(b, j, g, s.kv_heads) + d] += ds * at(q, b, i, h, d);
          dq[index(b, i, h, s.heads) + d] += ds * at(k, b, j, g, d);
        }
      }
    }
    seen = std::max(seen, std::sqrt(*std::max_element(column.begin(), column.end())));
  }

  AttentionShape s;
  Values o, lse, dq, dk, dv;
  // Longest rows; the most of |do' v - delta|; the root of the sum of squares over queries of what
  // one key weighs.
  double q_longest = 0, k_longest = 0, v_longest = 0, do_longest = 0, spread = 0, seen = 0;
};

// Bounds on the absolute error. A product of rows a and b in f32 whose roundings are independent
// errs by about u |a||b|, a sum of n weights times numbers up to 1 by u sqrt(n); six of these
// deviations cover millions of elements. Errors of different queries are independent too.
struct Bounds {
  Bounds(const Case& c, const Reference& r, bool stores_bf16) {
    constexpr double six = 6, u = 0x1p-24;
    const double T = static_cast<double>(c.tokens), scale = r.s.scale;
    const double heads = std::ceil(double(c.heads) / double(c.kv_heads));  // that share a key
    store = stores_bf16 ? 0x1p-8 : u;
    const double score = six * u * scale * r.q_longest * r.k_longest;
    const double sum = six * u * std::sqrt(T);
    lse = score + sum + 4 * u;
    const double p = score + lse + 4 * u;  // relative; exp is good to 4 u
    o = c.amplitude * (p + sum);
    // delta sees o as it was stored.
    const double dp = six * 2 * u * r.do_longest * r.v_longest +
                      r.do_longest * (o + (stores_bf16 ? six * store * c.amplitude : 0));
    const double ds = scale * (r.spread * p + dp);  // relative to p
    const double query = c.amplitude * (ds + scale * r.spread * sum);
    dq = query;
    dk = std::sqrt(heads) * r.seen * query;
    dv = std::sqrt(heads) * r.seen * (p + sum);
  }
  double store;  // relative, added to each result
  double lse, o, dq, dk, dv;
};

void expect_near(const View& got, const Reference::Values& want, double bound, double store,
                 const char* name) {
  std::size_t n = 0;
  for (std::int64_t i0 = 0; i0 < got.extent[0]; ++i0)
    for (std::int64_t i1 = 0; i1 < got.extent[1]; ++i1)
      for (std::int64_t i2 = 0; i2 < got.extent[2]; ++i2)
        for (std::int64_t i3 = 0; i3 < (got.dims > 3 ? got.extent[3] : 1); ++i3, ++n) {
          const double error = std::abs(at(got, i0, i1, i2, i3) - want[n]);
          if (!(error <= bound + store * std::abs(want[n]))) {
            FAIL() << name << "[" << i0 << ", " << i1 << ", " << i2 << ", " << i3 << "] is "
                   << at(got, i0, i1, i2, i3) << ", not " << want[n] << "; allowed " << bound;
          }
        }
}

class Attention : public testing::TestWithParam<Case> {
  Host host_{2};  // starts what loops over threads need
};

class AttentionAlone : public testing::Test {
  Host host_{2};
};

TEST_P(Attention, AgreesWithPlainLoops) {
  const Pass run(GetParam());
  const Reference want(run);
  const Bounds bound(GetParam(), want, GetParam().dtype == DType::bf16);
  expect_near(run.o.view(), want.o, bound.o, bound.store, "o");
  expect_near(run.lse.view(), want.lse, bound.lse, 0x1p-24, "lse");
  expect_near(run.grad.q, want.dq, bound.dq, bound.store, "dq");
  expect_near(run.grad.k, want.dk, bound.dk, bound.store, "dk");
  expect_near(run.grad.v, want.dv, bound.dv, bound.store, "dv");
}

TEST_P(Attention, SameBitsOnAnyNumberOfThreads) {
  host::set_threads(1);
  const Pass alone(GetParam());
  for (int threads : {2, 3, 37}) {
    host::set_threads(threads);
    const Pass many(GetParam());
    EXPECT_EQ(alone.o.bytes(), many.o.bytes());
    EXPECT_EQ(alone.lse.bytes(), many.lse.bytes());
    EXPECT_EQ(alone.d_qkv.bytes(), many.d_qkv.bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Attention,
    testing::Values(Case{1, 16, 2, 2, DType::f32, 1}, Case{5, 32, 2, 1, DType::f32, 1},
                    Case{64, 64, 3, 3, DType::f32, 1}, Case{77, 80, 6, 2, DType::f32, 2},
                    Case{300, 32, 6, 2, DType::f32, 2}, Case{300, 64, 1, 1, DType::f32, 3},
                    Case{77, 128, 5, 2, DType::f32, 1}, Case{65, 7, 2, 1, DType::f32, 1},
                    Case{130, 256, 1, 1, DType::f32, 1}, Case{77, 64, 6, 2, DType::bf16, 2},
                    Case{300, 80, 2, 1, DType::bf16, 1}, Case{64, 32, 4, 4, DType::bf16, 1}));

// Scores of several hundred: exp of them overflows.
INSTANTIATE_TEST_SUITE_P(LargeScores, Attention,
                         testing::Values(Case{77, 64, 2, 1, DType::f32, 30},
                                         Case{130, 64, 1, 1, DType::bf16, 30}));

// A sample's bits do not depend on what stands beside it.
TEST_F(AttentionAlone, SameBitsInAnyBatch) {
  const Case c{77, 32, 4, 2, DType::f32, 1};
  const Pass both(c), second(c, 1, 1);
  const auto same = [](const Buffer& all, const Buffer& one) {
    const auto n = static_cast<std::ptrdiff_t>(one.bytes().size());
    return std::equal(one.bytes().begin(), one.bytes().end(), all.bytes().end() - n);
  };
  EXPECT_TRUE(same(both.o, second.o));
  EXPECT_TRUE(same(both.lse, second.lse));
  EXPECT_TRUE(same(both.d_qkv, second.d_qkv));
}

// A row sees the rows before it only, so cutting a sequence short changes no bit of what stays.
TEST_F(AttentionAlone, LaterTokensChangeNothing) {
  const Case longer{77, 32, 1, 1, DType::f32, 1}, shorter{70, 32, 1, 1, DType::f32, 1};
  const Pass a(longer), b(shorter);
  const auto row = static_cast<std::size_t>(70 * 32) * sizeof(float);
  EXPECT_EQ(0, std::memcmp(a.o.bytes().data(), b.o.bytes().data(), row));
}

TEST_F(AttentionAlone, ScratchOfALongSequenceIsSmall) {
  const AttentionShape s{1, 16384, 4, 4, 64, 0.125};
  EXPECT_LE(host::attention_bytes(s, DType::f32, Direction::forward).workspace, 1U << 20);
  EXPECT_LE(host::attention_bytes(s, DType::f32, Direction::backward).workspace, 18U << 20);
}

TEST_F(AttentionAlone, RefusesWhatItCannotDo) {
  Buffer x(DType::f32, {1, 4, 2, 8}), lse(DType::f32, {1, 2, 4}), scratch(DType::f32, {1 << 20});
  const AttentionShape s{1, 4, 2, 2, 8, 1.0};
  const auto run = [&](const View& q, const AttentionShape& shape, const View& workspace) {
    host::run(kernel::Attention{.o_BTHD = x.view(),
                                .lse_BHT = lse.view(),
                                .q_BTHD = q,
                                .k_BTGD = x.view(),
                                .v_BTGD = x.view(),
                                .shape = shape,
                                .workspace = workspace},
              {});
  };
  EXPECT_NO_THROW(run(x.view(), s, scratch.view()));
  EXPECT_THROW(run(x.view(), {1, 4, 2, 3, 8, 1.0}, scratch.view()), Error);
  EXPECT_THROW(run(x.view(), {1, 5, 2, 2, 8, 1.0}, scratch.view()), Error);
  EXPECT_THROW(run(x.view(), s, scratch.view().slice(0, 0, 16)), Error);
  auto skewed = x.view();
  skewed.stride[3] = 2;
  EXPECT_THROW(run(skewed, s, scratch.view()), Error);
}

}  // namespace
}  // namespace trireme
