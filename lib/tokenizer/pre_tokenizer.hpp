#pragma once
// How a tokenizer.json cuts text into words, which are encoded independently: ByteLevel, Split,
// Metaspace, Digits, and sequences.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/tokenizer/normalizer.hpp"
#include "lib/tokenizer/regex.hpp"

namespace trireme {

// A text and the words in it, none of them empty.
struct Words {
  std::string text;
  std::vector<TextSpan> spans;
};

// Where matches go (SplitDelimiterBehavior of Hugging Face's tokenizers).
enum class Delimiter : std::uint8_t { removed, isolated, previous, next, contiguous };

// What is known of cutting a text before it is split: never the same words; the same words where a
// space or line end stands; the same words wherever the vocabulary has no token across the cut.
enum class Cuts : std::uint8_t { never, at_spaces, by_vocabulary };

class PreTokenizer {
 public:
  // Null: a text is one word. Throws Error naming a type that is not supported. `normalizer`: the
  // one before it.
  PreTokenizer(const nlohmann::json&, const Normalizer& normalizer);

  // Splits words.spans[0], all of the text. `first`: the text begins a document; `begins`: it does
  // or stands behind an added token.
  void operator()(Words&, bool first, bool begins) const;

  // Whether words are to be encoded by the alphabet of GPT-2, a character a byte.
  bool byte_level() const { return byte_level_; }
  Cuts cuts() const { return cuts_; }
  // What a space becomes, by the normalizer and here.
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

// Adds to `spans` what becomes of `parts`, which follow each other without gaps.
void join(const std::vector<Found>& parts, Delimiter, std::vector<TextSpan>& spans);

}  // namespace trireme
