#include "lib/tokenizer/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

// Characters with the property White_Space. PCRE2's own \s includes U+180E, too.
constexpr std::string_view spaces =
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";

// Returns the pattern in PCRE2's syntax.
std::string translated(const std::string& pattern) {
  std::string out;
  int depth = 0;  // depth of brackets
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      ++i;
      if (next == 's') {
        out.append(depth > 0 ? std::string(spaces) : fmt::format("[{}]", spaces));
        continue;
      }
      if (next == 'S' && depth == 0) {
        out.append(fmt::format("[^{}]", spaces));
        continue;
      }
      require(std::string_view("SAzZGhHRXKQEbBwWdDkgyYOoNCcM").find(next) == std::string::npos,
              "the pattern {} uses \\{}, which is not supported", pattern, next);
      const bool braces = std::string_view("pPx").find(next) != std::string_view::npos &&
                          i + 1 < pattern.size() && pattern[i + 1] == '{';
      const auto end = braces ? std::min(pattern.find('}', i), pattern.size() - 1) : i;
      out.push_back(c);
      if (next != '\0') out.append(pattern, i, end - i + 1);
      i = end;
      continue;
    }
    if (depth > 0) {
      require(c != '[' && !(c == '&' && next == '&'),
              "the pattern {} has a nested character class, which is not supported", pattern);
      if (c == ']') --depth;
    } else if (c == '[') {
      ++depth;
      // A bracket directly after the opening one is literal.
      out.push_back(c);
      if (next == '^') out.push_back(pattern[++i]);
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') {
        out.append("\\]");
        ++i;
      }
      continue;
    } else {
      require(!(c == '}' && next == '+'),
              "the pattern {} has a + after braces, which is not supported", pattern);
      require(c != '^' && c != '$', "the pattern {} has an anchor {}, which is not supported",
              pattern, c);
      require(!(c == '(' && next == '?' && i + 2 < pattern.size() &&
                std::string_view(":=!>i").find(pattern[i + 2]) == std::string::npos),
              "the pattern {} has a group (?{}, which is not supported", pattern, pattern[i + 2]);
    }
    out.push_back(c);
  }
  return out;
}

std::string message_of_code(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct MatchData {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, 64 << 20, nullptr);

  MatchData() { pcre2_jit_stack_assign(context, nullptr, stack); }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  ~MatchData() {
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(data);
  }
};

// Returns match data of this thread. Nothing in it is needed after a match.
MatchData& match_data() {
  thread_local MatchData data;
  return data;
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string pattern;

  Code(const std::string& given, const std::string& for_pcre, std::uint32_t options)
      : pattern(given) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(for_pcre.data()), for_pcre.size(), options,
                         &error, &at, nullptr);
    require(code != nullptr, "the pattern {} is invalid: {}", given, message_of_code(error));
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it, matching is slower
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern)
    : code_(std::make_unique<Code>(
          pattern, translated(pattern),
          PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C)) {
  require(well_formed_bytes(pattern) == pattern.size(), "a pattern is not UTF-8");
}
Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex Regex::literal(std::string_view text) {
  return Regex(std::make_unique<Code>(std::string(text), std::string(text),
                                      PCRE2_UTF | PCRE2_LITERAL | PCRE2_NO_UTF_CHECK));
}
Regex Regex::of_whole_texts(const std::string& pattern) {
  require(well_formed_bytes(pattern) == pattern.size(), "a pattern is not UTF-8");
  return Regex(std::make_unique<Code>(pattern, pattern,
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK |
                                          PCRE2_NEVER_BACKSLASH_C | PCRE2_ANCHORED |
                                          PCRE2_ENDANCHORED));
}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

bool Regex::matches(std::string_view text) const {
  std::vector<Found> parts;
  split(text, parts);
  return std::ranges::any_of(parts, &Found::matches);
}

void Regex::split(std::string_view text, std::vector<Found>& parts) const {
  auto& data = match_data();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t from = 0, behind = 0;  // where to search, and the end of the last match
  bool any = false;
  while (from <= text.size()) {
    const int found = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                  data.data, data.context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    require(found >= 0, "the pattern {} cannot be matched: {}", code_->pattern,
            message_of_code(found));
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.data);
    const TextSpan match{span[0], span[1]};
    if (match.begin == match.end && any && match.end == behind) {
      if (from >= text.size()) break;
      from += utf8_length(text[from]);
      continue;
    }
    if (behind != match.begin) parts.push_back({{behind, match.begin}, false});
    parts.push_back({match, true});
    from = behind = match.end;
    any = true;
  }
  if (behind != text.size()) parts.push_back({{behind, text.size()}, false});
}

}  // namespace trireme
