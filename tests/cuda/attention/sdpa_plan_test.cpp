// What is decided about attention through cuDNN without cuDNN: rules, parts, scratch, keys.
#include "kernels/cuda/attention/sdpa_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "lib/base/error.hpp"
#include "tests/cuda/attention/sdpa_operands.hpp"
#include "tests/support/message_of.hpp"

namespace trireme::cuda {
namespace {

constexpr std::size_t GiB = std::size_t{1} << 30;
constexpr auto forward = Direction::forward, backward = Direction::backward;

AttentionShape shape(std::int64_t B, std::int64_t T, std::int64_t H, std::int64_t G,
                     std::int64_t D) {
  return {B, T, H, G, D, 0.125};
}

TEST(SdpaRules, SayWhatCudnnTakes) {
  for (const auto d : {forward, backward}) {
    for (const int D : {8, 64, 96, 128, 256})
      EXPECT_TRUE(sdpa_supports(shape(2, 77, 12, 4, D), DType::bf16, d)) << D;
    for (const int D : {4, 20, 260, 320})
      EXPECT_FALSE(sdpa_supports(shape(2, 77, 12, 4, D), DType::bf16, d)) << D;
    EXPECT_FALSE(sdpa_supports(shape(2, 77, 12, 5, 64), DType::bf16, d));
    EXPECT_FALSE(sdpa_supports(shape(2, 77, 12, 24, 64), DType::bf16, d));
    EXPECT_FALSE(sdpa_supports(shape(2, 77, 12, 12, 64), DType::f32, d));
    EXPECT_FALSE(sdpa_supports(shape(2, 77, 12, 12, 64), DType::f64, d));
  }
  const auto wide = shape(2, 77, 12, 12, 136), alone = shape(2, 1, 12, 12, 64);
  for (const int sm : {80, 100}) {
    EXPECT_TRUE(sdpa_supports(wide, DType::bf16, forward, sm));
    EXPECT_FALSE(sdpa_supports(wide, DType::bf16, backward, sm));
  }
  EXPECT_TRUE(sdpa_supports(alone, DType::bf16, forward));
  auto some = shape(2, 77, 12, 12, 64);
  some.key_count = 64;
  EXPECT_FALSE(sdpa_supports(some, DType::bf16, forward));
  some.key_count = 77;
  EXPECT_TRUE(sdpa_supports(some, DType::bf16, forward));
  some.key_at = some.query_at = 64;
  EXPECT_TRUE(sdpa_supports(some, DType::bf16, forward));
  EXPECT_FALSE(sdpa_supports(alone, DType::bf16, backward));
}

// By the keys that queries see, one by one.
TEST(SdpaRules, FindTheMaskOfAPieceOfKeys) {
  std::set<std::optional<SdpaMask>> found;
  for (std::int64_t query_at = 0; query_at < 6; ++query_at)
    for (std::int64_t key_at = 0; key_at < 8; ++key_at)
      for (std::int64_t keys = 1; keys < 8; ++keys)
        for (const std::int64_t window : {0, 1, 3, 5}) {
          auto s = shape(1, 3, 1, 1, 64);
          s.query_at = query_at, s.key_at = key_at, s.key_count = keys, s.window = window;
          const auto mask = sdpa_mask(s);
          found.insert(mask);
          if (!mask) continue;
          const auto first = *mask == SdpaMask::causal_at_end ? keys - s.tokens : 0;
          const auto left = key_of(s, forward, Determinism::on, Packed(s).operands()).window;
          for (std::int64_t t = 0; t < s.tokens; ++t)
            for (std::int64_t j = 0; j < keys; ++j) {
              const auto before = query_at + t - (key_at + j);
              const bool sees = before >= 0 && (window == 0 || before < window);
              const auto diagonal = first + t - j;
              const bool masked =
                  *mask != SdpaMask::none && (diagonal < 0 || (left > 0 && diagonal >= left));
              EXPECT_EQ(sees, !masked) << query_at << " " << key_at << " " << keys << " " << window;
            }
        }
  EXPECT_EQ(found.size(), 4U);
}

TEST(SdpaParts, CoverEveryHeadOfEverySampleOnce) {
  for (const auto& s : {shape(5, 1024, 12, 12, 64), shape(7, 2048, 32, 8, 128),
                        shape(3, 4096, 6, 3, 64), shape(1, 512, 4, 4, 64)})
    for (const std::size_t limit : {GiB, GiB / 8, GiB / 64, std::size_t{1}}) {
      std::set<std::pair<std::int64_t, std::int64_t>> seen;
      std::set<std::pair<std::int64_t, std::int64_t>> sizes;
      for (const auto& p : sdpa_parts(s, backward, Determinism::on, limit)) {
        sizes.insert({p.samples, p.kv_heads});
        for (auto b = p.sample; b < p.sample + p.samples; ++b)
          for (auto g = p.kv_head; g < p.kv_head + p.kv_heads; ++g)
            EXPECT_TRUE(seen.insert({b, g}).second) << b << " " << g;
      }
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), s.batch * s.kv_heads);
      EXPECT_LE(sizes.size(), 2U);  // plans to build
    }
}

TEST(SdpaParts, StayWhereScratchIsSmall) {
  const auto s = shape(64, 1024, 12, 12, 64);
  const std::vector whole{SdpaPart{0, 64, 0, 12}};
  EXPECT_EQ(sdpa_parts(s, forward, Determinism::on), whole);
  EXPECT_EQ(sdpa_parts(s, backward, Determinism::off), whole);
}

TEST(SdpaParts, SplitSamplesThenGroupsAndNoFurther) {
  // About 2 T T bytes a head.
  const auto batch = sdpa_parts(shape(64, 1024, 12, 12, 64), backward, Determinism::on);
  EXPECT_GT(batch.size(), 1U);
  EXPECT_EQ(batch[0].kv_heads, 12);

  const auto long_one = shape(2, 16384, 8, 4, 64);  // half a GiB a head
  const auto groups = sdpa_parts(long_one, backward, Determinism::on);
  EXPECT_EQ(groups.size(), 8U);
  EXPECT_EQ(groups[1], (SdpaPart{0, 1, 1, 1}));
  EXPECT_EQ(shape_of(long_one, groups[1]).heads, 2);

  const auto longest = shape(1, 32768, 8, 2, 64);  // 8 GiB a group
  EXPECT_EQ(sdpa_parts(longest, backward, Determinism::on).size(), 2U);
  EXPECT_GT(sdpa_workspace(longest, backward, Determinism::on), 8 * GiB);
}

TEST(SdpaWorkspace, IsOfTheLargestPiece) {
  for (const auto& s :
       {shape(64, 1024, 12, 12, 64), shape(7, 2048, 32, 8, 128), shape(2, 16384, 8, 4, 64)}) {
    const auto bytes = sdpa_workspace(s, backward, Determinism::on);
    std::size_t most = 0;
    for (const auto& p : sdpa_parts(s, backward, Determinism::on))
      most = std::max(most, sdpa_workspace(shape_of(s, p), backward, Determinism::on));
    EXPECT_EQ(bytes, most);
    EXPECT_GE(bytes, 2ULL * static_cast<std::size_t>(s.tokens * s.tokens));
  }
  EXPECT_LE(sdpa_workspace(shape(64, 1024, 12, 12, 64), backward, Determinism::on), GiB);
  // Linear in the length without the exact mode.
  EXPECT_LT(sdpa_workspace(shape(1, 32768, 32, 8, 128), backward, Determinism::off), 4 * GiB);
}

TEST(SdpaKeys, AreEqualWhereAPlanIsShared) {
  const auto s = shape(4, 300, 6, 2, 64);
  const Packed packed(s);
  const auto key = key_of(s, backward, Determinism::on, packed.operands());

  // Pieces of one size, wherever they start.
  std::vector<SdpaKey> keys;
  for (const auto& p : {SdpaPart{0, 2, 0, 2}, SdpaPart{2, 2, 0, 2}})
    keys.push_back(
        key_of(shape_of(s, p), backward, Determinism::on, operands_of(packed.operands(), s, p)));
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_NE(keys[0], key);

  // What separates samples does not matter to a single one.
  const auto one = shape(1, 300, 6, 2, 64);
  const Packed alone(one);
  EXPECT_EQ(key_of(one, forward, Determinism::on, alone.operands()),
            key_of(one, forward, Determinism::on, operands_of(packed.operands(), s, {1, 1, 0, 2})));
}

TEST(SdpaKeys, DifferWhereAPlanWould) {
  const auto s = shape(4, 300, 6, 2, 64);
  const Packed packed(s);
  const auto operands = packed.operands();
  std::set<SdpaKey> keys{key_of(s, forward, Determinism::on, operands),
                         key_of(s, backward, Determinism::on, operands),
                         key_of(s, backward, Determinism::off, operands)};
  auto other = s;
  other.scale = 0.25;
  keys.insert(key_of(other, forward, Determinism::on, operands));
  auto dense = operands;
  dense[sdpa_q] = View(packed.bytes(), DType::bf16, {4, 300, 6, 64});
  keys.insert(key_of(s, forward, Determinism::on, dense));
  auto windowed = s;
  windowed.window = 299;
  keys.insert(key_of(windowed, forward, Determinism::on, operands));
  EXPECT_EQ(keys.size(), 6U);
  windowed.window = 300;  // hides nothing
  EXPECT_TRUE(keys.contains(key_of(windowed, forward, Determinism::on, operands)));
}

TEST(SdpaOperands, ArePartsOfTheWhole) {
  const auto s = shape(4, 300, 6, 2, 64);
  const Packed packed(s);
  const auto whole = packed.operands(), part = operands_of(whole, s, {1, 1, 1, 1});
  check_operands(shape_of(s, {1, 1, 1, 1}), backward, part);

  const auto at = [&](SdpaOperand o) {
    return (part[o].data - whole[o].data) / static_cast<std::int64_t>(bytes_of(part[o].dtype));
  };
  const std::int64_t row = 10 * 64;
  EXPECT_EQ(at(sdpa_q), 300 * row + 3 * 64);
  EXPECT_EQ(at(sdpa_k), 300 * row + 64);
  EXPECT_EQ(at(sdpa_do), 300 * 6 * 64 + 3 * 64);
  EXPECT_EQ(at(sdpa_lse), 6 * 300 + 3 * 300);
}

TEST(SdpaOperands, ThatCudnnCannotReadAreNamed) {
  const auto s = shape(2, 77, 6, 2, 64);
  const Packed packed(s);
  const auto said = [&](SdpaOperand o, auto change) {
    auto operands = packed.operands();
    change(operands[o]);
    return message_of([&] { check_operands(s, backward, operands); });
  };
  using testing::HasSubstr;
  EXPECT_EQ(said(sdpa_q, [](ConstView&) {}), "");
  EXPECT_THAT(said(sdpa_k, [](ConstView& v) { v.data += 8; }), HasSubstr("k at"));
  EXPECT_THAT(said(sdpa_dv, [](ConstView& v) { v.stride[1] += 4; }), HasSubstr("dv at"));
  EXPECT_THAT(said(sdpa_o, [](ConstView& v) { v.stride[3] = 2; }), HasSubstr("last dim of o"));
  EXPECT_THAT(said(sdpa_v, [](ConstView& v) { v.extent[2] = 6; }), HasSubstr("v [2, 77, 6, 64]"));
  EXPECT_THAT(said(sdpa_do, [](ConstView& v) { v.dtype = DType::f32; }), HasSubstr("do is f32"));
  EXPECT_THAT(said(sdpa_lse, [](ConstView& v) { v.dtype = DType::bf16; }), HasSubstr("lse is not"));
  EXPECT_THAT(said(sdpa_lse, [](ConstView& v) { v.stride[0] += 8; }), HasSubstr("lse is not"));
  EXPECT_THROW(check_operands(shape(2, 77, 6, 2, 20), forward, packed.operands()), Error);
}

// Halved as long as that goes, a part becomes each group of each sample once.
TEST(SdpaPlan, HalvesCoverAPieceOnce) {
  std::vector<SdpaPart> parts{{2, 5, 1, 3}}, single;
  while (!parts.empty()) {
    const auto p = parts.back();
    parts.pop_back();
    const auto halves = halves_of(p);
    if (halves.empty()) single.push_back(p);
    parts.insert(parts.end(), halves.begin(), halves.end());
  }
  std::vector<SdpaPart> want;
  for (std::int64_t sample = 2; sample < 7; ++sample)
    for (std::int64_t group = 1; group < 4; ++group) want.push_back({sample, 1, group, 1});
  std::ranges::sort(single, {}, [](const auto& p) { return std::pair(p.sample, p.kv_head); });
  EXPECT_EQ(single, want);
}

}  // namespace
}  // namespace trireme::cuda
