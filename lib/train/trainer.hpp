#pragma once
// Trainer: one optimizer step at a time on a model and its state; also its evaluation and logits.
// What a step needs of the outside (tokens, learning rate) comes as values, so the same code runs a
// training, a test and a plan.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/shard/store.hpp"
#include "lib/train/config.hpp"
#include "lib/train/stage.hpp"

namespace trireme {

enum class Verdict : std::uint8_t {
  updated,
  no_targets,  // every target of the step is masked
  not_finite,  // a gradient or the loss is not finite
};

struct StepResult {
  Verdict verdict = Verdict::updated;
  double loss = 0;       // mean over valid targets; natural logarithm
  double grad_norm = 0;  // before clipping
  std::int64_t valid = 0;
  std::string culprit;  // not_finite: "the gradient of" the first parameter, or "the loss"
};

struct LossSum {
  double sum = 0;
  std::int64_t valid = 0;
  double mean() const { return sum / static_cast<double>(valid); }
};

class Trainer {
 public:
  // Takes all memory of the model; weights are undefined until store().initialize() or loaded.
  Trainer(Backend&, const Communicator& world, const ModelConfig&, const OptimizerConfig&,
          DType compute, std::uint64_t seed);

  // The same model without what training needs: step() is an Error.
  Trainer(Backend&, const Communicator& world, const ModelConfig&, DType compute);

  // One step over its microbatches; a skipped one leaves weights, moments and counts alone.
  StepResult step(std::int64_t step, double lr, std::span<const Batch> microbatches);
  LossSum evaluate(const Batch&);
  // Logits of the token after the last of `ids`, at most context of them.
  std::vector<double> logits(std::span<const std::int32_t> ids);

  const Model& model() const { return model_; }
  Store& store() { return store_; }
  Backend& backend() { return backend_; }

 private:
  Trainer(Backend&, const Communicator& world, const ModelConfig&, const OptimizerConfig&,
          DType compute, std::uint64_t seed, Upkeep);
  Microbatch upload(const Batch&);
  void update(double lr, double scale);

  Backend& backend_;
  const Communicator& world_;
  OptimizerConfig optimizer_;
  std::uint64_t seed_;
  Workspace workspace_;
  Model model_;
  Store store_;
};

}  // namespace trireme
