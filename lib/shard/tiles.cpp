#include "lib/shard/tiles.hpp"

#include <algorithm>

#include "kernels/fp8.hpp"
#include "lib/base/error.hpp"

namespace trireme {

std::vector<MatrixPart> parts_in(const SegmentTiles& all, Range range) {
  std::vector<MatrixPart> parts;
  for (std::size_t i = 0; i < all.matrices.size(); ++i) {
    const auto& m = all.matrices[i];
    const auto part = intersection(range, {m.slot.begin, m.slot.begin + m.slot.count});
    if (part.count() == 0) continue;
    const auto first = part.begin - m.slot.begin;
    const auto bands = fp8::bands_of(first, part.count(), m.columns);
    parts.push_back({i,
                     part,
                     first,
                     {m.tiles.begin + bands.begin * m.tile_columns,
                      m.tiles.begin + bands.end * m.tile_columns}});
  }
  return parts;
}

SegmentTiles tiles_of(const ModelSpec& spec, const Segment& segment, std::int64_t ranks) {
  SegmentTiles all;
  for (const auto& slot : segment.slots) {
    const auto& shape = spec.params[slot.param.index()].shape;
    expect(shape.dims() == 2, "weights that are sent in fp8 are matrices");
    const auto tiles = fp8::scale_shape(fp8::Scales::tiles, shape[0], shape[1]);
    all.matrices.push_back({slot, shape[1], {all.count, all.count + tiles.count()}, tiles[1]});
    all.count += tiles.count();
  }
  for (std::int64_t r = 0; r < ranks; ++r) {
    const auto parts = parts_in(all, shard_range(segment, r, ranks));
    const auto first = parts.empty() ? all.count : parts.front().tiles.begin;
    all.first_of_rank.push_back(static_cast<std::int32_t>(first));
    if (!parts.empty()) all.most = std::max(all.most, parts.back().tiles.end - first);
  }
  return all;
}

}  // namespace trireme
