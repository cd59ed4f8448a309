#pragma once
// Conversion of text to token ids and back. Token files and checkpoints contain their tokenizer as
// a TokenizerSpec, so that a trained model does not need the tokenizer's file.
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

// The kind of a tokenizer. The numbers are part of the token file's format.
enum class TokenizerKind : std::uint32_t {
  none = 0,
  bytes = 1,
  sentencepiece = 2,
  huggingface = 3
};

// Returns the name of a kind.
std::string_view name_of(TokenizerKind);
// Returns the kind with this name, or none if there is no such kind.
TokenizerKind kind_named(std::string_view);
// Returns true if a TokenizerSpec of this kind has non-empty `bytes`.
bool has_contents(TokenizerKind);

// A tokenizer in serialized form.
struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::none;
  // Contents of the tokenizer. For kind sentencepiece, the serialized model. For kind huggingface,
  // a JSON object that maps file names to the unchanged texts of the files: "tokenizer.json" and
  // those of tokenizer_files that exist. Empty for other kinds.
  std::string bytes;
  // The chat template with which the conversations were written (chat_text_of() in
  // lib/chat/chat_template.hpp). Empty if there is none. The template does not affect the ids of
  // texts.
  std::string chat{};

  // Returns "none", "bytes" or "<kind>:<XXH3-128>". The hash covers only the parts that affect ids:
  // SentencePiece's model, or tokenizer.json. Tokenizers with equal identities produce equal ids.
  std::string identity() const;
  bool operator==(const TokenizerSpec&) const = default;
};

// Whether a text begins a document or continues one. SentencePiece puts a space before the first
// word of a text, which must not happen in a continuation.
enum class TextPlace : std::uint8_t { start, continuation };

// A tokenizer. Encoding and decoding may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`.
  virtual void encode(std::string_view text, TextPlace, std::vector<std::int32_t>& ids) const = 0;
  // Returns where a text that is longer than `limit` can be cut so that its parts can be encoded
  // separately: a position in [1, limit]. Returns nullopt if the text must be encoded as a whole to
  // get the right ids. The default implementation prefers to cut after a line end. Such a cut
  // changes ids only for models with pieces that cross line ends.
  virtual std::optional<std::size_t> cut(std::string_view text, std::size_t limit) const;
  // Returns the text of the ids. Throws Error if an id is outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  // Returns the vocabulary size. Every id is below the vocabulary size.
  virtual std::int32_t vocab() const = 0;
  // Returns the id that is written after each document by default. The bytes tokenizer returns 0.
  virtual std::optional<std::int32_t> separator() const = 0;
  // Returns the ids that end generation: the separator, and the end ids in generation_config.json,
  // such as the token that ends a turn.
  virtual std::vector<std::int32_t> ends() const {
    const auto own = separator();
    return own ? std::vector{*own} : std::vector<std::int32_t>();
  }
  virtual const TokenizerSpec& spec() const = 0;
  // Returns the begin-of-text token (bos_token), whether or not encoded texts begin with this
  // token.
  virtual std::optional<std::int32_t> begin() const { return std::nullopt; }
  // Returns the ids that precede the ids of a document's text, for example a begin-of-text id. The
  // post-processor of a tokenizer.json defines them.
  virtual std::vector<std::int32_t> prefix() const { return {}; }
  // Returns the id of the token with this text, for example "<|im_end|>" or a word of the
  // vocabulary.
  virtual std::optional<std::int32_t> id_of(std::string_view) const { return std::nullopt; }
  // Returns the texts of special tokens, for example those that begin a text, end a text or end a
  // turn.
  virtual std::vector<std::string> special_tokens() const { return {}; }
  // Returns the number of text bytes that a token represents, or nullopt if the number is unknown.
  // The first token of a text may include a space that is not in the text.
  virtual std::optional<std::size_t> text_bytes(std::int32_t) const { return std::nullopt; }
  // Appends the ids of a whole text. Each span in `marked`, in ascending order, is the text of one
  // token and becomes that token's id. Outside these spans, the texts of special tokens are encoded
  // as plain text. Returns the index in `ids` of each marked token. Throws Error if the tokenizer
  // cannot encode the text of a special token as plain text. The caller adds the location to the
  // error.
  virtual std::vector<std::size_t> encode_marked(std::string_view text,
                                                 std::span<const TextSpan> marked,
                                                 std::vector<std::int32_t>& ids) const;
  // Returns the text of one of the tokenizer_files, or nullopt if the tokenizer does not contain
  // that file.
  virtual std::optional<std::string> file(std::string_view) const { return std::nullopt; }

  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    encode(text, TextPlace::start, ids);
    return ids;
  }
};

// Appends the ids of a text. Cuts the text where the tokenizer allows it, to limit memory use.
void encode_in_pieces(const Tokenizer&, std::string_view text, TextPlace,
                      std::vector<std::int32_t>& ids);

// Returns the ids of a prompt, which begins a document. For an empty text, returns prefix() if it
// is not empty, otherwise the separator that ends the previous document. Returns an empty vector if
// the tokenizer has neither.
std::vector<std::int32_t> prompt_ids(const Tokenizer&, std::string_view text);

// Returns a tokenizer with one id per byte and a vocabulary of 256. Byte 0 does not occur in text,
// so it is the separator.
std::unique_ptr<Tokenizer> bytes_tokenizer();
// Reads a SentencePiece .model file. Throws Error if the file is missing or is not a SentencePiece
// model.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model);
// Names of the files in a Hugging Face model's folder that determine how text becomes ids. The
// first file must exist.
inline constexpr std::string_view tokenizer_files[] = {
    "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json",
    "generation_config.json"};
// Reads a tokenizer.json and the files next to it, or a folder that contains these files. Throws
// Error, naming the file, if a file is missing, damaged or not supported.
std::unique_ptr<Tokenizer> huggingface_tokenizer(const std::filesystem::path&);
// Reads a tiktoken table. `encoding` is the name of its encoding: gpt2, cl100k or llama3.
std::unique_ptr<Tokenizer> tiktoken_tokenizer(const std::filesystem::path& table,
                                              std::string_view encoding);
// Reads a tokenizer. Its format is recognized from its contents: a folder or tokenizer.json, a
// tiktoken table, or a SentencePiece model. "bytes" returns the bytes tokenizer.
std::unique_ptr<Tokenizer> tokenizer_at(const std::string& path_or_bytes,
                                        std::string_view tiktoken_encoding = "");
// Creates a tokenizer from the spec in a token file or checkpoint. `where` is the name of that
// source in error messages. Throws Error if the kind is `none` or the model is damaged.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec&, std::string_view where);

}  // namespace trireme
