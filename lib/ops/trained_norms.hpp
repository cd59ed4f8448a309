#pragma once
// TrainedNorms: the second half of a DoRA adapter (Liu et al. 2024), which scales each row of the
// adapted weight to a trained norm m. With the low-rank half z = x (w + s b a)':
//   n_N = norm of row n of w + s b a;  y_TN = z_TN m_N / n_N + bias_N
//
// As in the paper (section 4.3), n is a constant in the backward pass:
//   dz = dy m / n;  dm = sum over tokens dy z / n
// The products of an adapter may leave out some of the N channels. There, y = z + bias.
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/low_rank.hpp"

namespace trireme::ops {

// The norms of one adapter.
class TrainedNorms {
 public:
  // `weight` is the frozen weight. `bias` is -1 if there is none.
  TrainedNorms(ParamId weight, ParamId bias, const LowRank&);

  // Results that the forward pass saves for the backward pass. Each list has one tensor per
  // product.
  struct Kept {
    std::vector<Tensor> n_N{};        // in the wide type
    std::vector<Tensor> normal_TN{};  // z / n
  };
  // Replaces z_TN by y_TN. `kept` is null if there is no backward pass.
  void apply(const Run&, const Tensor& z_TN, Kept* kept) const;
  // Adds only the bias to y_TN, for a forward pass without adapters.
  void add_bias(const Run&, const Tensor& y_TN) const;
  // Returns dz_TN.
  Tensor input_gradient(const Run&, const Tensor& dy_TN, const Kept&) const;
  // Computes the gradient of m from rows r. Accumulate selects whether the result replaces dm_N or
  // is added to it.
  void add_gradient(const Run&, const View& dm_N, Accumulate, const ConstView& dy_TN, const Kept&,
                    Rows r) const;

 private:
  Tensor row_norms(const Run&, const LowRank::Product&, std::size_t i, MemoryKind) const;
  ConstView trained(const Run&, const LowRank::Product&) const;
  ConstView bias(const Run&, std::int64_t channel, std::int64_t channels) const;

  struct Channels {
    std::int64_t begin, count;
  };
  // Returns the ranges of the N channels that no product covers.
  std::vector<Channels> others(std::int64_t all) const;

  ParamId weight_, bias_;
  LowRank low_;
};

}  // namespace trireme::ops
