#pragma once
// Text to token ids and back. Token files and checkpoints contain their tokenizer as a
// TokenizerSpec, so a trained model does not need the tokenizer's file.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/text_span.hpp"

namespace trireme {

// The numbers are part of the token file's format.
enum class TokenizerKind : std::uint32_t {
  none = 0,
  bytes = 1,
  sentencepiece = 2,
  huggingface = 3
};

std::string_view name_of(TokenizerKind);
// The kind of this name; none, when it is no kind's.
TokenizerKind kind_named(std::string_view);
// Whether a spec of this kind holds more than its kind.
bool has_contents(TokenizerKind);

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::none;
  // sentencepiece: the serialised model. huggingface: a JSON object of file names and the files'
  // texts, byte for byte: "tokenizer.json" and what else of tokenizer_files there was beside it.
  // Empty for the others.
  std::string bytes;
  // The chat template that conversations were written with, as a file has it
  // (lib/data/chat_template_file.hpp); empty: none. It makes no other ids.
  std::string chat{};

  // "none", "bytes" or "<kind>:<XXH3-128>" of what makes ids: SentencePiece's model, the
  // tokenizer.json, whatever is beside it. Equal texts, equal ids.
  std::string identity() const;
  bool operator==(const TokenizerSpec&) const = default;
};

// A text's position in its document. SentencePiece puts a space before the first word of what it
// encodes; a text that continues a document must not get one.
enum class TextPlace : std::uint8_t { start, continuation };

// Encoding and decoding are safe from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`.
  virtual void encode(std::string_view text, TextPlace, std::vector<std::int32_t>& ids) const = 0;
  // Where a text longer than `limit` is cut to be encoded in parts, a place in [1, limit]; none:
  // only the whole text has its ids. Unless a tokenizer knows better, after a line end, which
  // changes no ids but those of models with pieces that cross line ends.
  virtual std::optional<std::size_t> cut(std::string_view text, std::size_t limit) const;
  // Throws Error for an id outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  // Above every id.
  virtual std::int32_t vocab() const = 0;
  // The id written after each document unless the user names another; bytes: 0.
  virtual std::optional<std::int32_t> separator() const = 0;
  // Ids behind which a model that writes has come to an end: the separator, and what its
  // generation_config.json says, as the token that ends a turn.
  virtual std::vector<std::int32_t> ends() const {
    const auto own = separator();
    return own ? std::vector{*own} : std::vector<std::int32_t>();
  }
  virtual const TokenizerSpec& spec() const = 0;
  // The token that is named as a text's begin (bos_token), whether or not texts get it.
  virtual std::optional<std::int32_t> begin() const { return std::nullopt; }
  // Ids that a document begins with, before those of its text: what the post-processor of a
  // tokenizer.json puts there, as a begin-of-text id.
  virtual std::vector<std::int32_t> prefix() const { return {}; }
  // The id of one token by its text, as "<|im_end|>" or a word of the vocabulary.
  virtual std::optional<std::int32_t> id_of(std::string_view) const { return std::nullopt; }
  // Texts of tokens that are no text of their own: they stand for a begin, an end, a turn.
  virtual std::vector<std::string> special_tokens() const { return {}; }
  // Bytes of text that a token stands for, none where that is not known. The first token of a text
  // may stand for a space, too, that the text does not have.
  virtual std::optional<std::size_t> text_bytes(std::int32_t) const { return std::nullopt; }
  // Appends the ids of a whole text in which each of `marked`, in order, is the text of one token
  // and becomes its id; gives where in `ids` each of these is. Elsewhere the texts of special
  // tokens are text like any other: Error (without a place) where the tokenizer cannot keep them
  // apart.
  virtual std::vector<std::size_t> encode_marked(std::string_view text,
                                                 std::span<const TextSpan> marked,
                                                 std::vector<std::int32_t>& ids) const;
  // The text of one of tokenizer_files.
  virtual std::optional<std::string> file(std::string_view) const { return std::nullopt; }

  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    encode(text, TextPlace::start, ids);
    return ids;
  }
};

// Appends the ids of a text, cut where the tokenizer lets it into parts that take little memory.
void encode_in_pieces(const Tokenizer&, std::string_view text, TextPlace,
                      std::vector<std::int32_t>& ids);

// What a model is to continue: a document's beginning. Of an empty text what a document begins
// with, or the separator behind the one before; empty where the tokenizer has neither.
std::vector<std::int32_t> prompt_ids(const Tokenizer&, std::string_view text);

// One id for each byte, vocabulary 256. Byte 0 does not occur in text, so it separates documents.
std::unique_ptr<Tokenizer> bytes_tokenizer();
// Reads a SentencePiece .model file; throws Error when it is missing or no model.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model);
// Files of a Hugging Face model's folder that say how text becomes ids. The first must be there.
inline constexpr std::string_view tokenizer_files[] = {
    "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json",
    "generation_config.json"};
// Reads a tokenizer.json with the files beside it, or a folder that holds them; throws Error naming
// what is missing, damaged, or not supported here.
std::unique_ptr<Tokenizer> huggingface_tokenizer(const std::filesystem::path&);
// Reads a table of tiktoken; `encoding` says whose it is: gpt2, cl100k or llama3.
std::unique_ptr<Tokenizer> tiktoken_tokenizer(const std::filesystem::path& table,
                                              std::string_view encoding);
// Reads what a path holds, which is recognized from its contents: a folder or tokenizer.json, a
// table of tiktoken, or a SentencePiece model. "bytes" is the tokenizer of bytes.
std::unique_ptr<Tokenizer> tokenizer_at(const std::string& path_or_bytes,
                                        std::string_view tiktoken_encoding = "");
// From the spec in a token file or checkpoint (`where`, for messages). Throws Error for kind none
// and for a damaged model.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec&, std::string_view where);

}  // namespace trireme
