#include "app/training_input.hpp"

#include <utility>
#include <vector>

#include "lib/base/hash.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/data/reference_losses.hpp"
#include "lib/data/same_files.hpp"
#include "lib/run/run_length.hpp"

namespace trireme {

static Dataset data_of(const Deck& deck, std::vector<TokenFile> files, const PhasePlan& plan,
                       std::int64_t most) {
  return training_data(deck.data, std::move(files), deck.data.context, deck.model.vocab,
                       static_cast<std::uint64_t>(deck.train.seed), plan, most);
}

TrainingInput open_training(const Deck& deck, const CheckpointMeta& meta) {
  std::vector<std::string> identities;
  auto files = open_training_files(deck.data);
  for (const auto& file : files) identities.push_back(identity_text(file));
  auto plan = plan_phases(history_from(meta.extra.data_phases), meta.samples, deck.data, identities,
                          first_samples_of_phases(deck.data, deck.train, meta));
  auto data = data_of(deck, std::move(files), plan, 0);
  return {std::move(data), std::move(plan.history)};
}

std::string hash_of_files(const Dataset& data) {
  std::string identities;
  for (const auto& range : data.ranges()) identities += identity_lines(range.file);
  return to_string(hash128(identities));
}

Dataset training_data_of(const Deck& deck, std::int64_t most) {
  // In a new run, paths identify the files as well as their contents.
  return data_of(deck, open_training_files(deck.data),
                 plan_phases({}, 0, deck.data, training_files(deck.data),
                             first_samples_of_phases(deck.data, deck.train, {})),
                 most);
}

}  // namespace trireme
