#include "lib/keys/value.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "lib/base/error.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {
namespace {

std::string in_quotes(std::string_view text, TextIs is) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else if (is == TextIs::expanded && c == '$' && i + 1 < text.size() && text[i + 1] == '{') {
      out += "$$";
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string element(std::int64_t x, TextIs) {
  return std::to_string(x);
}
std::string element(double x, TextIs) {
  return number_text(x);
}
std::string element(const std::string& x, TextIs is) {
  return in_quotes(x, is);
}

template <class T>
std::string array_text(const std::vector<T>& values, TextIs is) {
  std::string out = "[";
  for (const auto& v : values) out += (out.size() > 1 ? ", " : "") + element(v, is);
  return out + "]";
}

struct TomlText {
  TextIs is;
  std::string operator()(Automatic) const { return "\"auto\""; }
  std::string operator()(bool x) const { return x ? "true" : "false"; }
  template <class T>
  std::string operator()(const T& x) const {
    return element(x, is);
  }
  template <class T>
  std::string operator()(const std::vector<T>& x) const {
    return array_text(x, is);
  }
};

struct SpokenText {
  std::string operator()(bool x) const { return x ? "true" : "false"; }
  std::string operator()(std::int64_t x) const { return fmt::format("the whole number {}", x); }
  std::string operator()(double x) const { return fmt::format("the number {}", number_text(x)); }
  std::string operator()(const std::string& x) const { return fmt::format("the text \"{}\"", x); }
  std::string operator()(const std::vector<RawValue>&) const { return "an array"; }
  std::string operator()(const ForeignValue& x) const { return x.kind; }
};

// Removes TOML's digit separators, which are underscores between two digits. Returns false if an
// underscore is elsewhere.
bool without_separators(std::string_view text, std::string& digits) {
  const auto digit = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  digits.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || !digit(i - 1) || !digit(i + 1)) {
      return false;
    }
  }
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.erase(0, 1);
  return true;
}

template <class T>
bool read_all(const std::string& digits, T& value) {
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && !digits.empty();
}

}  // namespace

std::string to_toml(const KeyValue& value, TextIs is) {
  return std::visit(TomlText{is}, value);
}

std::string number_text(double x) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x);
  std::string text(buffer.data(), result.ptr);
  // Shortens the exponent: 6e-04 -> 6e-4, 1e+05 -> 1e5.
  if (const auto e = text.find('e'); e != std::string::npos) {
    if (text[e + 1] == '+') text.erase(e + 1, 1);
    const auto first = e + (text[e + 1] == '-' ? 2 : 1);
    while (text[first] == '0' && first + 1 < text.size()) text.erase(first, 1);
  }
  return text;
}

std::string spoken(const RawValue& value) {
  return std::visit(SpokenText{}, value.data);
}

bool whole_number(double x, std::int64_t& value) {
  if (!(x >= -0x1p63 && x < 0x1p63) || x != std::floor(x)) return false;
  value = static_cast<std::int64_t>(x);
  return true;
}

bool read_number(std::string_view text, std::int64_t& value) {
  std::string digits;
  if (!without_separators(text, digits)) return false;
  double real = 0;
  return read_all(digits, value) || (read_all(digits, real) && whole_number(real, value));
}

bool read_number(std::string_view text, double& value) {
  std::string digits;
  return without_separators(text, digits) && read_all(digits, value);
}

bool is_text(std::string_view text) {
  return text.find('\0') == std::string_view::npos && well_formed_bytes(text) == text.size();
}

std::string expand_environment(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto at = text.find("${");
    if (at == std::string_view::npos) break;
    if (at > 0 && text[at - 1] == '$') {
      out += text.substr(0, at - 1);
      out += "${";
      text.remove_prefix(at + 2);
      continue;
    }
    const auto end = text.find('}', at);
    require(end != std::string_view::npos, "'${{' has no closing brace; write ${{NAME}}, or $${{");
    const std::string name(text.substr(at + 2, end - at - 2));
    require(!name.empty() && name.find('\0') == std::string::npos,
            "'${{}}' names no variable; write ${{NAME}}");
    const char* value = std::getenv(name.c_str());
    require(value != nullptr, "environment variable {} is not set; export it or write its value",
            name);
    out += text.substr(0, at);
    out += value;
    text.remove_prefix(end + 1);
  }
  return out += text;
}

}  // namespace trireme
