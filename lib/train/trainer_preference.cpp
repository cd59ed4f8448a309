// Preference training and evaluation, which compare the model with a fixed reference model. The
// reference is the base model of the adapters, which needs another forward pass, or is given as
// scores in the batches.
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
  settings.losses = rows;
  settings.loss_sums = tokens;  // limits documents; memory does not depend on their number
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

Trainer::Preferences Trainer::prefer(std::span<const Batch> microbatches,
                                     const ModelStage::Settings& settings) {
  const bool given = setup_.reference == Reference::given;
  require(given || setup_.model.adapter.rank > 0,
          "preference training needs a reference model: set [adapter], whose base model is the "
          "reference, or set train.dpo_scores");
  require(setup_.exact_chunk == 0,
          "run.exactness = \"invariant\" does not support losses of single documents: set "
          "run.exactness = \"repeatable\" or \"fast\"");
  // Both passes use the same dropout, so that only the adapters make a difference.
  auto without = settings;
  without.adapters = false;
  const auto policy = losses_of_documents(microbatches, settings),
             reference =
                 given ? reference_of(microbatches) : losses_of_documents(microbatches, without);
  Preferences p;
  std::vector<double> margins;
  for (std::size_t d = 0; d < policy.size(); d += 2) {
    const auto one = preference_of({policy[d], reference[d]}, {policy[d + 1], reference[d + 1]},
                                   setup_.dpo_beta);
    margins.push_back(one.margin);
    if (has_head() && axes_.at.seq == 0) p.sums += one;
  }
  std::vector<double> all;
  for (const auto* field : p.sums.fields()) all.push_back(*field);
  axes_.world.all_reduce(all);
  for (std::size_t i = 0; auto* field : p.sums.fields()) *field = all[i++];

  const auto tokens = std::ssize(microbatches[0].start_BT) / std::ssize(microbatches[0].sample_B);
  std::size_t first = 0;  // first document of the micro-batch
  for (const auto& batch : microbatches) {
    auto rows = rows_of_documents(batch, sequence_of(tokens), axes_.at.seq);
    const auto documents = documents_in(batch);
    for (auto& r : rows) {
      if (documents == 0) continue;  // padding only
      const auto d = first + static_cast<std::size_t>(r.sum);
      const double weight = weight_of(margins[d / 2], setup_.dpo_beta) / p.sums.pairs;
      r.scale = d % 2 == 0 ? weight : -weight;
      r.sum = 0;
    }
    p.losses.push_back(std::move(rows));
    first += static_cast<std::size_t>(documents);
  }
  return p;
}

PreferenceSums Trainer::evaluate_pairs(std::span<const Batch> mine) {
  const auto microbatches = padded(mine);
  if (microbatches.empty()) return {};
  return prefer(microbatches, {.phase = Phase::evaluate}).sums;
}

}  // namespace trireme
