#pragma once
// A checkpoint's weights as an export takes them.
#include <map>
#include <string>
#include <vector>

#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

class StoredModel {
 public:
  // Error naming the first differences unless the checkpoint's parameters are the model's. Adapters
  // need `base`, the checkpoint that they stand beside, and are merged into its weights: w + s b a,
  // added in f64 and rounded once to the wider of both types. What is given outlives it.
  StoredModel(CheckpointReader&, const ModelConfig&, CheckpointReader* base = nullptr);

  const ModelSpec& spec() const { return spec_; }       // without adapters
  const CheckpointMeta& meta() const { return meta_; }  // of the newer checkpoint
  std::string where() const { return where_; }          // for messages
  DType dtype() const { return dtype_; }                // of all its parameters: f32 or f64
  // Elements as CheckpointReader::read hands them over.
  void read(const std::string& param, std::int64_t begin, std::int64_t count,
            const CheckpointReader::Sink&);

 private:
  struct Merged {
    AdapterParams adapter;
    std::int64_t inputs;
    std::vector<double> a, b;
  };
  void add(const Merged&, std::int64_t first, std::span<const std::byte> from,
           std::span<std::byte> to) const;

  CheckpointReader& weights_;
  const CheckpointMeta& meta_;
  std::string where_;
  ModelSpec spec_;
  DType stored_, dtype_;  // of weights_; of what is read
  double scale_ = 0;
  std::map<std::string, Merged> merged_;  // by weight
};

// The elements of a parameter as doubles.
std::vector<double> read_doubles(CheckpointReader&, const ParamSpec&);

}  // namespace trireme
