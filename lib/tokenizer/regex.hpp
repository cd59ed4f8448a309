#pragma once
// Regular expressions of tokenizer.json, which are written for Oniguruma, by PCRE2.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/text_span.hpp"

namespace trireme {

// A part of a text, and whether it is a match of the pattern or lies between two of them.
struct Found {
  TextSpan span;
  bool matches;
};

// Matching is safe from several threads at once.
class Regex {
 public:
  // Throws Error for a pattern that is wrong or that PCRE2 understands in another way than
  // Oniguruma.
  explicit Regex(const std::string& pattern);
  // A pattern that matches this text alone.
  static Regex literal(std::string_view text);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Appends all of the text, which is well-formed UTF-8, as matches and what is between them, in
  // order. An empty match right behind a match is left out.
  void split(std::string_view text, std::vector<Found>& parts) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code>);

  std::unique_ptr<Code> code_;
};

}  // namespace trireme
