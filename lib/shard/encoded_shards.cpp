#include "lib/shard/encoded_shards.hpp"

#include "kernels/fp8.hpp"

namespace trireme {

// Returns a part of a shard that begins at element `shard_begin` of its segment.
static ConstView part_of(const Tensor& shard, const MatrixPart& part, std::int64_t shard_begin) {
  return shard.slice(part.elements.begin - shard_begin, {part.elements.count()}).view();
}

// Returns the elements of a list of tiles that belong to a part, as the tiles' rows.
static View tiles_of_part(const Tensor& tiles, const MatrixPart& part, const TiledMatrix& matrix,
                          std::int64_t first_tile) {
  return tiles
      .slice(part.tiles.begin - first_tile,
             {part.tiles.count() / matrix.tile_columns, matrix.tile_columns})
      .view();
}

EncodedShards::EncodedShards(Backend& b, const ModelSpec& spec, const Layout& layout,
                             const Sharding& sharding, const Shards& shards)
    : backend_(b), segments_(layout.segments.size()) {
  const auto ranks = sharding.stage.gather.size();
  bool any = false;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto& segment = layout.segments[i];
    if (!segment.sent_in_fp8 || sharding.of(segment).whole()) continue;
    expect(!segment.of_experts, "weights of experts are sent in the compute type");
    segments_[i].tiles = tiles_of(spec, segment, ranks);
    any = true;
  }
  if (!any) return;
  find_scales(layout, sharding, shards);
  for (std::size_t i = 0; i < segments_.size(); ++i)
    if (segments_[i].tiles) encode(i, sharding.own(layout.segments[i]), shards);
}

void EncodedShards::find_scales(const Layout& layout, const Sharding& sharding,
                                const Shards& shards) {
  const auto& group = sharding.stage.gather;
  const auto ranks = group.size();
  // The columns of each segment in the gathered magnitudes, and the first tile of each rank.
  std::vector<Range> columns(segments_.size());
  std::vector<std::int32_t> first_SR;
  std::int64_t width = 0;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto& tiles = segments_[i].tiles;
    if (!tiles) continue;
    columns[i] = {width, width + tiles->most};
    width += tiles->most;
    first_SR.insert(first_SR.end(), tiles->first_of_rank.begin(), tiles->first_of_rank.end());
  }
  const auto room = [&](const Shape& s, Queue first = Queue::compute) {
    return Tensor::empty(backend_, s, DType::i32, MemoryKind::transient, first);
  };
  const Tensor own_W = room({width}), all_RW = room({ranks, width}, Queue::gather),
               first = room({std::ssize(first_SR)});
  backend_.put(Queue::compute, kernel::Fill{.dst = own_W.view(), .value = 0});
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto& tiles = segments_[i].tiles;
    if (!tiles) continue;
    const auto own = sharding.own(layout.segments[i]);
    const auto first_tile = tiles->first_of_rank[static_cast<std::size_t>(group.rank())];
    const Tensor magnitudes = own_W.slice(columns[i].begin, {columns[i].count()});
    for (const auto& part : parts_in(*tiles, own)) {
      const auto& matrix = tiles->matrices[part.matrix];
      backend_.put(
          Queue::compute,
          kernel::LargestOfTiles{.largest_IG = tiles_of_part(magnitudes, part, matrix, first_tile),
                                 .x_N = part_of(shards.copy(i), part, own.begin),
                                 .first = part.first,
                                 .columns = matrix.columns});
    }
  }
  backend_.upload(Queue::compute, first.view(), std::as_bytes(std::span(first_SR)));
  backend_.wait(Queue::gather, backend_.record(Queue::compute));
  auto gathering = group.all_gather(backend_, Queue::gather, all_RW.view(), own_W.view(),
                                    {OperationKind::gather, "the scales of weights in fp8"});
  gathering.keep(own_W);
  gathering.keep(all_RW);
  gathering.wait(Queue::compute);
  std::int64_t row = 0;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    auto& [tiles, codes, scales] = segments_[i];
    if (!tiles) continue;
    scales = Tensor::empty(backend_, {tiles->count}, DType::f32, MemoryKind::gathered);
    backend_.put(Queue::compute,
                 kernel::ScalesOfTiles{
                     .scale_T = scales.view(),
                     .largest_RW = all_RW.view().slice(1, columns[i].begin, columns[i].count()),
                     .first_R = first.slice(row++ * ranks, {ranks}).view()});
  }
}

View EncodedShards::scales_of(const Encoded& e, const MatrixPart& part) const {
  return tiles_of_part(e.scales, part, e.tiles->matrices[part.matrix], 0);
}

void EncodedShards::encode(std::size_t i, Range own, const Shards& shards) {
  auto& e = segments_[i];
  e.codes = Tensor::empty(backend_, {fp8::words_of(own.count())}, DType::i32, MemoryKind::gathered);
  // Padding between the matrices has no codes.
  backend_.put(Queue::compute, kernel::Fill{.dst = e.codes.view(), .value = 0});
  for (const auto& part : parts_in(*e.tiles, own)) {
    const auto word = fp8::words_of(part.elements.begin - own.begin);
    backend_.put(Queue::compute,
                 kernel::EncodeTiles{
                     .code_W = e.codes.slice(word, {fp8::words_of(part.elements.count())}).view(),
                     .x_N = part_of(shards.copy(i), part, own.begin),
                     .scale_IG = scales_of(e, part),
                     .first = part.first,
                     .columns = e.tiles->matrices[part.matrix].columns});
  }
}

void EncodedShards::decode(std::size_t i, View y_N, ConstView codes) const {
  const auto& e = segments_[i];
  for (const auto& part : parts_in(*e.tiles, {0, y_N.count()})) {
    const auto n = part.elements.count();
    backend_.put(Queue::compute,
                 kernel::DecodeTiles{
                     .y_N = y_N.slice(0, part.elements.begin, n),
                     .code_W = codes.slice(0, fp8::words_of(part.elements.begin), fp8::words_of(n)),
                     .scale_IG = scales_of(e, part),
                     .first = part.first,
                     .columns = e.tiles->matrices[part.matrix].columns});
  }
}

}  // namespace trireme
