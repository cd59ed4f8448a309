#pragma once
// Turns the query and key heads of packed projections qkv_BT(H+2G)D by the angles of their
// positions: in the sample, or in the document where Place has those (Su et al. 2021).
#include <span>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

class Rotary final : public Op {
 public:
  // table_P2E: cos and sin by position, as kernel::Rotary says; owned by the model.
  Rotary(Heads heads, Tensor table) : heads_(heads), table_(std::move(table)) {}
  std::string_view name() const override { return "rotary"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  Tensor turn(const Run&, Tensor, Direction, Kind) const;
  Heads heads_;
  Tensor table_;
};

// cos and sin, times `amplitude`, for `positions` positions of each of E frequencies, radians a
// position.
Tensor rotary_table(Backend&, std::int64_t positions, std::span<const double> frequency_E,
                    double amplitude, DType);

}  // namespace trireme::ops
