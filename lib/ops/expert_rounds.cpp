#include "lib/ops/expert_rounds.hpp"

#include <algorithm>
#include <numeric>

namespace trireme::ops {

namespace {

// Rows of one expert, source rank and leaf. An owner receives pieces in this order.
struct Piece {
  std::int64_t expert;
  int rank;
  std::int64_t leaf, rows;
};

std::vector<Piece> pieces_of(const ExpertCounts& c, const OwnedExperts& owned) {
  std::vector<Piece> all;
  for (auto e = owned.first; e < owned.end; ++e)
    for (int r = 0; r < c.ranks; ++r)
      for (std::int64_t l = 0; l < c.leaves; ++l)
        if (const auto n = c.at(r, l, e); n > 0) all.push_back({e, r, l, n});
  return all;
}

using Pieces = std::vector<Piece>;

std::int64_t rows_of(const Pieces& pieces) {
  std::int64_t rows = 0;
  for (const auto& p : pieces) rows += p.rows;
  return rows;
}

// Divides pieces in order into parts of at most `most` rows. Splits pieces only if `may_divide`.
std::vector<Pieces> cut(const Pieces& all, std::int64_t most, bool may_divide) {
  std::vector<Pieces> parts(1);
  std::int64_t left = most;
  for (auto piece : all) {
    while (piece.rows > left) {
      if (may_divide && left > 0) {
        parts.back().push_back({piece.expert, piece.rank, piece.leaf, left});
        piece.rows -= left;
      }
      parts.emplace_back();
      left = most;
    }
    parts.back().push_back(piece);
    left -= piece.rows;
  }
  return parts;
}

std::vector<std::int32_t> offsets_of(const Pieces& pieces, const OwnedExperts& owned) {
  std::vector<std::int32_t> offset = {0};
  auto piece = pieces.begin();
  for (auto e = owned.first; e < owned.end; ++e) {
    auto rows = offset.back();
    for (; piece != pieces.end() && piece->expert == e; ++piece)
      rows += static_cast<std::int32_t>(piece->rows);
    offset.push_back(rows);
  }
  return offset;
}

// Fills in the rows that the owner receives in this chunk.
void take_in(ExpertChunk& chunk, const Pieces& pieces, const OwnedExperts& owned, RowLists lists) {
  for (const auto& p : pieces) chunk.receive[static_cast<std::size_t>(p.rank)] += p.rows;
  chunk.offset = offsets_of(pieces, owned);
  if (lists == RowLists::counted) return;
  std::vector<std::int64_t> next(chunk.receive.size(), 0);
  std::exclusive_scan(chunk.receive.begin(), chunk.receive.end(), next.begin(), std::int64_t{0});
  for (const auto& p : pieces)
    for (std::int64_t i = 0; i < p.rows; ++i)
      chunk.place.push_back(static_cast<std::int32_t>(next[static_cast<std::size_t>(p.rank)]++));
}

ExpertRound round_without_rows(const ExpertCounts& c, int me, std::int64_t chunks) {
  const auto ends = static_cast<std::size_t>(owned_experts(c.experts, me, c.ranks).count()) + 1;
  const auto ranks = static_cast<std::size_t>(c.ranks);
  ExpertRound round;
  round.offset.resize(ends);
  for (std::int64_t i = 0; i < chunks; ++i)
    round.chunks.push_back({.send = std::vector<RowRange>(ranks),
                            .receive = std::vector<std::int64_t>(ranks),
                            .place = {},
                            .offset = std::vector<std::int32_t>(ends)});
  return round;
}

std::int64_t all_rows(const ExpertCounts& c) {
  return std::reduce(c.rows.begin(), c.rows.end(), std::int64_t{0});
}

// Same as the public rows_of_round(), with the total number of rows as an argument.
std::int64_t rows_of_round(const ExpertCounts& c, std::int64_t all, const OwnedExperts& owned,
                           std::int64_t wanted) {
  if (wanted == 0) {
    const auto share = all * owned.count();
    wanted = (5 * share + 4 * c.experts - 1) / (4 * c.experts);
  }
  return std::max({std::min(wanted, all), c.leaf_rows, std::int64_t{1}});
}

}  // namespace

std::int64_t rows_of_round(const ExpertCounts& c, const OwnedExperts& owned, std::int64_t wanted) {
  return rows_of_round(c, all_rows(c), owned, wanted);
}

std::vector<ExpertRound> make_expert_rounds(const ExpertCounts& c, int me, std::int64_t wanted,
                                            std::int64_t chunks, RowLists lists) {
  const auto blank = round_without_rows(c, me, chunks);
  std::vector<ExpertRound> rounds;
  const auto all = all_rows(c);
  // Index of this rank's next row. Rows are sorted by owner.
  std::int64_t begin = 0;
  for (int to = 0; to < c.ranks; ++to) {
    const auto owned = owned_experts(c.experts, to, c.ranks);
    const auto of_rounds =
        cut(pieces_of(c, owned), rows_of_round(c, all, owned, wanted), c.leaf_rows == 0);
    if (rounds.size() < of_rounds.size()) rounds.resize(of_rounds.size(), blank);
    for (std::size_t i = 0; i < of_rounds.size(); ++i) {
      auto& round = rounds[i];
      const auto of_chunks = cut(of_rounds[i], rows_of_chunk(rows_of(of_rounds[i]), chunks), true);
      for (std::size_t k = 0; k < of_chunks.size(); ++k) {
        std::int64_t mine = 0;
        for (const auto& p : of_chunks[k])
          if (p.rank == me) mine += p.rows;
        round.chunks[k].send[static_cast<std::size_t>(to)] = {begin, mine};
        begin += mine;
        if (to == me) take_in(round.chunks[k], of_chunks[k], owned, lists);
      }
      if (to != me) continue;
      round.offset = offsets_of(of_rounds[i], owned);
      for (const auto& p : of_rounds[i])
        if (lists == RowLists::made)
          round.leaf.insert(round.leaf.end(), static_cast<std::size_t>(p.rows),
                            static_cast<std::int32_t>(p.rank * c.leaves + p.leaf));
    }
  }
  return rounds;
}

}  // namespace trireme::ops
