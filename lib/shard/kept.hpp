#pragma once
// The type in which a segment's weights are stored in shards and gathered. Usually this is the type
// in which computations use the weights. Base weights of adapters may be stored in a smaller type
// (BaseType), and are then widened (converted to the compute type) for each use.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/shard/layout.hpp"

namespace trireme {

// Storage type of a segment's weights, and conversions between numbers of weights and of storage
// elements.
class StorageType {
 public:
  StorageType(const Segment&, DType computed);

  DType type() const { return type_; }
  // Returns the number of storage elements for `weights` weights. The result is also the index of
  // the element at which weight number `weights` begins. For NF4 records, `weights` must be a
  // multiple of alignment_of(segment).
  std::int64_t count(std::int64_t weights) const;
  bool in_records() const { return base_ == BaseType::nf4; }
  // Returns true if the weights must be widened before use.
  bool narrow() const { return in_records() || type_ != computed_; }

 private:
  BaseType base_;
  DType type_, computed_;
};

// Writes the weights in `kept`, converted to the type of y_N, to the dense view y_N. For NF4
// records, y_N must have room for all weights of each record.
void put_widened(Backend&, View y_N, ConstView kept);

// Returns the NF4 records (kernels/nf4.hpp) of the weights. The last record is filled up with
// zeros.
//
// Each block of 64 weights is divided by its largest magnitude and rounded to the nearest codes. A
// tie is rounded to the lower code. The largest magnitudes of the record's up to 256 blocks are
// then rounded to the nearest scale that a byte can represent relative to the largest one
// (kernels/math/nf4.hpp).
//
// A widened weight differs from the original by at most 0.174 of its block's largest magnitude. If
// a block's largest magnitude is below 2^(-254.5 / 16) of the record's largest one, the block uses
// the smallest scale, 2^(-254 / 16) = 1.7e-5 of the record's largest magnitude. Its weights then
// differ by at most 2.6e-6 of that magnitude, and are 0 if they are below 6.6e-7 of it.
//
// Throws Error if a weight is not finite. `name` and `first`, the index of the first weight,
// identify the weight in the message.
std::vector<std::int32_t> records_of(std::span<const float> weights, std::string_view name,
                                     std::int64_t first);

}  // namespace trireme
