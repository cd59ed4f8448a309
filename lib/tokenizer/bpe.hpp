#pragma once
// Byte-pair encoding of words, as configured by a model of type BPE in tokenizer.json.
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/tokenizer/merges.hpp"
#include "lib/tokenizer/vocabulary.hpp"
#include "lib/tokenizer/word_cache.hpp"

namespace trireme {

// A byte-pair encoder with its vocabulary and merges.
class Bpe {
 public:
  // Reads "model" of tokenizer.json. With `byte_level`, words are bytes and tokens are written in
  // GPT-2's byte alphabet (byte_alphabet.hpp). Throws Error, naming the setting, if a setting is
  // invalid or unsupported.
  Bpe(const nlohmann::json& model, bool byte_level);

  // Appends the ids of a word. The word must be well-formed UTF-8 and not empty. Looks the word up
  // in the cache first, and adds it if it is missing.
  void encode(std::string_view word, WordCache&, std::vector<std::int32_t>& ids) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Returns true if tokens like <0x0A> represent single bytes.
  bool byte_fallback() const { return byte_fallback_; }
  // Returns the id of the unknown token, or nullopt if there is none.
  std::optional<std::int32_t> unknown() const { return unknown_; }

  // Returns true if no token contains code point `a` directly followed by `b`. If a text is cut
  // between `a` and `b`, the ids of its two parts are then the ids of the whole text. The result
  // does not apply to byte-level models.
  bool separable(std::int32_t a, std::int32_t b) const;

 private:
  void read_merges(const nlohmann::json&);
  void read_pairs();
  void encode_part(std::string_view word, WordCache&, std::vector<std::int32_t>& ids) const;
  void encode_bytes(std::string_view word, std::vector<std::int32_t>& ids) const;
  void encode_characters(std::string_view word, std::vector<std::int32_t>& ids) const;
  std::optional<std::int32_t> id_of_character(std::int32_t code_point) const;

  bool byte_level_, byte_fallback_, fuse_unknown_, ignore_merges_;
  Vocabulary vocabulary_;
  Merges merges_{0};
  std::optional<std::int32_t> unknown_;
  std::array<std::int32_t, 256> of_byte_;  // token of each byte; -1 means none
  bool all_bytes_ = true;                  // every byte has a token
  bool bytes_join_ = false;                // some token consists of several byte tokens like <0x0A>
  // Ids of whole words, keyed by the words' bytes. The map is used if the model is byte-level and
  // sets ignore_merges.
  std::unordered_map<std::string, std::int32_t> whole_;
  std::vector<std::uint64_t> pairs_;         // pairs of neighboring code points in tokens, sorted
  std::vector<std::int32_t> of_code_point_;  // token of each small code point; -1 means none
};

}  // namespace trireme
