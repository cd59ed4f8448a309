#pragma once
// Rotary: rotates the query heads and key heads of packed projections qkv_BT(H+2G)D by angles that
// depend on their position (Su et al. 2021). If PassContext has positions within documents, they
// are used. Otherwise the positions in the sample are used.
#include <span>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

// Rotary position embedding.
class Rotary final : public Op {
 public:
  // `table` [P, 2, E] contains cos and sin by position, as kernel::Rotary defines. All blocks share
  // the table.
  Rotary(Heads heads, Tensor table) : heads_(heads), table_(std::move(table)) {}
  std::string_view name() const override { return "rotary"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  Tensor turn(const Run&, Tensor, Direction, MemoryKind) const;
  Heads heads_;
  Tensor table_;
};

// Returns a table of cos and sin, multiplied by `amplitude`, for `positions` positions and each
// frequency. Frequencies are in radians per position. A pair with frequency 0 does not rotate, and
// `amplitude` does not scale it.
Tensor rotary_table(Backend&, std::int64_t positions, std::span<const double> frequency_E,
                    double amplitude, DType);

}  // namespace trireme::ops
