#include "lib/chat/python_json.hpp"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

std::string python_json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr std::string_view plain = "\"\\\n\r\t\f\b", letters = "\"\\nrtfb";
    if (const auto at = plain.find(c); at != std::string_view::npos)
      out.append({'\\', letters[at]});
    else if (byte < 0x20)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + '"';
}

namespace {

// Returns the shortest digits that represent x, with an exponent from 1e16 on and below 1e-4.
std::string number(double x) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific);
  const std::string_view all(buffer, end.ptr);
  const auto e = all.find('e');
  int exponent = 0;
  std::from_chars(buffer + e + (all[e + 1] == '+' ? 2 : 1), end.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(all);
  char fixed[64];
  const auto last = std::to_chars(fixed, fixed + sizeof fixed, x, std::chars_format::fixed);
  std::string text(fixed, last.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

// Writes the values at the places that `asked` selects, while the parser reports all values.
class Writer final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Writer(const std::function<bool(const JsonPlace&)>& asked) : asked_(asked) {}
  std::map<JsonPlace, std::string> take() { return std::move(texts_); }

  bool null() override { return put("null"); }
  bool boolean(bool x) override { return put(x ? "true" : "false"); }
  bool number_integer(number_integer_t x) override { return put(std::to_string(x)); }
  bool number_unsigned(number_unsigned_t x) override { return put(std::to_string(x)); }
  bool number_float(number_float_t x, const string_t& text) override {
    // An integer without a fraction or exponent that does not fit into 64 bits is kept as it is.
    const bool integer = text.find_first_of(".eE") == std::string::npos;
    return put(integer ? text : number(x));
  }
  bool string(string_t& x) override { return put(python_json_text(x)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return start('{', std::nullopt); }
  bool start_array(std::size_t) override { return start('[', 0); }
  bool key(string_t& name) override {
    auto& level = open_.back();
    if (writing()) text_ += (level.first ? "" : ", ") + python_json_text(name) + ": ";
    level.first = false;
    place_.back() = name;
    return true;
  }
  bool end_object() override { return end('}'); }
  bool end_array() override { return end(']'); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    fail("{}", e.what());
  }

 private:
  struct Level {
    std::optional<std::size_t> element;  // in an array: index of the next element
    bool first = true;
  };
  bool writing() const { return depth_.has_value(); }

  // Called before each value.
  void begin() {
    if (!open_.empty() && open_.back().element) {
      auto& level = open_.back();
      place_.back() = std::to_string((*level.element)++);
      if (writing() && !level.first) text_ += ", ";
      level.first = false;
    }
    if (!writing() && asked_(place_)) depth_ = open_.size();
  }
  // Called after each value.
  void finish() {
    if (depth_ != open_.size()) return;
    texts_[place_] = std::exchange(text_, {});
    depth_.reset();
  }
  bool put(const std::string& text) {
    begin();
    if (writing()) text_ += text;
    finish();
    return true;
  }
  bool start(char bracket, std::optional<std::size_t> element) {
    begin();
    if (writing()) text_ += bracket;
    open_.push_back({element});
    place_.emplace_back();
    return true;
  }
  bool end(char bracket) {
    if (writing()) text_ += bracket;
    open_.pop_back();
    place_.pop_back();
    finish();
    return true;
  }

  const std::function<bool(const JsonPlace&)>& asked_;
  std::map<JsonPlace, std::string> texts_;
  JsonPlace place_;
  std::vector<Level> open_;
  std::optional<std::size_t> depth_;  // depth of the value that is being written
  std::string text_;
};

}  // namespace

std::map<JsonPlace, std::string> python_json(std::string_view text,
                                             const std::function<bool(const JsonPlace&)>& asked) {
  Writer writer(asked);
  nlohmann::json::sax_parse(text, &writer);
  return writer.take();
}

std::string indented_json(std::string_view json, std::size_t spaces) {
  std::string out;
  std::size_t level = 0;
  bool quoted = false;
  const auto line = [&](std::size_t at) { out += '\n' + std::string(at * spaces, ' '); };
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    out += c;
    if (quoted) {
      if (c == '\\') out += json[++i];
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (json[i + 1] == '}' || json[i + 1] == ']')
        out += json[++i];
      else
        line(++level);
    } else if (c == '}' || c == ']') {
      out.pop_back();
      line(--level);
      out += c;
    } else if (c == ',') {
      line(level);
      ++i;  // skips the space after it
    }
  }
  return out;
}

}  // namespace trireme
