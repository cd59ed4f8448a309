// Tiles of segments in fp8, against tiles that each element belongs to.
#include "lib/shard/tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

// A block whose matrices have one tile to several, and its segment in fp8.
struct BlockInFp8 {
  explicit BlockInFp8(std::int64_t ranks) {
    auto model = test::tiny_llama();
    model.width = 160;
    model.heads = model.kv_heads = 4;
    model.head_dim = 40;
    model.ffn_width = 544;
    model.layers = 1;
    spec = with_fp8(make_spec(model), {});
    LayoutInput in{{spec.blocks[0].unit}, ranks, {}, {}};
    in.gather_type = GatherType::fp8;
    layout = make_layout(spec, in);
  }
  ModelSpec spec;
  Layout layout;
};

TEST(SegmentTiles, WeightsInFp8HaveASegmentOfTheirOwn) {
  const BlockInFp8 b(3);
  ASSERT_EQ(b.layout.segments.size(), 2U);
  for (const auto& segment : b.layout.segments)
    for (const auto& slot : segment.slots) {
      const auto& p = b.spec.params[slot.param.index()];
      EXPECT_EQ(segment.sent_in_fp8, p.products == ProductType::fp8) << p.name;
    }
}

// The number of the tile of each element, or -1 for padding.
std::vector<std::int64_t> tile_of_elements(const BlockInFp8& b, const Segment& s) {
  std::vector<std::int64_t> of(static_cast<std::size_t>(s.elements), -1);
  std::int64_t before = 0;
  for (const auto& slot : s.slots) {
    const auto& shape = b.spec.params[slot.param.index()].shape;
    std::int64_t in_row = 0;
    while (in_row * 128 < shape[1] || in_row % 4 != 0) ++in_row;
    for (std::int64_t i = 0; i < slot.count; ++i)
      of[static_cast<std::size_t>(slot.begin + i)] =
          before + i / shape[1] / 128 * in_row + i % shape[1] / 128;
    before += (shape[0] + 127) / 128 * in_row;
  }
  return of;
}

TEST(SegmentTiles, AShardsTilesContainItsElements) {
  for (const std::int64_t ranks : {1, 2, 3, 7, 64}) {
    const BlockInFp8 b(ranks);
    const auto& s = *std::ranges::find(b.layout.segments, true, &Segment::sent_in_fp8);
    const auto of = tile_of_elements(b, s);
    const auto all = tiles_of(b.spec, s, ranks);
    for (std::int64_t r = 0; r < ranks; ++r) {
      const auto shard = shard_range(s, r, ranks);
      std::int64_t in_parts = 0, weights = 0;
      for (const auto& part : parts_in(all, shard)) {
        in_parts += part.elements.count();
        for (auto i = part.elements.begin; i < part.elements.end; ++i) {
          const auto tile = of[static_cast<std::size_t>(i)];
          ASSERT_TRUE(part.tiles.begin <= tile && tile < part.tiles.end) << ranks << ' ' << i;
          const auto first = all.first_of_rank[static_cast<std::size_t>(r)];
          ASSERT_TRUE(first <= tile && tile < first + all.most) << ranks << ' ' << i;
        }
      }
      for (auto i = shard.begin; i < shard.end; ++i)
        weights += of[static_cast<std::size_t>(i)] >= 0;
      EXPECT_EQ(in_parts, weights);
    }
    EXPECT_EQ(*std::ranges::max_element(of) / 4, all.count / 4 - 1);
  }
}

// Another rank's tiles take no part in a scale that is not its own.
TEST(SegmentTiles, ARankWithPaddingAloneHasNone) {
  BlockInFp8 b(1);
  auto s = *std::ranges::find(b.layout.segments, true, &Segment::sent_in_fp8);
  s.elements *= 2;
  const auto all = tiles_of(b.spec, s, 2);
  EXPECT_EQ(all.first_of_rank[0], 0);
  EXPECT_EQ(all.first_of_rank[1], all.count);
  EXPECT_TRUE(parts_in(all, shard_range(s, 1, 2)).empty());
}

}  // namespace
}  // namespace trireme
