// trireme evaluate CHECKPOINT
#include <cmath>
#include <cstdio>

#include "app/commands.hpp"
#include "app/run_support.hpp"
#include "lib/run/evaluation.hpp"

namespace trireme {

namespace {

struct EvaluateArguments {
  std::string checkpoint, backend;
  std::vector<std::string> data;
  std::int64_t samples = 0, threads = 0;
};

int evaluate_checkpoint(const EvaluateArguments& a) {
  const auto loaded = LoadedModel::open(a.checkpoint, a.backend, a.threads);
  auto& model = *loaded;
  DataConfig data = model.deck().data;
  if (!a.data.empty()) {
    data.path.clear();  // --data may name training files, which a deck may not hold out
    data.validation_files = a.data;
    data.validation_fraction = 0;
  }
  require(data.has_validation(),
          "the checkpoint's deck holds no data out: name token files with --data");
  const auto held_out = validation_data(data, model.deck().model.context, model.deck().model.vocab);
  const auto loss = *evaluate(model.trainer(), *held_out, a.samples, model.deck().train.microbatch);
  require(loss.valid > 0, "none of the held-out targets counts: all are masked");
  fmt::print("step {}: loss {:.6f}, perplexity {:.4f}, over {} targets\n", model.meta().step,
             loss.mean(), std::exp(loss.mean()), loss.valid);
  return 0;
}

}  // namespace

void add_evaluate(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("evaluate", "loss of a checkpoint on held-out tokens");
  auto a = std::make_shared<EvaluateArguments>();
  command->add_option("checkpoint", a->checkpoint, "a checkpoint or run directory")
      ->required()
      ->transform(with_environment());
  command->add_option("--data", a->data, "token files (default: what its deck holds out)")
      ->transform(with_environment());
  command->add_option("--samples", a->samples, "use at most this many (default: all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--backend", a->backend, "as run.backend (default: the deck's)");
  command->add_option("--threads", a->threads, "as run.threads (default: the deck's)")
      ->check(CLI::Range(0, 4096));
  command->callback([&chosen, a] { chosen = [a] { return evaluate_checkpoint(*a); }; });
}

}  // namespace trireme
