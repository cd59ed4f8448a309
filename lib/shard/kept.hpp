#pragma once
// How a segment's weights lie in shards and travel when they are gathered: in the type that they
// are computed with or, of what adapters stand beside, in less (BaseType), to be widened for each
// use.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/shard/layout.hpp"

namespace trireme {

// Elements of a type that hold weights of another.
class KeptAs {
 public:
  KeptAs(const Segment&, DType computed);

  DType type() const { return type_; }
  // Elements that `weights` of them take, or where the weight of that number begins: at multiples
  // of alignment_of(segment), but in records anywhere.
  std::int64_t count(std::int64_t weights) const;
  bool in_records() const { return base_ == BaseType::nf4; }
  // Must they be widened before they are computed with?
  bool narrow() const { return in_records() || type_ != computed_; }

 private:
  BaseType base_;
  DType type_, computed_;
};

// y_N = weights that are kept in `kept`, dense; in records y_N has all weights of each.
void put_widened(Backend&, View y_N, ConstView kept);

// Records (kernels/nf4.hpp) of weights, zeros behind the last. Each block of 64 goes to the nearest
// codes of its weights over its largest magnitude, the lower one where two are as near; the 256
// largest magnitudes of a record, as many as there are, then to the nearest of what bytes mean in
// units of the largest (kernels/math/nf4.hpp). Widened, a weight is off by at most 0.174 of its
// block's largest magnitude. A block whose largest is below 2^(-254.5 / 16) of its record's goes to
// the nearest codes over the smallest scale, 2^(-254 / 16) = 1.7e-5 of the record's largest: off by
// at most 2.6e-6 of that, and 0 below 6.6e-7. Error, with what `name` is called and where its first
// weight here stands, for one that is not finite.
std::vector<std::int32_t> records_of(std::span<const float> weights, std::string_view name,
                                     std::int64_t first);

}  // namespace trireme
