#include "lib/ops/expert_rounds.hpp"

#include <algorithm>
#include <numeric>

namespace trireme::ops {

namespace {

// Rows of one expert, rank and leaf in an owner's order.
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

// The owner's order, cut into rounds. A piece is divided where leaves do not matter.
std::vector<std::vector<Piece>> cut(const std::vector<Piece>& all, std::int64_t most,
                                    bool may_divide) {
  std::vector<std::vector<Piece>> rounds(1);
  std::int64_t left = most;
  for (auto piece : all) {
    while (piece.rows > left) {
      if (may_divide && left > 0) {
        rounds.back().push_back({piece.expert, piece.rank, piece.leaf, left});
        piece.rows -= left;
      }
      rounds.emplace_back();
      left = most;
    }
    rounds.back().push_back(piece);
    left -= piece.rows;
  }
  return rounds;
}

// What a rank receives in one of its rounds.
void take_in(ExpertRound& round, const std::vector<Piece>& pieces, const OwnedExperts& owned,
             const ExpertCounts& c, RowLists lists) {
  round.receive.assign(static_cast<std::size_t>(c.ranks), 0);
  for (const auto& p : pieces) round.receive[static_cast<std::size_t>(p.rank)] += p.rows;
  std::vector<std::int64_t> next(round.receive.size(), 0);
  std::exclusive_scan(round.receive.begin(), round.receive.end(), next.begin(), std::int64_t{0});
  auto piece = pieces.begin();
  std::int64_t rows = 0;
  for (auto e = owned.first; e < owned.end; ++e) {
    round.offset.push_back(static_cast<std::int32_t>(rows));
    for (; piece != pieces.end() && piece->expert == e; ++piece) {
      rows += piece->rows;
      for (std::int64_t i = 0; lists == RowLists::made && i < piece->rows; ++i) {
        round.place.push_back(
            static_cast<std::int32_t>(next[static_cast<std::size_t>(piece->rank)]++));
        round.leaf.push_back(static_cast<std::int32_t>(piece->rank * c.leaves + piece->leaf));
      }
    }
  }
  round.offset.push_back(static_cast<std::int32_t>(rows));
}

}  // namespace

OwnedExperts owned_experts(std::int64_t experts, int rank, int ranks) {
  const auto each = experts / ranks, more = experts % ranks;
  const auto first = rank * each + std::min<std::int64_t>(rank, more);
  return {first, first + each + (rank < more ? 1 : 0)};
}

namespace {

struct Load {
  std::int64_t all, indivisible = 1;
};

Load load_of(const ExpertCounts& c) {
  Load load{std::reduce(c.rows.begin(), c.rows.end(), std::int64_t{0})};
  load.indivisible = std::max<std::int64_t>(1, c.leaf_rows);
  return load;
}

std::int64_t rows_of(const Load& load, std::int64_t experts, const OwnedExperts& owned,
                     std::int64_t wanted) {
  if (wanted == 0) {
    const auto share = load.all * owned.count();
    wanted = (5 * share + 4 * experts - 1) / (4 * experts);
  }
  return std::max(std::min(wanted, load.all), load.indivisible);
}

}  // namespace

std::int64_t rows_of_round(const ExpertCounts& c, const OwnedExperts& owned, std::int64_t wanted) {
  return rows_of(load_of(c), c.experts, owned, wanted);
}

std::vector<ExpertRound> make_expert_rounds(const ExpertCounts& c, int me, std::int64_t wanted,
                                            RowLists lists) {
  std::vector<ExpertRound> rounds;
  const auto load = load_of(c);
  std::int64_t begin = 0;  // of this rank's rows for an owner
  for (int to = 0; to < c.ranks; ++to) {
    const auto owned = owned_experts(c.experts, to, c.ranks);
    const auto cuts =
        cut(pieces_of(c, owned), rows_of(load, c.experts, owned, wanted), c.leaf_rows == 0);
    if (rounds.size() < cuts.size()) rounds.resize(cuts.size());
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      std::int64_t mine = 0;
      for (const auto& p : cuts[i])
        if (p.rank == me) mine += p.rows;
      rounds[i].send.resize(static_cast<std::size_t>(to), {begin, 0});
      rounds[i].send.push_back({begin, mine});
      begin += mine;
      if (to == me) take_in(rounds[i], cuts[i], owned, c, lists);
    }
  }
  for (auto& round : rounds) {
    round.send.resize(static_cast<std::size_t>(c.ranks), {begin, 0});
    if (!round.receive.empty()) continue;
    take_in(round, {}, owned_experts(c.experts, me, c.ranks), c, lists);
  }
  return rounds;
}

}  // namespace trireme::ops
