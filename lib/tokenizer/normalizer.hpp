#pragma once
// The normalizer of a tokenizer.json, which changes text before it is split into words. Supports
// NFC, Prepend, Replace and sequences of them.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/tokenizer/regex.hpp"

namespace trireme {

// A pattern of tokenizer.json, written {"String": ...} or {"Regex": ...}.
struct Pattern {
  Regex regex;
  // The text, if the pattern is a plain string.
  std::optional<std::string> literal;
};
// Returns the pattern in a JSON value. Throws Error if it is empty or unsupported.
Pattern pattern_in(const nlohmann::json&);

// Returns `text` with every match of the pattern replaced by `by`.
std::string replaced(std::string_view text, const Regex& pattern, std::string_view by);

// A sequence of normalization steps.
class Normalizer {
 public:
  // Reads "normalizer" of tokenizer.json. A null value leaves text unchanged. Throws Error naming
  // an unsupported type.
  explicit Normalizer(const nlohmann::json&);

  bool empty() const { return steps_.empty(); }
  // Returns the normalized text. `begins` is true if the text begins a document or follows an added
  // token. Otherwise the text continues an earlier piece, and nothing is prepended.
  std::string operator()(std::string_view text, bool begins) const;

  // The following functions tell where text can be cut before normalization. local() returns true
  // if no step looks across a boundary between a non-space character and a space or line end.
  // only_spaces_change() returns true if the only steps that change characters are replacing a
  // space and composing (NFC).
  bool local() const;
  bool only_spaces_change() const;
  bool composes() const;
  // Returns true if some step prepends text after an added token.
  bool prepends() const;
  // Returns the text that a space becomes.
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
