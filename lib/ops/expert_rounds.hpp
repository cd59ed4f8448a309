#pragma once
// Expert parallelism: how token rows are sent to the ranks that own their experts. Rows are sent in
// rounds of a planned size, so a rank's memory use does not depend on the routers' choices. The
// functions are pure.
//
// The rows of an owner are ordered by expert, then by source rank, then by their order on the
// source rank. Each round takes the next rows in this order. Therefore the rows of a round from one
// source rank are a contiguous range of that rank's sorted rows.
#include <cstdint>
#include <vector>

#include "lib/comm/grid.hpp"

namespace trireme::ops {

// A range [begin, begin + count) of rows.
struct RowRange {
  std::int64_t begin = 0, count = 0;
  bool operator==(const RowRange&) const = default;
};

// A chunk: part of a round. While one chunk is computed, the next chunk is in transit.
struct ExpertChunk {
  std::vector<RowRange> send;         // ranges of this rank's sorted rows, by owner
  std::vector<std::int64_t> receive;  // number of rows, by source rank
  // `place` lists the received rows in the order of this rank's experts, as indices into the
  // received rows of all source ranks in rank order. `offset` contains the index in that list at
  // which each expert's rows begin, and then the end of the list.
  std::vector<std::int32_t> place, offset;
  std::int64_t rows() const { return offset.back(); }
};

// One round from the view of one rank: the rows that it sends and receives.
struct ExpertRound {
  std::vector<ExpertChunk> chunks;  // in order; every rank has as many
  // Lists for all chunks together. `offset` contains the index at which the rows of each of this
  // rank's experts begin, and then the end. `leaf` is the index over all ranks of each row's leaf
  // (see ExpertCounts).
  std::vector<std::int32_t> offset, leaf;
  bool pretended = false;  // in a plan: allocates a round's memory without sending anything
  std::int64_t rows() const { return offset.back(); }
};

// Numbers of rows that each rank sends to each expert.
struct ExpertCounts {
  int ranks = 1;
  std::int64_t experts = 1, leaves = 1;
  // Maximum number of rows that one leaf has for one expert. A leaf is a chunk of tokens whose
  // gradients are summed as one term, so a leaf must not be split between rounds. 0 means that
  // rounds may split leaves.
  std::int64_t leaf_rows = 0;
  // Counts by rank, leaf and expert. The leaves of a rank are consecutive chunks of its tokens.
  std::vector<std::int64_t> rows{};
  std::int64_t at(int rank, std::int64_t leaf, std::int64_t expert) const {
    return rows[static_cast<std::size_t>((rank * leaves + leaf) * experts + expert)];
  }
};

// Returns the maximum number of rows that an owner receives in one round. `wanted` = 0 means 1.25
// times the owner's rows under an even load.
std::int64_t rows_of_round(const ExpertCounts&, const OwnedExperts&, std::int64_t wanted);

// Returns the number of equal chunks in a round. If the host computes, there is one chunk, because
// computation and messages would share its processors. Otherwise there are several, so that
// computation and messages overlap.
constexpr std::int64_t chunks_of_round(bool host_computes) {
  return host_computes ? 1 : 4;
}
// Returns the maximum number of rows in a chunk.
constexpr std::int64_t rows_of_chunk(std::int64_t rows_of_round, std::int64_t chunks) {
  return (rows_of_round + chunks - 1) / chunks;
}

// Whether a round lists `place` and `leaf` of each row (`made`), or only counts rows (`counted`,
// for plans).
enum class RowLists : std::uint8_t { made, counted };
// Returns the rounds of rank `me`. All ranks have the same number of rounds, which is at least one.
// `wanted` is passed to rows_of_round().
std::vector<ExpertRound> make_expert_rounds(const ExpertCounts&, int me, std::int64_t wanted,
                                            std::int64_t chunks, RowLists = RowLists::made);

}  // namespace trireme::ops
