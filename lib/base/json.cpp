#include "lib/base/json.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/escaped.hpp"
#include "lib/base/git_lfs.hpp"
#include "lib/base/vendor_text.hpp"

namespace trireme {

namespace {

constexpr std::size_t deepest = 64;

// A builder of a value from the parser's events. The library's own builder with a callback searches
// all members of an object again after each nested value.
template <class J>
class Builder {
 public:
  // If `only` is given, keeps only this member of the outermost object.
  explicit Builder(std::optional<std::string_view> only = {}) : only_(only) {}

  J&& value() { return std::move(value_); }

  bool null() { return put(nullptr); }
  bool boolean(bool x) { return put(x); }
  bool number_integer(typename J::number_integer_t x) { return put(x); }
  bool number_unsigned(typename J::number_unsigned_t x) { return put(x); }
  bool number_float(typename J::number_float_t x, const std::string& text) {
    require(std::is_same_v<J, Json> || text.find_first_of(".eE") != std::string::npos,
            "the integer {}{} does not fit into 64 bits: write it as a text", text, place());
    return put(x);
  }
  bool string(std::string& x) { return put(std::move(x)); }
  bool binary(typename J::binary_t&) { return false; }  // occurs only in other formats
  bool start_object(std::size_t) { return start(J::value_t::object); }
  bool start_array(std::size_t) { return start(J::value_t::array); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }

  bool key(std::string& name) {
    if (depth_ == 1) left_out_ = only_ && name != *only_;
    if (depth_ > open_.size()) return true;
    auto& level = open_.back();
    const auto [member, fresh] =
        level.value->template get_ref<typename J::object_t&>().emplace(name, nullptr);
    level.member = &*member;
    require(fresh, "the key '{}' occurs twice{}", escaped(name), place());
    return true;
  }

  bool parse_error(std::size_t at, const std::string&, const typename J::exception& e) {
    const auto text = escaped(without_tag(e.what()));
    if (text.starts_with("parse error")) fail("{}", text);
    fail("at byte {}: {}", at, text);
  }

 private:
  struct Level {
    J* value;
    typename J::object_t::value_type* member = nullptr;  // the last member of an object
  };

  // Stores the value. Returns its address, or null if the value is left out.
  J* put(J&& x) {
    if (left_out_) return nullptr;
    if (open_.empty()) return &(value_ = std::move(x));
    const auto [around, member] = open_.back();
    if (member) return &(member->second = std::move(x));
    return &around->template get_ref<typename J::array_t&>().emplace_back(std::move(x));
  }
  template <class T>
  bool put(T&& x) {
    put(J(std::forward<T>(x)));
    return true;
  }

  bool start(typename J::value_t type) {
    require(++depth_ <= deepest, "it is nested more than {} levels deep", deepest);
    if (auto* const value = put(J(type))) open_.push_back({value});
    return true;
  }
  bool end() {
    if (--depth_ < open_.size()) open_.pop_back();
    return true;
  }

  // Returns the current place as text, for example " in 'model.vocab'".
  std::string place() const {
    std::string names;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      const auto& [value, member] = open_[i];
      if (i > 0) names += '.';
      names += member ? escaped(member->first) : std::to_string(value->size() - 1);
    }
    return names.empty() ? names : fmt::format(" in '{}'", names);
  }

  std::optional<std::string_view> only_;
  J value_;
  std::vector<Level> open_;  // the open values that are kept
  std::size_t depth_ = 0;    // number of all open values
  bool left_out_ = false;
};

template <class J = Json>
J build(std::string_view text, std::optional<std::string_view> only = {}) {
  require(!is_lfs_pointer(text), "it is {}", lfs_pointer_advice);
  Builder<J> builder(only);
  J::sax_parse(text, &builder);
  return builder.value();
}

Json build_object(std::string_view text, std::string_view where,
                  std::optional<std::string_view> only = {}) {
  try {
    auto json = build(text, only);
    require(json.is_object(), "it is not a JSON object");
    return json;
  } catch (const Error& e) {
    fail("{} is damaged: {}", where, e.what());
  }
}

}  // namespace

Json parse_json(std::string_view text) {
  return build(text);
}

OrderedJson parse_ordered_json(std::string_view text) {
  return build<OrderedJson>(text);
}

Json parse_object(std::string_view text, std::string_view where) {
  return build_object(text, where);
}

Json parse_member(std::string_view text, std::string_view member, std::string_view where) {
  auto object = build_object(text, where, member);
  const auto found = object.find(member);
  return found == object.end() ? Json() : std::move(*found);
}

std::string to_lines(const Json& json) {
  return json.dump(2) + "\n";
}

std::string shown(const Json& json) {
  constexpr std::size_t most = 60;
  auto text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > most) text.replace(most, std::string::npos, "...");
  return text;
}

std::int64_t integer(const Json& v, std::string_view what, std::int64_t low, std::int64_t high) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  require(v.is_number_integer(), "'{}' is not an integer: {}", what, shown(v));
  const bool fits =
      !v.is_number_unsigned() || v.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
  const auto n = fits ? v.get<std::int64_t>() : most;
  require(fits && low <= n && n <= high, "'{}' = {} is out of range: {}", what, shown(v),
          high == most ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high));
  return n;
}

double real(const Json& v, std::string_view what) {
  require(v.is_number(), "'{}' is not a number: {}", what, shown(v));
  return v.get<double>();
}

Hash128 hash_of(const Json& v, std::string_view what) {
  const auto h = v.is_string() ? parse_hash(v.get_ref<const std::string&>()) : std::nullopt;
  require(h.has_value(), "'{}' is not a hash of 32 hex digits", what);
  return *h;
}

const Json& JsonFields::at(const char* key) const {
  require(json.is_object() && json.contains(key), "'{}' is missing", key);
  return json[key];
}
const Json& JsonFields::array(const char* key) const {
  const auto& v = at(key);
  require(v.is_array(), "'{}' is not an array", key);
  return v;
}
const Json& JsonFields::object(const char* key) const {
  const auto& v = at(key);
  require(v.is_object(), "'{}' is not an object", key);
  return v;
}
std::string JsonFields::text(const char* key) const {
  const auto& v = at(key);
  require(v.is_string(), "'{}' is not a string", key);
  return v.get<std::string>();
}

}  // namespace trireme
