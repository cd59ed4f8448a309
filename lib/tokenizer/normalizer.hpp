#pragma once
// The normalizer of a tokenizer.json, which changes text before it is split into words. Supports
// NFC, Prepend, Replace and sequences of these types.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/tokenizer/regex.hpp"

namespace trireme {

// A pattern in tokenizer.json, written as {"String": ...} or {"Regex": ...}.
struct Pattern {
  Regex regex;
  // The text to match, if the pattern is a plain string.
  std::optional<std::string> literal;
};
// Reads a pattern from a JSON value. Throws Error if the pattern is empty or not supported.
Pattern pattern_in(const nlohmann::json&);

// Returns `text` with every match of the pattern replaced by `by`.
std::string replaced(std::string_view text, const Regex& pattern, std::string_view by);

// A sequence of normalization steps.
class Normalizer {
 public:
  // Reads "normalizer" of tokenizer.json. A null value leaves text unchanged. Throws Error, naming
  // the type, if a type is not supported.
  explicit Normalizer(const nlohmann::json&);

  bool empty() const { return steps_.empty(); }
  // Returns the normalized text. `begins` is true if the text begins a document or follows an added
  // token. If `begins` is false, the text continues an earlier piece, and nothing is prepended.
  std::string operator()(std::string_view text, bool begins) const;

  // The following functions say where text can be cut before normalization. local() returns true if
  // no step depends on both sides of a boundary between a non-space character and a space or line
  // end. only_spaces_change() returns true if the steps change characters only by replacing spaces
  // and by composition (NFC). composes() returns true if a step composes characters.
  bool local() const;
  bool only_spaces_change() const;
  bool composes() const;
  // Returns true if any step prepends text after an added token.
  bool prepends() const;
  // Returns the text by which a space is replaced.
  std::string of_space() const;

 private:
  struct Compose {};
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Pattern pattern;
    std::string by;
  };
  void add(const nlohmann::json&);

  std::vector<std::variant<Compose, Prepend, Replace>> steps_;
};

}  // namespace trireme
