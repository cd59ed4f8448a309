#include "lib/tokenizer/vocabulary.hpp"

#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

void Vocabulary::add(std::string token, std::int32_t id) {
  constexpr std::int32_t most = 1 << 24;
  require(id >= 0 && id < most,
          "the token \"{}\" has the id {}, which is not between 0 and 2^24 - 1", token, id);
  const auto [entry, is_new] = ids_.emplace(std::move(token), id);
  require(is_new, "the token \"{}\" has two ids", entry->first);
  if (id >= size()) tokens_.resize(static_cast<std::size_t>(id) + 1, nullptr);
  auto& place = tokens_[static_cast<std::size_t>(id)];
  require(place == nullptr, "the id {} belongs to \"{}\" and to \"{}\"", id,
          place == nullptr ? "" : *place, entry->first);
  place = &entry->first;
}

}  // namespace trireme
