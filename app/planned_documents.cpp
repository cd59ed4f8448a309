#include "app/planned_documents.hpp"

#include <algorithm>
#include <filesystem>

#include "lib/base/log.hpp"
#include "lib/data/dataset.hpp"

namespace trireme {

constexpr std::int64_t most_samples = 512;

static bool are_there(const std::vector<std::string>& files) {
  return std::ranges::all_of(files, [](const std::string& file) {
    std::error_code unknown;
    return std::filesystem::exists(file, unknown);
  });
}

DocumentLengths planned_documents(const Deck& deck) {
  if (deck.data.attention != AttentionSpan::document) return {};
  if (!are_there(deck.data.path)) {
    log_info("the token files do not exist here: times are predicted for samples of one document");
    return {};
  }
  const auto T = deck.model.context;
  const auto data =
      training_data(deck.data, T, deck.model.vocab, static_cast<std::uint64_t>(deck.train.seed));
  const auto samples = std::min(most_samples, data.samples_per_epoch());
  const auto size = static_cast<std::size_t>(T);
  std::vector<std::int32_t> ids(size), targets(size), start(size);
  DocumentLengths found{.context = T};
  std::int64_t tokens = 0, with_target = 0;
  for (std::int64_t s = 0; s < samples; ++s) {
    with_target += data.read(s, ids, targets, start);
    tokens += data.tokens(s);
    for (std::size_t t = 0; t < size; ++t)
      if (t == 0 || start[t] != start[t - 1])
        found.lengths.push_back(1);
      else
        ++found.lengths.back();
  }
  const auto positions = static_cast<double>(samples * T);
  found.filled = static_cast<double>(tokens) / positions;
  found.targets = static_cast<double>(with_target) / positions;
  return found;
}

}  // namespace trireme
