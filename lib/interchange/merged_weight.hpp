#pragma once
// The weight of a base model with its adapter merged.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// A base weight w_NC with its adapter merged: w + s b a. With DoRA, each row of the sum is then
// scaled to its trained norm. All results are computed in f64.
class MergedWeight {
 public:
  // Reads the adapter of `spec` from the checkpoint `adapters`. With DoRA, also reads w from
  // `base`.
  MergedWeight(const ModelSpec& spec, const AdapterParams&, CheckpointReader& adapters,
               CheckpointReader& base);

  // Converts elements of w, from number `first` on, to elements of the merged weight. Both spans
  // hold elements of type `type` (f32 or f64).
  void merge(std::int64_t first, DType type, std::span<const std::byte> w,
             std::span<std::byte> merged) const;

 private:
  double sum(std::int64_t n, std::int64_t i, double w) const;
  void find_factors(const std::vector<double>& norms, CheckpointReader& base,
                    const ParamSpec& weight);

  AdapterParams adapter_;
  std::int64_t inputs_;
  double scale_;
  std::vector<double> a_, b_;
  std::vector<double> factor_N_;  // factors on the rows; empty without DoRA
};

// Reads all elements of a parameter and converts them to double.
std::vector<double> read_doubles(CheckpointReader&, const ParamSpec&);

}  // namespace trireme
