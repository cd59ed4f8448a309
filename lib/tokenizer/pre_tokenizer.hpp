#pragma once
// The pre-tokenizer of a tokenizer.json, which splits text into words that are encoded
// independently. Supports ByteLevel, Split, Metaspace, Digits and sequences of these types.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/tokenizer/normalizer.hpp"
#include "lib/tokenizer/regex.hpp"

namespace trireme {

// A text and its words. No word is empty.
struct Words {
  std::string text;
  std::vector<TextSpan> spans;
};

// Handling of the matches of a Split: they are removed, become words, are merged with the previous
// or next word, or are merged with each other (SplitDelimiterBehavior of Hugging Face's
// tokenizers).
enum class Delimiter : std::uint8_t { removed, isolated, previous, next, contiguous };

// Where a text may be cut without changing its words: `never`, `at_spaces` (at a space or line
// end), or `by_vocabulary` (between two characters that no token of the vocabulary contains next to
// each other).
enum class Cuts : std::uint8_t { never, at_spaces, by_vocabulary };

// A sequence of splitting steps.
class PreTokenizer {
 public:
  // Reads "pre_tokenizer" of tokenizer.json. A null value treats the whole text as one word.
  // `normalizer` is the normalizer that runs before this pre-tokenizer. Throws Error, naming the
  // type, if a type is not supported.
  PreTokenizer(const nlohmann::json&, const Normalizer& normalizer);

  // Splits `words`, which must contain one span that covers the whole text. `first` is true if the
  // text begins a document. `begins` is true if the text begins a document or follows an added
  // token.
  void operator()(Words&, bool first, bool begins) const;

  // Returns true if words are encoded in GPT-2's byte alphabet, one character per byte.
  bool byte_level() const { return byte_level_; }
  Cuts cuts() const { return cuts_; }
  // Returns the text by which the normalizer and the pre-tokenizer replace a space.
  const std::string& of_space() const { return of_space_; }

 private:
  struct Split {
    Pattern pattern;
    Delimiter delimiter;
    bool invert;
  };
  struct PrefixSpace {};
  struct Metaspace {
    std::string replacement;
    enum class Prepend : std::uint8_t { never, first, always } prepend;
    bool split;
  };
  struct Digits {
    bool individual;
  };
  using Step = std::variant<Split, PrefixSpace, Metaspace, Digits>;

  void add(const nlohmann::json&, const Normalizer&);
  void add_split(const nlohmann::json&, const Normalizer&);
  static void apply(const Split&, Words&);
  static void apply(const Metaspace&, Words&, bool first, bool begins);
  static void apply(const Digits&, Words&);

  std::vector<Step> steps_;
  bool byte_level_ = false;
  Cuts cuts_ = Cuts::by_vocabulary;
  std::string of_space_;
};

// Appends to `spans` the words that result from `parts`. The parts must be consecutive, without
// gaps.
void join(const std::vector<Found>& parts, Delimiter, std::vector<TextSpan>& spans);

}  // namespace trireme
