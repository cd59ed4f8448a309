// The passes of a step before the pass with gradients, and what pairs of documents make of their
// results: sums, and weights of the documents' losses. The reference model is the base model of the
// adapters, which needs a forward pass of its own, or is given as scores in the batches.
#include <algorithm>

#include "lib/ops/head.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

std::vector<double> Trainer::losses_of_documents(std::span<const Batch> microbatches,
                                                 ModelStage::Settings settings) {
  const auto samples = std::ssize(microbatches[0].sample_B);
  const auto tokens = std::ssize(microbatches[0].start_BT);
  const auto layout = sequence_of(tokens / samples);
  std::vector<std::vector<LossRows>> rows;
  std::int64_t documents = 0;
  for (const auto& batch : microbatches) {
    rows.push_back(rows_of_documents(batch, layout, axes_.at.seq));
    documents += documents_in(batch);
  }
  // The number of tokens limits the number of documents. Memory does not depend on that number.
  settings.head = HeadLossesOfRows{rows, tokens};
  settings.forward_name = measured_span;
  const auto made = run_forward(microbatches, settings);
  axes_.world.synchronize();
  std::vector<double> sums;
  for (std::size_t m = 0; m < made.size(); ++m) {
    const auto all = ops::Head::download_sums(backend_, made[m]);
    sums.insert(sums.end(), all.begin(), all.begin() + documents_in(microbatches[m]));
  }
  sums.resize(static_cast<std::size_t>(documents), 0);  // stages without the head have no sums
  axes_.seq.all_reduce(sums);
  return sums;
}

std::vector<double> Trainer::losses_of_documents(std::span<const Batch> mine) {
  require(setup_.exact_chunk == 0,
          "run.exactness = \"invariant\" does not support losses of single documents");
  const auto microbatches = padded(mine);
  if (microbatches.empty()) return {};
  return losses_of_documents(microbatches, {.phase = Phase::evaluate});
}

static std::vector<double> reference_of(std::span<const Batch> microbatches) {
  std::vector<double> all;
  for (const auto& batch : microbatches) {
    require(std::ssize(batch.reference_D) == documents_in(batch),
            "a batch of {} documents has {} reference scores, but each document needs one score",
            documents_in(batch), batch.reference_D.size());
    all.insert(all.end(), batch.reference_D.begin(), batch.reference_D.end());
  }
  return all;
}

void Trainer::require_pairs() const {
  const auto* const pairs = std::get_if<PairTraining>(&setup_.objective);
  require(pairs, "samples of pairs need an objective for pairs, but train.objective is for tokens");
  require(pairs->reference != Reference::without_adapters || setup_.adapter.rank > 0,
          "preference training needs a reference model: set [adapter], whose base model is the "
          "reference, or set train.dpo_scores");
  require(setup_.exact_chunk == 0,
          "run.exactness = \"invariant\" does not support losses of single documents: set "
          "run.exactness = \"repeatable\" or \"fast\"");
}

Trainer::Before Trainer::run_before(std::span<const Batch> microbatches,
                                    const ModelStage::Settings& settings) {
  Before before;
  if (std::holds_alternative<PairTraining>(setup_.objective)) require_pairs();
  for (const auto pass : passes_of_step(setup_.objective)) switch (pass) {
      case StepPass::teacher_inputs:
        before.teacher = teacher_->head_inputs(microbatches);
        break;
      case StepPass::policy_losses:
        before.policy = losses_of_documents(microbatches, settings);
        break;
      case StepPass::reference_losses: {
        // Both passes use the same dropout, so that only the adapters make a difference.
        auto without = settings;
        without.adapters = false;
        before.reference = losses_of_documents(microbatches, without);
        break;
      }
      case StepPass::gradients:
        break;
    }
  return before;
}

// Returns the number of targets of each document in this rank's samples.
static std::vector<double> targets_in(std::span<const Batch> microbatches,
                                      const ops::SequenceLayout& layout, const Communicator& seq) {
  std::vector<double> all;
  for (const auto& batch : microbatches)
    for (const double n : targets_of_documents(batch, layout, seq.rank())) all.push_back(n);
  seq.all_reduce(all);
  return all;
}

Trainer::Preferences Trainer::prefer(const PairTraining& pairs, std::span<const Batch> microbatches,
                                     const Before& before) {
  const auto tokens = std::ssize(microbatches[0].start_BT) / std::ssize(microbatches[0].sample_B);
  const auto layout = sequence_of(tokens);
  std::vector<double> reference = before.reference, targets;
  if (pairs.reference == Reference::given) reference = reference_of(microbatches);
  if (uses_targets(pairs.loss)) targets = targets_in(microbatches, layout, axes_.seq);
  const auto scored = [&](std::size_t d) {
    return ScoredDocument{before.policy[d], reference.empty() ? 0 : reference[d],
                          targets.empty() ? 1 : targets[d]};
  };
  Preferences p;
  std::vector<double> weights;  // by document
  for (std::size_t d = 0; d < before.policy.size(); d += 2) {
    const auto one = result_of(pairs.loss, scored(d), scored(d + 1));
    weights.push_back(one.weight_chosen);
    weights.push_back(one.weight_rejected);
    if (has_head() && axes_.at.seq == 0) p.sums += sums_of(one);
  }
  std::vector<double> all;
  for (const auto* field : p.sums.fields()) all.push_back(*field);
  axes_.world.all_reduce(all);
  for (std::size_t i = 0; auto* field : p.sums.fields()) *field = all[i++];

  std::size_t first = 0;  // first document of the micro-batch
  for (const auto& batch : microbatches) {
    auto rows = rows_of_documents(batch, layout, axes_.at.seq);
    const auto documents = documents_in(batch);
    for (auto& r : rows) {
      if (documents == 0) continue;  // padding only
      r.scale = weights[first + static_cast<std::size_t>(r.sum)] / p.sums.pairs;
      r.sum = 0;
    }
    p.losses.push_back(std::move(rows));
    first += static_cast<std::size_t>(documents);
  }
  return p;
}

PreferenceSums Trainer::evaluate_pairs(std::span<const Batch> mine) {
  require_pairs();
  const auto microbatches = padded(mine);
  if (microbatches.empty()) return {};
  const auto before = run_before(microbatches, {.phase = Phase::evaluate});
  return prefer(std::get<PairTraining>(setup_.objective), microbatches, before).sums;
}

}  // namespace trireme
