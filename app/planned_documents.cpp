#include "app/planned_documents.hpp"

#include <algorithm>
#include <vector>

#include "app/training_input.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/data/dataset.hpp"

namespace trireme {

constexpr std::int64_t most_read = std::int64_t{1} << 22, most_samples_read = 512;

// Returns the training data of the deck, limited to `samples` samples and twice their tokens.
static Dataset first_samples(const Deck& deck, std::int64_t samples) {
  const auto T = deck.data.context;
  const auto each = 2 * samples * T / std::ssize(deck.data.path) + 2 * T + 1;
  return training_data_of(deck, each);
}

static DocumentLengths read_documents(const Deck& deck) {
  const auto T = deck.data.context;
  const auto wanted = std::clamp(most_read / T, std::int64_t{1}, most_samples_read);
  const auto data = first_samples(deck, wanted);
  const auto samples = std::min(wanted, data.samples_per_epoch());
  const bool within = deck.data.attention == AttentionSpan::document;
  const auto size = static_cast<std::size_t>(T);
  std::vector<std::int32_t> ids(size), targets(size), start(within ? size : 0);
  DocumentLengths found{.context = T, .lengths = {}};
  std::int64_t tokens = 0, with_target = 0;
  for (std::int64_t s = 0; s < samples; ++s) {
    with_target += data.read(s, ids, targets, start);
    tokens += data.tokens(s);
    for (std::size_t begin = 0, end = 0; begin < start.size(); begin = end) {
      while (end < start.size() && start[end] == start[begin]) ++end;
      ++found.lengths[static_cast<std::int64_t>(end - begin)];
    }
  }
  const auto positions = static_cast<double>(samples * T);
  found.filled = static_cast<double>(tokens) / positions;
  found.targets = static_cast<double>(with_target) / positions;
  return found;
}

DocumentLengths planned_documents(const Deck& deck) {
  try {
    return read_documents(deck);
  } catch (const Error& e) {
    log_info("times are predicted for samples of one document without padding: {}", e.what());
    return {};
  }
}

}  // namespace trireme
