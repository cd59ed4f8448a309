#pragma once
// What a tokenizer.json does to text before it is split: NFC, Prepend, Replace, and sequences.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/tokenizer/regex.hpp"

namespace trireme {

// {"String": ...} or {"Regex": ...} in tokenizer.json.
struct Pattern {
  Regex regex;
  std::optional<std::string> literal;
};
Pattern pattern_in(const nlohmann::json&);

// `text` with every match of the pattern replaced.
std::string replaced(std::string_view text, const Regex& pattern, std::string_view by);

class Normalizer {
 public:
  // Null: text stays as it is. Throws Error naming a type that is not supported.
  explicit Normalizer(const nlohmann::json&);

  bool empty() const { return steps_.empty(); }
  // `begins`: whether the text begins a document or stands behind an added token. Otherwise it
  // continues what was cut, and nothing is put before it.
  std::string operator()(std::string_view text, bool begins) const;

  // What the cut of a text relies on: that no step sees across a place between a character that is
  // no space and a space or line end; and that no step but those that replace a space and compose
  // changes the characters there.
  bool local() const;
  bool only_spaces_change() const;
  bool composes() const;
  // Does a text behind an added token get anything before it?
  bool prepends() const;
  // What a space becomes.
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
