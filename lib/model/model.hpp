#pragma once
// Model: the parts of a transformer in the order of the forward pass: embedding, blocks, final
// norm, head. A part owns its ops but no weights. For each Run, the part borrows the weights of its
// units.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/autograd/tape.hpp"
#include "lib/model/spec.hpp"
#include "lib/ops/head.hpp"

namespace trireme {

// Role in which a part uses a unit. Tied embeddings are one unit that two parts use, each with
// separate gradients: the embedding (`own`) and the head (`tied`).
enum class Use : std::uint8_t { own, tied };

// One part's use of a unit. A unit is a set of parameters that are all-gathered together.
struct Borrow {
  UnitId unit;
  Use use = Use::own;
};

// Whether a part's backward pass reads weights. If not, no weights are all-gathered for it.
enum class BackwardReads : std::uint8_t { weights, nothing };
// Pass in which a part adds its weight gradients. The head adds them in the forward pass, and all
// other parts in the backward pass.
enum class GradientsIn : std::uint8_t { backward, forward };

// One part of a transformer: the embedding, a block, the final norm or the head.
class Part {
 public:
  virtual ~Part() = default;
  virtual std::string_view name() const = 0;
  virtual std::span<const Borrow> units() const = 0;
  virtual BackwardReads backward_reads() const { return BackwardReads::weights; }
  virtual GradientsIn gradients_in() const { return GradientsIn::backward; }
  // Returns true if the part supports activation checkpointing: only the part's input is stored,
  // and the backward pass recomputes the rest.
  virtual bool recomputable() const { return false; }
  virtual Value forward(Tape&, const Run&, Value x) const = 0;
};

// How a model is computed. None of the settings changes its function of tokens.
struct ModelSettings {
  DType compute = DType::f32;
  std::int64_t context = 0;  // tokens per sample; 0 means ModelConfig::max_context
  double dropout = 0;        // probability, on residual branches and embedding
  // If set, gradient sums do not depend on how the model is distributed. Key-value heads are then
  // repeated for each query head.
  bool exact = false;
};

// A transformer as a sequence of parts.
class Model {
 public:
  Model(Backend&, ModelSpec, ModelSettings);
  ~Model();

  const ModelSpec& spec() const { return spec_; }
  DType compute() const { return settings_.compute; }
  std::int64_t context() const { return settings_.context; }  // tokens per sample
  // Returns the parts in order. The first part takes ids_BT (i32). The last part returns the loss
  // (f64, one element).
  std::span<const std::unique_ptr<Part>> parts() const { return parts_; }
  // Returns the op of the last part, which computes logits for generation.
  const ops::Head& head() const;

 private:
  ModelSpec spec_;
  ModelSettings settings_;
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace trireme
