#pragma once
// Expert parallelism: how rows of tokens travel to the ranks that own their experts. They travel in
// rounds of a planned size, so a rank's memory does not depend on the routers' choices. The
// functions are pure.
//
// The rows of an owner are ordered by expert, then by source rank, then as in the source rank. Each
// round takes the next rows in this order. The rows of a round from one source rank are therefore a
// contiguous range of that rank's sorted rows.
#include <cstdint>
#include <vector>

#include "lib/comm/grid.hpp"

namespace trireme::ops {

// Rows [begin, begin + count).
struct RowRange {
  std::int64_t begin = 0, count = 0;
  bool operator==(const RowRange&) const = default;
};

// A part of a round. While one chunk is computed, the next one travels.
struct ExpertChunk {
  std::vector<RowRange> send;         // ranges of this rank's sorted rows, by owner
  std::vector<std::int64_t> receive;  // number of rows, by source rank
  // `place` lists the received rows in the order of this rank's experts, as indices into the
  // received rows of all source ranks in rank order. `offset` is where each expert's rows begin in
  // that list, and the end.
  std::vector<std::int32_t> place, offset;
  std::int64_t rows() const { return offset.back(); }
};

// One round, as one rank sees it: the rows that it sends and receives.
struct ExpertRound {
  std::vector<ExpertChunk> chunks;  // in order; every rank has as many
  // For all chunks together: `offset` is where the rows of each of this rank's experts begin, and
  // the end. `leaf` is the leaf of each row (see ExpertCounts), numbered over all ranks.
  std::vector<std::int32_t> offset, leaf;
  bool pretended = false;  // in a plan: allocates a round's memory without sending anything
  std::int64_t rows() const { return offset.back(); }
};

// Numbers of rows that each rank sends to each expert.
struct ExpertCounts {
  int ranks = 1;
  std::int64_t experts = 1, leaves = 1;
  // Maximum rows of one leaf for one expert. A leaf is a chunk of tokens whose gradients are summed
  // as one term, so rounds must not divide it. 0 means that they may.
  std::int64_t leaf_rows = 0;
  // By rank, leaf and expert. The leaves of a rank are parts of its tokens, in order.
  std::vector<std::int64_t> rows{};
  std::int64_t at(int rank, std::int64_t leaf, std::int64_t expert) const {
    return rows[static_cast<std::size_t>((rank * leaves + leaf) * experts + expert)];
  }
};

// Returns the maximum rows of an owner in one round. `wanted` = 0 means 1.25 times the owner's
// share of all rows if all experts were chosen equally often.
std::int64_t rows_of_round(const ExpertCounts&, const OwnedExperts&, std::int64_t wanted);

// Returns the number of equal chunks of a round: one if the host computes, because products and
// messages would share its processors; otherwise several, so that computation and messages overlap.
constexpr std::int64_t chunks_of_round(bool host_computes) {
  return host_computes ? 1 : 4;
}
// Returns the maximum rows of a chunk.
constexpr std::int64_t rows_of_chunk(std::int64_t rows_of_round, std::int64_t chunks) {
  return (rows_of_round + chunks - 1) / chunks;
}

// Whether a round lists `place` and `leaf` of each row (`made`) or only counts rows (`counted`, for
// plans).
enum class RowLists : std::uint8_t { made, counted };
// Returns the rounds of rank `me`. All ranks have the same number of rounds, at least one. `wanted`
// is the argument of rows_of_round().
std::vector<ExpertRound> make_expert_rounds(const ExpertCounts&, int me, std::int64_t wanted,
                                            std::int64_t chunks, RowLists = RowLists::made);

}  // namespace trireme::ops
