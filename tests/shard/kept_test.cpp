// Weights of 4 bits: the codes are quantiles of the normal distribution, as the paper has them;
// what a record of them holds, and how far that is from the weights.
#include "lib/shard/kept.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/math/nf4.hpp"
#include "kernels/nf4.hpp"
#include "kernels/ref/ref.hpp"
#include "lib/base/error.hpp"
#include "lib/shard/initial.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {
namespace {

// Of a normal number's distribution function, by bisection.
double quantile(double probability) {
  double low = -10, high = 10;
  for (int i = 0; i < 200; ++i) {
    const double mid = (low + high) / 2;
    (std::erfc(-mid / std::sqrt(2.0)) / 2 < probability ? low : high) = mid;
  }
  return low;
}

// Dettmers et al. 2023, appendix E: 8 of equal steps of probability above 0 and 7 below, up to the
// mean of 1 - 1/30 and 1 - 1/32, in units of the largest.
TEST(Nf4, CodesAreQuantiles) {
  const double end = (1 - 1 / 30.0 + 1 - 1 / 32.0) / 2;
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR(math::nf4_codes[static_cast<std::size_t>(15 - i)],
                quantile(end + (0.5 - end) * i / 8) / quantile(end), 1e-6)
        << i;
  for (int i = 0; i < 7; ++i)
    EXPECT_NEAR(math::nf4_codes[static_cast<std::size_t>(i)],
                -quantile(end + (0.5 - end) * i / 7) / quantile(end), 1e-6)
        << i;
  EXPECT_EQ(math::nf4_codes[7], 0.0F);
  for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(math::nf4_code(i), math::nf4_codes[i]);
}

struct Record {
  explicit Record(std::span<const float> weights) : words(records_of(weights, "w", 0)) {}
  int code(std::size_t i) const {
    return static_cast<std::uint32_t>(words[i / 8]) >> (i % 8 / 2 * 8 + (i % 2 == 0 ? 4 : 0)) & 15;
  }
  int q(std::size_t block) const {
    return static_cast<std::uint8_t>(static_cast<std::uint32_t>(words[2048 + block / 4]) >>
                                     (block % 4 * 8));
  }
  float number(std::size_t word) const {
    float x = 0;
    std::memcpy(&x, &words[word], sizeof x);
    return x;
  }
  std::vector<std::int32_t> words;
};

std::vector<float> some_weights(std::size_t n, std::uint64_t key = 5) {
  std::vector<float> x;
  for (std::size_t i = 0; i < n; ++i)
    x.push_back(static_cast<float>(0.02 * normal(key, static_cast<std::int64_t>(i))));
  return x;
}

// The nearest code of each, by trying all; scales of any size within half a step of 2^(1/16).
TEST(Nf4, ARecordHoldsTheNearest) {
  const std::size_t blocks = 100;
  auto x = some_weights(64 * blocks - 20);  // the last block is short, the record, too
  std::fill_n(x.begin() + 64, 64, 0.0F);
  for (std::size_t i = 640; i < 704; ++i) x[i] *= 1000;
  const Record r(x);
  ASSERT_EQ(r.words.size(), 2128U);
  std::vector<float> scales;
  for (std::size_t b = 0; b < blocks; ++b) {
    float most = 0;
    for (std::size_t i = 64 * b; i < std::min(x.size(), 64 * (b + 1)); ++i)
      most = std::max(most, std::fabs(x[i]));
    scales.push_back(most);
  }
  const float unit = *std::ranges::max_element(scales);
  EXPECT_EQ(r.number(2112), unit);
  for (std::size_t b = 0; b < blocks; ++b) {
    if (scales[b] == 0) {
      EXPECT_EQ(r.q(b), 255);
      continue;
    }
    const double kept = double{unit} * std::exp2(-r.q(b) / 16.0);
    EXPECT_LE(std::fabs(std::log2(kept / double{scales[b]})), 1.0001 / 32) << b;
  }
  EXPECT_EQ(r.q(blocks), 255);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float scale = scales[i / 64];
    double best = 9;
    for (const float c : math::nf4_codes)
      best = std::min(best, std::fabs(double{x[i]} - double{c} * scale));
    const double got = std::fabs(
        double{x[i]} - double{math::nf4_codes[static_cast<std::size_t>(r.code(i))]} * scale);
    EXPECT_LE(got, best + 1e-7 * scale) << i;
    if (scale == 0) {
      EXPECT_EQ(r.code(i), 7) << i;
    }
  }
  for (std::size_t w = 2113; w < 2128; ++w) EXPECT_EQ(r.words[w], 0);
}

// Records know nothing of each other, so a share of them is the same bytes.
TEST(Nf4, RecordsStandAlone) {
  const auto x = some_weights(3 * 16384 + 70);
  const auto all = records_of(x, "w", 0);
  ASSERT_EQ(all.size(), 4U * 2128U);
  for (std::size_t r = 0; r < 4; ++r) {
    const auto n = std::min<std::size_t>(16384, x.size() - r * 16384);
    const auto one = records_of(std::span(x).subspan(r * 16384, n), "w", 0);
    EXPECT_TRUE(
        std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(r) * 2128))
        << r;
  }
}

// Half the widest gap between codes, 0.1519 of a scale, and half a step of scales, 2.19%: widened
// by an operation it is no farther from what it was, also beside a block of very large weights.
TEST(Nf4, WidenedItIsNear) {
  auto x = some_weights(2 * 16384);
  for (std::size_t i = 640; i < 704; ++i) x[i] *= 1000;
  const auto words = records_of(x, "w", 0);
  Ref b;
  const Tensor kept = Tensor::empty(b, {std::ssize(words)}, DType::i32, MemoryKind::transient),
               y = Tensor::empty(b, {std::ssize(x)}, DType::f32, MemoryKind::transient);
  b.upload(Queue::compute, kept.view(), std::as_bytes(std::span(words)));
  put_widened(b, y.view(), kept.view());
  std::vector<float> got(x.size());
  b.download(Queue::compute, std::as_writable_bytes(std::span(got)), y.view());
  double off = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto block = i / 64 * 64;
    float scale = 0;
    for (auto k = block; k < block + 64; ++k) scale = std::max(scale, std::fabs(x[k]));
    EXPECT_LE(std::fabs(got[i] - x[i]), (0.15192F + 0.02191F) * scale) << i;
    if (block == 640) continue;
    off += (got[i] - x[i]) * (got[i] - x[i]);
    size += x[i] * x[i];
  }
  EXPECT_NEAR(std::sqrt(off / size), 0.096, 0.01);
}

// The largest of block b is 2^(-b / 8) of the record's, of the last ones far less, down to what f32
// holds: each weight is off by what its block's scale allows or, below the smallest scale, by what
// that one does.
TEST(Nf4, SmallBlocksAreNotAmplifiedBesideLargeOnes) {
  const double smallest = std::exp2(-254.0 / 16), codes = 0.15192, scales = 0.02191;
  for (const float unit : {50.0F, 1.0F, 3e38F, 1e-30F, 1e-40F}) {
    std::vector<float> x(16384);
    std::vector<double> largest(256, 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto b = i / 64;
      const double of_block =
          double{unit} * std::exp2(b < 250 ? -double(b) / 8 : -20.0 * double(b - 247));
      const double part = i % 64 == 0 ? 1 : std::sin(double(i) * double(i));
      x[i] = static_cast<float>(of_block * part);
      largest[b] = std::max(largest[b], std::fabs(double{x[i]}));
    }
    const auto words = records_of(x, "w", 0);
    Ref b;
    const Tensor kept = Tensor::empty(b, {std::ssize(words)}, DType::i32, MemoryKind::transient),
                 y = Tensor::empty(b, {std::ssize(x)}, DType::f32, MemoryKind::transient);
    b.upload(Queue::compute, kept.view(), std::as_bytes(std::span(words)));
    put_widened(b, y.view(), kept.view());
    std::vector<float> got(x.size());
    b.download(Queue::compute, std::as_writable_bytes(std::span(got)), y.view());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double m = largest[i / 64], least = smallest * double{unit};
      const double rounding = 1e-6 * std::max(m, least) + 4 * 0x1p-149;
      const double bound =
          m >= std::exp2(-254.5 / 16) * double{unit} ? (codes + scales) * m : codes * least;
      ASSERT_LE(std::fabs(double{got[i]} - double{x[i]}), bound + rounding)
          << x[i] << " came back as " << got[i] << " beside " << unit;
      if (std::fabs(x[i]) < 0.0397 * least - 4 * 0x1p-149 && m < 0.97 * least) {
        ASSERT_EQ(got[i], 0) << x[i];
      }
    }
  }
}

TEST(Nf4, RefusesWhatIsNotFinite) {
  auto x = some_weights(20000);
  x[17000] = NAN;
  try {
    records_of(x, "blocks.0.qkv.weight", 16384);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("blocks.0.qkv.weight: weight 33384 is not finite"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace trireme
