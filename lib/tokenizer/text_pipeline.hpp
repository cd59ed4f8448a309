#pragma once
// A tokenizer.json: added tokens, normalizer, pre-tokenizer, model, decoder. Gives the ids that
// Hugging Face's tokenizers give with add_special_tokens=False.
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

class TextPipeline {
 public:
  // Reads the text of a tokenizer.json. Throws Error (without a place) naming what is wrong or not
  // supported.
  explicit TextPipeline(std::string_view tokenizer_json);

  // Appends the ids of `text`; bytes of it that are no UTF-8 count as U+FFFD. `continues`: the text
  // goes on where another one of the same document ended. Safe from several threads at once.
  void encode(std::string_view text, bool continues, std::vector<std::int32_t>& ids) const;
  // Appends the ids of a whole text in which special tokens are where `marked` says, in order, and
  // nowhere else: there their texts are text like any other; added tokens that are not special are
  // found everywhere. The text is UTF-8, each of `marked` the text of a token. Gives where in `ids`
  // those are.
  std::vector<std::size_t> encode_marked(std::string_view text, std::span<const TextSpan> marked,
                                         std::vector<std::int32_t>& ids) const;
  // Ids without a token are left out.
  std::string decode(std::span<const std::int32_t> ids) const;

  // Above every id.
  std::int32_t vocab() const { return vocab_; }
  std::optional<std::int32_t> id_of(std::string_view token) const;
  // Texts of the added tokens that are special.
  std::vector<std::string> special_tokens() const;
  // Bytes of text that a token stands for; none of the unknown one, and of an id without a token.
  std::optional<std::size_t> text_bytes(std::int32_t id) const;
  // What the post-processor puts before a single text.
  const std::vector<std::int32_t>& prefix() const { return prefix_; }

  // The last place in [1, limit] where a text can be cut so that both parts together have the ids
  // of the whole; none, when none is known. The text is longer than limit.
  std::optional<std::size_t> cut_place(std::string_view text, std::size_t limit) const;

 private:
  struct Scratch {
    WordCache cache;
    Words words;
  };

  struct Parsed;
  explicit TextPipeline(const Parsed&);
  void read_prefix(const nlohmann::json& post_processor);
  // Added tokens to be found in text.
  struct Finders {
    TokenFinder as_written, normalized;
  };
  // Of a text: at the start of a document, behind an added token, or where another text ended.
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
  // text_cuts.cpp
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
  std::optional<std::int32_t> space_;         // the code point that a space becomes, if it is one
  std::vector<std::int32_t> no_space_after_;  // last ones of tokens that take what is behind them
  std::vector<std::int32_t> no_line_before_;  // first ones of tokens that take what is before them

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;  // one for each thread that encodes
};

}  // namespace trireme
