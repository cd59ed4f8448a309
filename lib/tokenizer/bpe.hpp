#pragma once
// A word's ids by byte-pair encoding, as the model BPE of a tokenizer.json says.
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

class Bpe {
 public:
  // byte_level: words come as bytes and tokens are written in GPT-2's alphabet. Throws Error naming
  // what is wrong or not supported.
  Bpe(const nlohmann::json& model, bool byte_level);

  // Appends the ids of a word, which is well-formed UTF-8 and not empty.
  void encode(std::string_view word, WordCache&, std::vector<std::int32_t>& ids) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Do tokens like <0x0A> stand for bytes?
  bool byte_fallback() const { return byte_fallback_; }
  std::optional<std::int32_t> unknown() const { return unknown_; }

  // Whether no token holds `a` and, right behind it, `b`, so that a text cut between them has the
  // ids of both parts. Of code points, and not for byte_level.
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
  std::array<std::int32_t, 256> of_byte_;                // -1: no token
  bool all_bytes_ = true;                                // each has a token
  bool bytes_join_ = false;                              // a token of several that stand for bytes
  std::unordered_map<std::string, std::int32_t> whole_;  // byte_level with ignore_merges: by bytes
  std::vector<std::uint64_t> pairs_;  // of code points that follow each other in tokens, sorted
  std::vector<std::int32_t> of_code_point_;  // of small ones; -1: no token
};

}  // namespace trireme
