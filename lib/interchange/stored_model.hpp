#pragma once
// The weights of a checkpoint in the form in which an export reads them, with adapters merged.
#include <map>
#include <set>
#include <string>

#include "lib/deck/deck.hpp"
#include "lib/interchange/merged_weight.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// A trained model whose weights are read from a checkpoint.
class StoredModel {
 public:
  // If the checkpoint contains adapters, `base` must be the checkpoint of their base model. The
  // adapters are merged into the base model's weights (MergedWeight) and rounded once to the wider
  // of the two checkpoints' types. Parameters in AdapterConfig::also_train replace those of the
  // base model. The readers must outlive this object. Throws Error, naming the first
  // differences, unless the checkpoint has exactly the model's parameters.
  StoredModel(CheckpointReader&, const ModelDescription&, CheckpointReader* base = nullptr);

  // Returns the model without adapters.
  const ModelSpec& spec() const { return spec_; }
  // Returns the number of tokens per sample with which the model was trained.
  std::int64_t context() const { return context_; }
  // Returns the state of the checkpoint that was given first, which contains the adapters if there
  // are any.
  const CheckpointMeta& meta() const { return meta_; }
  // Returns the path of the checkpoint, for messages.
  std::string where() const { return where_; }
  // Returns the type of all parameters: f32 or f64.
  DType dtype() const { return dtype_; }
  // Reads elements, with the arguments of CheckpointReader::read().
  void read(const std::string& param, std::int64_t begin, std::int64_t count,
            const CheckpointReader::Sink&);

 private:
  CheckpointReader &weights_, &reader_;  // of the base model, and of the given checkpoint
  const CheckpointMeta& meta_;
  std::string where_;
  ModelSpec spec_;
  std::int64_t context_;
  DType dtype_;
  std::map<std::string, MergedWeight> merged_;  // by name of the weight
  std::set<std::string> also_trained_;
};

}  // namespace trireme
