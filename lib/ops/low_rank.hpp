#pragma once
// Parameters of an adapter: low-rank matrices (LoRA: Hu et al. 2021) and, with DoRA, trained norms,
// and functions that several ops with adapters use.
#include <cstdint>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/base/ids.hpp"
#include "lib/ops/pointwise.hpp"

namespace trireme::ops {

// The parameters and settings of an adapter. `norms` is -1 unless the method is DoRA.
struct LowRank {
  ParamId a, b, norms;
  std::int64_t rank;
  double scale;
  struct Product {
    std::int64_t channel, channels, row;  // range of y's channels; first row of b
  };
  std::vector<Product> products;
  DropoutSite dropout;
};

// Returns the input of `a`: x with the adapter's dropout, or x itself if no element is dropped.
Tensor dropped(const Run&, const LowRank&, const Tensor& x);
// Multiplies all elements by the adapter's scale.
void apply_scale(const Run&, const LowRank&, const View&);

}  // namespace trireme::ops
