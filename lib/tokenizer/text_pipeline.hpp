#pragma once
// The tokenizer of a tokenizer.json: added tokens, normalizer, pre-tokenizer, model and decoder.
// The ids are the same as those of Hugging Face's tokenizers with add_special_tokens=False.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/tokenizer/added_tokens.hpp"
#include "lib/tokenizer/bpe.hpp"
#include "lib/tokenizer/decoder.hpp"
#include "lib/tokenizer/normalizer.hpp"
#include "lib/tokenizer/pre_tokenizer.hpp"

namespace trireme {

// A complete Hugging Face tokenizer.
class TextPipeline {
 public:
  // Reads the contents of a tokenizer.json. Throws Error, naming the setting, if a setting is
  // invalid or not supported. The message does not contain the file name.
  explicit TextPipeline(std::string_view tokenizer_json);

  // Appends the ids of `text`. Bytes that are not UTF-8 count as U+FFFD. `continues` means that the
  // text directly continues an earlier piece of the same document. Several threads may call the
  // function at the same time.
  void encode(std::string_view text, bool continues, std::vector<std::int32_t>& ids) const;
  // Appends the ids of a whole document. Special tokens are recognized only at the spans `marked`.
  // Elsewhere, the text of a special token is encoded as ordinary text. Added tokens that are not
  // special are recognized everywhere. The text must be UTF-8. The spans must be in order, and each
  // must cover the text of one token. Returns the indices in `ids` of the marked tokens.
  std::vector<std::size_t> encode_marked(std::string_view text, std::span<const TextSpan> marked,
                                         std::vector<std::int32_t>& ids) const;
  // Returns the text of `ids`. Ids without a token are skipped.
  std::string decode(std::span<const std::int32_t> ids) const;

  // Returns the vocabulary size: the largest id plus 1.
  std::int32_t vocab() const { return vocab_; }
  std::optional<std::int32_t> id_of(std::string_view token) const;
  // Returns the texts of the special added tokens.
  std::vector<std::string> special_tokens() const;
  // Returns the number of bytes of text that a token represents. Returns nullopt for the unknown
  // token and for ids without a token.
  std::optional<std::size_t> text_bytes(std::int32_t id) const;
  // Returns the ids that the post-processor puts before a single text.
  const std::vector<std::int32_t>& prefix() const { return prefix_; }

  // Returns the last byte offset, at most `limit`, at which the text can be cut so that the ids of
  // both parts together equal the ids of the whole text. Returns nullopt if no such offset is
  // known. The text must be longer than `limit`.
  std::optional<std::size_t> cut_place(std::string_view text, std::size_t limit) const;

 private:
  struct Scratch {
    WordCache cache;
    Words words;
  };

  struct Parsed;
  explicit TextPipeline(const Parsed&);
  void read_prefix(const nlohmann::json& post_processor);
  // Finders of added tokens: one for text as written and one for normalized text.
  struct Finders {
    TokenFinder as_written, normalized;
  };
  // What precedes a text: nothing (`start` of a document), an added token (`behind_token`), or an
  // earlier piece of the document (`inside`).
  enum class Place : std::uint8_t { start, behind_token, inside };
  enum class Found : std::uint8_t { all, without_special };
  TokenFinder finder_of(bool normalized, Found) const;
  template <class Work>
  void with_scratch(const Work&) const;
  void encode_text(std::string_view text, const Finders&, Place, Scratch&,
                   std::vector<std::int32_t>& ids) const;
  void encode_segment(std::string_view text, const TokenFinder& normalized, bool first, bool begins,
                      Scratch&, std::vector<std::int32_t>& ids) const;
  void encode_normalized(std::string_view text, bool first, bool begins, Scratch&,
                         std::vector<std::int32_t>& ids) const;
  // Implemented in text_cuts.cpp.
  void prepare_cuts();
  bool cuts_at(std::string_view text, std::size_t place) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  Decoder decoder_;
  std::vector<AddedToken> added_;
  std::unordered_map<std::int32_t, const AddedToken*> added_by_id_;
  std::unordered_map<std::string_view, const AddedToken*> added_by_text_;
  Finders finders_, plain_finders_;
  bool finds_normalized_;
  std::vector<std::int32_t> prefix_;
  std::int32_t vocab_ = 0;

  bool allows_cuts_ = false;
  std::optional<std::int32_t> space_;  // the code point that a space becomes, if it is a single one
  // Last code points of added tokens that consume whitespace after them. Sorted.
  std::vector<std::int32_t> no_space_after_;
  // First code points of added tokens that consume whitespace before them. Sorted.
  std::vector<std::int32_t> no_line_before_;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;  // reused by threads that encode
};

}  // namespace trireme
