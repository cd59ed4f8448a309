// The passes of a step before the pass with gradients, and what pairs of documents or labeled
// answers make of their results: sums, and weights of the documents' losses. The reference model is
// the base model of the adapters, which needs a forward pass of its own, or is given as scores in
// the batches.
#include <algorithm>
#include <array>

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

const PreferenceTraining& Trainer::preference_training() const {
  const auto* const training = std::get_if<PreferenceTraining>(&setup_.objective);
  require(training,
          "pairs and labeled answers need an objective of their own, but train.objective is for "
          "tokens");
  require(training->reference != Reference::without_adapters || setup_.adapter.rank > 0,
          "preference training needs a reference model: set [adapter], whose base model is the "
          "reference, or set train.dpo_scores");
  require(setup_.exact_chunk == 0,
          "run.exactness = \"invariant\" does not support losses of single documents: set "
          "run.exactness = \"repeatable\" or \"fast\"");
  return *training;
}

Trainer::Before Trainer::run_before(std::span<const Batch> microbatches,
                                    const ModelStage::Settings& settings) {
  Before before;
  if (std::holds_alternative<PreferenceTraining>(setup_.objective)) preference_training();
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

std::vector<ScoredPair> Trainer::scored_pairs(const PreferenceTraining& training,
                                              std::span<const Batch> microbatches,
                                              const Before& before) const {
  const auto tokens = std::ssize(microbatches[0].start_BT) / std::ssize(microbatches[0].sample_B);
  std::vector<double> reference = before.reference, targets;
  if (training.reference == Reference::given) reference = reference_of(microbatches);
  if (uses_targets(training.loss))
    targets = targets_in(microbatches, sequence_of(tokens), axes_.seq);
  const auto scored = [&](std::size_t d) {
    return ScoredDocument{before.policy[d], reference.empty() ? 0 : reference[d],
                          targets.empty() ? 1 : targets[d]};
  };
  std::vector<ScoredPair> all;
  for (std::size_t d = 0; d < before.policy.size(); d += 2)
    all.push_back({scored(d), scored(d + 1)});
  if (!std::holds_alternative<Kto>(training.loss)) return all;
  std::size_t next = 0;
  for (const auto& batch : microbatches)
    for (const auto label : batch.desirable_A) all.at(next++).desirable = label != 0;
  expect(next == all.size(), "each labeled answer has a label");
  return all;
}

double Trainer::reference_point_of(const PreferenceLoss& loss,
                                   std::span<const ScoredPair> own) const {
  if (!std::holds_alternative<Kto>(loss)) return 0;
  auto sum = mismatch_of(loss, own);
  std::array both{sum.log_ratio, sum.answers};
  axes_.world.all_reduce(both);
  return reference_point(loss, {both[0], both[1]});
}

PreferenceSums Trainer::sums_of(const PreferenceLoss& loss, std::span<const ScoredPair> own,
                                double z) const {
  PreferenceSums sums;
  for (const auto& p : own) sums += weighted(loss, p, z).sums;
  std::vector<double> all;
  for (const auto* field : sums.fields()) all.push_back(*field);
  axes_.world.all_reduce(all);
  for (std::size_t i = 0; auto* field : sums.fields()) *field = all[i++];
  if (std::holds_alternative<Kto>(loss)) sums.z = z;
  return sums;
}

Trainer::Preferences Trainer::prefer(const PreferenceTraining& training,
                                     std::span<const Batch> microbatches, const Before& before) {
  const auto pairs = scored_pairs(training, microbatches, before);
  const auto own = counts_pairs() ? std::span(pairs) : std::span<const ScoredPair>();
  const double z = reference_point_of(training.loss, own);
  Preferences p;
  p.sums = sums_of(training.loss, own, z);
  std::vector<double> weights;  // by document
  for (const auto& pair : pairs) {
    const auto w = weighted(training.loss, pair, z);
    weights.push_back(w.first);
    weights.push_back(w.second);
  }
  const auto tokens = std::ssize(microbatches[0].start_BT) / std::ssize(microbatches[0].sample_B);
  const auto layout = sequence_of(tokens);
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

std::vector<ScoredPair> Trainer::score_pairs(std::span<const Batch> mine) {
  const auto& training = preference_training();
  const auto microbatches = padded(mine);
  if (microbatches.empty()) return {};
  const auto before = run_before(microbatches, {.phase = Phase::evaluate});
  auto pairs = scored_pairs(training, microbatches, before);
  if (!counts_pairs()) pairs.clear();
  return pairs;
}

PreferenceSums Trainer::evaluate_pairs(std::span<const ScoredPair> own) const {
  const auto& loss = preference_training().loss;
  return sums_of(loss, own, reference_point_of(loss, own));
}

}  // namespace trireme
