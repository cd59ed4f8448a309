#pragma once
// A cache of the ids of words. Words occur repeatedly in text, and a lookup is ten times as fast as
// merging. Each cache belongs to one thread.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

// Hash table that maps words to their ids.
class WordCache {
 public:
  static constexpr std::size_t longest_word = 64;  // in bytes; longer words rarely repeat

  // Returns the ids of a word, or null if the word is not cached. The ids are valid until the next
  // add().
  const std::span<const std::int32_t>* find(std::string_view word) {
    hash_ = std::hash<std::string_view>()(word);
    for (place_ = hash_ & mask; slots_[place_].bytes != 0; place_ = (place_ + 1) & mask) {
      const Slot& slot = slots_[place_];
      if (slot.hash != hash_ || slot.bytes != word.size() ||
          std::memcmp(words_.data() + slot.word, word.data(), word.size()) != 0)
        continue;
      found_ = std::span(ids_).subspan(slot.ids, slot.count);
      return &found_;
    }
    return nullptr;
  }

  // Adds the word for which the last find() returned null. If the cache is full, clears it first.
  void add(std::string_view word, std::span<const std::int32_t> ids) {
    if (used_ == mask / 2 || words_.size() > most_bytes) {
      slots_.assign(slots_.size(), {});
      words_.clear();
      ids_.clear();
      used_ = 0;
      place_ = hash_ & mask;
    }
    slots_[place_] = {
        hash_, static_cast<std::uint32_t>(words_.size()), static_cast<std::uint32_t>(ids_.size()),
        static_cast<std::uint32_t>(word.size()), static_cast<std::uint32_t>(ids.size())};
    words_.insert(words_.end(), word.begin(), word.end());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ++used_;
  }

 private:
  // Limits of the cache: 3 MiB of slots, 1 MiB of words, and 4 MiB of ids.
  static constexpr std::size_t mask = (std::size_t{1} << 17) - 1, most_bytes = std::size_t{1} << 20;
  struct Slot {
    std::size_t hash = 0;
    std::uint32_t word = 0, ids = 0;  // offsets in words_ and ids_
    std::uint32_t bytes = 0, count = 0;
  };

  std::vector<Slot> slots_ = std::vector<Slot>(mask + 1);
  std::vector<char> words_;
  std::vector<std::int32_t> ids_;
  std::size_t used_ = 0, hash_ = 0, place_ = 0;
  std::span<const std::int32_t> found_;
};

}  // namespace trireme
