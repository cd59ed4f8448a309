#pragma once
// This rank's shards of the weights that are sent in fp8 (zero.gather_type = "fp8"), encoded for
// one program. The codes and scales are those to which the products round the whole matrix
// (kernel::RoundToFp8). Rounding the decoded weights again therefore gives the same operands, and
// all results have the same bits as with weights that are sent in the compute type.
//
// A tile may extend over several shards. Before the program, each rank finds the largest magnitudes
// in its part of each tile, and one all-gather sends them to all ranks of the shard group. Each
// rank then knows the scales of all tiles of its stage, so later gathers send only codes.
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/shard/shards.hpp"
#include "lib/shard/tiles.hpp"

namespace trireme {

// The encoded shards of a stage.
class EncodedShards {
 public:
  // Encodes the shards of all segments that are sent in fp8. Collective over the shard group. If
  // this rank holds whole segments, does nothing. Keeps a reference to the backend.
  EncodedShards(Backend&, const ModelSpec&, const Layout&, const Sharding&, const Shards&);

  // Returns this rank's codes of a segment, or an absent tensor if the segment is not sent in fp8.
  const Tensor& codes(std::size_t segment) const { return segments_[segment].codes; }
  // Decodes all weights of a segment to the dense view y_N.
  void decode(std::size_t segment, View y_N, ConstView codes) const;

 private:
  struct Encoded {
    std::optional<SegmentTiles> tiles;
    Tensor codes, scales;
  };
  View scales_of(const Encoded&, const MatrixPart&) const;
  void find_scales(const Layout&, const Sharding&, const Shards&);
  void encode(std::size_t segment, Range own, const Shards&);

  Backend& backend_;
  std::vector<Encoded> segments_;  // by segment
};

}  // namespace trireme
