#pragma once
// A vocabulary: a two-way map between tokens and ids.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme {

class Vocabulary {
 public:
  // Adds a token. Throws Error if the id is negative, too large, or already used by another token.
  void add(std::string token, std::int32_t id);

  std::optional<std::int32_t> id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  // Returns the token with this id, or null if there is no such token.
  const std::string* token(std::int32_t id) const {
    return id >= 0 && id < size() ? tokens_[static_cast<std::size_t>(id)] : nullptr;
  }
  // Returns the vocabulary size: the largest id plus 1.
  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // keys of ids_
};

}  // namespace trireme
