#pragma once
// The tiles of a segment whose weights are sent in fp8. A tile consists of 128 x 128 weights of one
// matrix, which share a scale (kernels/fp8.hpp). The tiles of a segment are numbered matrix by
// matrix, and by rows in a matrix. The shards of a segment may begin and end anywhere in a tile.
// All functions are pure.
#include <cstdint>
#include <vector>

#include "lib/shard/layout.hpp"

namespace trireme {

// The tiles of one matrix. `tiles` are its numbers in the segment.
struct TiledMatrix {
  Slot slot;
  std::int64_t columns = 0;
  Range tiles;
  std::int64_t tile_columns = 0;  // including padding (fp8::scale_shape)
};

// The elements of one matrix in a range of a segment. `tiles` are those of all its bands.
struct MatrixPart {
  std::size_t matrix = 0;  // index in SegmentTiles::matrices
  Range elements;          // of the segment
  std::int64_t first = 0;  // index in the matrix of the first element
  Range tiles;
};

// The tiles of a segment's matrices, and the tiles of each rank's shard.
struct SegmentTiles {
  std::vector<TiledMatrix> matrices;
  std::int64_t count = 0;
  // First tile of each shard. If a shard has only padding, the number is `count`.
  std::vector<std::int32_t> first_of_rank;
  std::int64_t most = 1;  // largest number of tiles from a shard's first to its last, at least 1
};

// Returns the parts of the matrices that a range of the segment contains.
std::vector<MatrixPart> parts_in(const SegmentTiles&, Range);
// Returns the tiles of a segment that `ranks` ranks share.
SegmentTiles tiles_of(const ModelSpec&, const Segment&, std::int64_t ranks);

}  // namespace trireme
