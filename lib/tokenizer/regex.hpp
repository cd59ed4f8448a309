#pragma once
// Regular expressions, matched by PCRE2. Supported are expressions of tokenizer.json, which are
// written for Oniguruma, and Python expressions.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/text_span.hpp"

namespace trireme {

// A part of a text: either a match of the pattern, or the text between two matches.
struct Found {
  TextSpan span;
  bool matches;
};

// A compiled pattern. Several threads may use a pattern at the same time.
class Regex {
 public:
  // Compiles a pattern. Throws Error if the pattern is invalid or if PCRE2 would interpret it
  // differently from Oniguruma.
  explicit Regex(const std::string& pattern);
  // Returns a pattern that matches exactly the text `text`.
  static Regex literal(std::string_view text);
  // Returns a Python pattern that must match whole texts. Throws Error if PCRE2 would interpret the
  // pattern differently.
  static Regex of_whole_texts(const std::string& pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Returns true if the pattern matches anywhere in `text`. `text` must be well-formed UTF-8.
  bool matches(std::string_view text) const;
  // Appends parts that cover `text` in order: the matches, and the text between them. `text` must
  // be well-formed UTF-8. An empty match directly after another match is skipped. Throws Error if
  // matching fails.
  void split(std::string_view text, std::vector<Found>& parts) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code>);

  std::unique_ptr<Code> code_;
};

}  // namespace trireme
