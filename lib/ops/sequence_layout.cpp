#include "lib/ops/sequence_layout.hpp"

#include <algorithm>
#include <numeric>

#include "lib/base/error.hpp"

namespace trireme::ops {

int ranks_with_heads(int ranks, std::int64_t heads) {
  int most = 1;
  for (int n = 1; n <= ranks; ++n)
    if (ranks % n == 0 && n <= heads) most = n;
  return most;
}

// Chunks begin at multiples of `key_tile`, so that attention results have the same bits for any
// division into chunks.
SequenceLayout::SequenceLayout(std::int64_t tokens, int ranks, std::int64_t heads,
                               std::int64_t leaf, std::int64_t key_tile)
    : head_ranks_(ranks_with_heads(ranks, heads)),
      groups_(ranks / head_ranks_),
      key_tile_(std::max<std::int64_t>(1, key_tile)),
      borders_{0} {
  expect(tokens % ranks == 0 && tokens / ranks % leaf == 0,
         "ranks share a sample's tokens, in whole leaves");
  if (groups_ > 1) {
    const auto rows = tokens / groups_;  // rows per group
    // Blocks have a multiple of `step` rows. They then consist of whole leaves, and chunks of whole
    // key tiles.
    const auto step = leaf * (key_tile / std::gcd(key_tile, groups_ * leaf));
    const auto steps = rows / step, chunks = std::min<std::int64_t>(2 * groups_, steps);
    for (std::int64_t c = 1; c < chunks; ++c)
      borders_.push_back(borders_.back() +
                         groups_ * step * (steps / chunks + (c <= steps % chunks)));
  }
  borders_.push_back(tokens);
}

Span SequenceLayout::block(int group, int c) const {
  const auto whole = chunk(c);
  const auto rows = whole.count() / groups_;
  const int place = c % 2 == 0 ? group : groups_ - 1 - group;
  return {whole.begin + place * rows, whole.begin + (place + 1) * rows};
}

std::vector<Span> SequenceLayout::positions(int rank) const {
  const auto rows = tokens() / ranks(), first = head_rank_of(rank) * rows;
  std::vector<Span> all;
  // First row of the block among the rows of the group.
  std::int64_t row = 0;
  for (int c = 0; c < chunks(); ++c) {
    const auto b = block(group_of(rank), c);
    const Span own{std::clamp(first - row, std::int64_t{0}, b.count()),
                   std::clamp(first + rows - row, std::int64_t{0}, b.count())};
    if (own.count() > 0) all.push_back({b.begin + own.begin, b.begin + own.end});
    row += b.count();
  }
  return all;
}

std::vector<std::int32_t> SequenceLayout::every_position(int rank) const {
  std::vector<std::int32_t> all;
  for (const auto& s : positions(rank))
    for (auto p = s.begin; p < s.end; ++p) all.push_back(static_cast<std::int32_t>(p));
  return all;
}

Span SequenceLayout::seen_by(const Span& queries, int c, std::int64_t window) const {
  const auto keys = chunk(c);
  const auto first = window > 0 ? std::max<std::int64_t>(0, queries.begin + 1 - window) : 0;
  const auto tile = first / key_tile_ * key_tile_;
  const Span seen{std::max(keys.begin, tile), std::min(keys.end, queries.end)};
  return seen.count() > 0 ? seen : Span{keys.begin, keys.begin};
}

Span SequenceLayout::seen(int group, int c, std::int64_t window) const {
  Span all{chunk(c).end, chunk(c).begin};
  for (int q = c; q < chunks(); ++q) {
    const auto s = seen_by(block(group, q), c, window);
    if (s.count() > 0) all = {std::min(all.begin, s.begin), std::max(all.end, s.end)};
  }
  return all.count() > 0 ? all : Span{chunk(c).begin, chunk(c).begin};
}

HeadRanks head_ranks(const Run& run) {
  const int rank = run.seq.rank(), size = run.seq.size();
  if (!run.sequence) return {0, rank, size};
  const int n = run.sequence->head_ranks();
  return {rank / n * n, rank % n, n};
}

}  // namespace trireme::ops
