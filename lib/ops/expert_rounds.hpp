#pragma once
// How rows of tokens travel to the ranks that hold their experts: in rounds of a planned size, so
// that a rank's memory does not depend on what routers choose. Pure.
//
// An owner's rows have one order: by expert, then by the rank they come from, then as they stand
// there. A round takes the next so many of them; what of it comes from one rank is then a range of
// that rank's sorted rows.
#include <cstdint>
#include <vector>

#include "lib/comm/grid.hpp"

namespace trireme::ops {

// Rows [begin, begin + count).
struct RowRange {
  std::int64_t begin = 0, count = 0;
  bool operator==(const RowRange&) const = default;
};

// Some of a round's rows, which travel and are computed while the next ones travel.
struct ExpertChunk {
  std::vector<RowRange> send;         // of this rank's sorted rows, by owner
  std::vector<std::int64_t> receive;  // rows, by the rank that they come from
  // Of this rank's experts: received rows in the order of the experts, as their places among what
  // is received, rank after rank; where each expert's begin in it, and the end.
  std::vector<std::int32_t> place, offset;
  std::int64_t rows() const { return offset.back(); }
};

struct ExpertRound {
  std::vector<ExpertChunk> chunks;  // in order, as many on every rank
  // Of this rank's experts, over all chunks: where each expert's rows begin, and the end; the leaf
  // that each row is of, a number over all ranks.
  std::vector<std::int32_t> offset, leaf;
  bool pretended = false;  // a plan's: it takes a round's memory, and nothing travels
  std::int64_t rows() const { return offset.back(); }
};

struct ExpertCounts {
  int ranks = 1;
  std::int64_t experts = 1, leaves = 1;
  // Most that one expert may have of a leaf, which a round must not divide; 0: it may.
  std::int64_t leaf_rows = 0;
  // Rows by rank, leaf and expert: leaves are parts of a rank's tokens, in order.
  std::vector<std::int64_t> rows{};
  std::int64_t at(int rank, std::int64_t leaf, std::int64_t expert) const {
    return rows[static_cast<std::size_t>((rank * leaves + leaf) * experts + expert)];
  }
};

// Rows that an owner takes in a round: `wanted`, or, where that is 0, 1.25 times its share of all
// rows if experts were chosen evenly.
std::int64_t rows_of_round(const ExpertCounts&, const OwnedExperts&, std::int64_t wanted);

// An owner's rows of a round are cut into as many equal chunks, wherever the cuts fall: one where
// products and messages have the same processors, more where the one goes on beside the other.
constexpr std::int64_t chunks_of_round(bool host_computes) {
  return host_computes ? 1 : 4;
}
// Of at most so many rows.
constexpr std::int64_t rows_of_chunk(std::int64_t rows_of_round, std::int64_t chunks) {
  return (rows_of_round + chunks - 1) / chunks;
}

// `counted`: without places and leaves of each row, for a plan.
enum class RowLists : std::uint8_t { made, counted };
// Of rank `me`; as many on every rank, at least one.
std::vector<ExpertRound> make_expert_rounds(const ExpertCounts&, int me, std::int64_t wanted,
                                            std::int64_t chunks, RowLists = RowLists::made);

}  // namespace trireme::ops
