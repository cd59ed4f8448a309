// Conversion of a raw value to the type of its key. Checks the type, environment variables, the
// range and the choices.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/keys/key.hpp"
#include "lib/keys/quantity.hpp"

namespace trireme {
namespace {

class Acceptor {
 public:
  explicit Acceptor(const Key& key) : key_(key) {}

  KeyValue value(const RawValue& as_written) const {
    const RawValue raw = expanded(as_written);
    if (is_automatic(raw)) return Automatic{};
    const auto* text_given = std::get_if<std::string>(&raw.data);
    if (text_given && !key_.word.empty() && *text_given == key_.word) return key_.word;
    switch (key_.kind) {
      case ValueKind::flag:
        return flag(raw);
      case ValueKind::integer:
        return integer(raw);
      case ValueKind::real:
        return real(raw);
      case ValueKind::duration:
        return duration(raw);
      case ValueKind::text:
        return text(raw);
      case ValueKind::path:
        return path(raw);
      case ValueKind::choice:
        return choice(raw);
      case ValueKind::integers:
        return array<std::int64_t>(raw, &Acceptor::integer);
      case ValueKind::reals:
        return array<double>(raw, &Acceptor::real);
      case ValueKind::texts:
        return array<std::string>(raw, &Acceptor::text);
      case ValueKind::paths:
        return paths(raw);
      case ValueKind::fraction_or_paths:
        if (std::holds_alternative<double>(raw.data) ||
            std::holds_alternative<std::int64_t>(raw.data)) {
          return real(raw);
        }
        return paths(raw);
    }
    wrong_type(raw);
  }

 private:
  bool takes_text() const {
    switch (key_.kind) {
      case ValueKind::text:
      case ValueKind::path:
      case ValueKind::texts:
      case ValueKind::paths:
        return true;
      default:
        return false;
    }
  }

  // Replaces ${NAME} in the value of a key that takes no text. The value is written as a text,
  // which is parsed again after the replacement. Values of keys that take texts are expanded where
  // they are read.
  RawValue expanded(const RawValue& raw) const {
    const auto* words = std::get_if<std::string>(&raw.data);
    const auto* elements = std::get_if<std::vector<RawValue>>(&raw.data);
    if (takes_text()) return raw;
    if (elements) {
      RawValue all = raw;
      std::vector<RawValue> parts;
      for (const auto& e : *elements) {
        const RawValue part = expanded(e);
        const auto* several = std::get_if<std::vector<RawValue>>(&part.data);
        if (several)
          parts.insert(parts.end(), several->begin(), several->end());
        else
          parts.push_back(part);
      }
      all.data = std::move(parts);
      return all;
    }
    if (!words || words->find("${") == std::string::npos) return raw;
    try {
      RawValue again = raw_from_text(key_, expand_environment(*words));
      const bool path = key_.kind == ValueKind::fraction_or_paths &&
                        std::holds_alternative<std::string>(again.data);
      if (path) return raw;
      again.place = raw.place;
      return again;
    } catch (const Error& e) {
      throw BadValue(fmt::format("{}: {}", key_.path(), e.what()), raw.place);
    }
  }

  // Returns true for "auto". The number 0 means "auto", too, if the key's range excludes 0.
  bool is_automatic(const RawValue& raw) const {
    if (key_.automatic.empty()) return false;
    const auto* word = std::get_if<std::string>(&raw.data);
    const auto* whole = std::get_if<std::int64_t>(&raw.data);
    const auto* number = std::get_if<double>(&raw.data);
    const bool zero = (whole && *whole == 0) || (number && *number == 0);
    const bool zero_is_a_value = key_.range && key_.range->min <= 0 && !key_.range->above_min;
    return (word && *word == "auto") || (zero && !zero_is_a_value);
  }

  [[noreturn]] void wrong_type(const RawValue& raw) const {
    std::string words;
    if (!key_.automatic.empty()) words += " or \"auto\"";
    if (!key_.word.empty()) words += " or " + to_toml(key_.word);
    throw BadValue(
        fmt::format("{} takes {}{}, not {}", key_.path(), kind_text(key_), words, spoken(raw)),
        raw.place);
  }

  [[noreturn]] void out_of_range(const std::string& x, const std::string& range,
                                 const RawValue& raw) const {
    throw BadValue(fmt::format("{} = {} is out of range: {}", key_.path(), x, range), raw.place);
  }

  void require_range(double x, const RawValue& raw) const {
    if (!key_.range) return;
    const Interval& r = *key_.range;
    const bool low = r.above_min ? x > r.min : x >= r.min;
    const bool high = r.below_max ? x < r.max : x <= r.max;
    // Both conditions are false for a NaN.
    if (!low || !high) out_of_range(number_text(x), range_text(key_), raw);
  }

  // Returns the upper bound in words. Bounds of whole numbers are whole, inclusive, and exact in a
  // double. range_text() is used for bounds below 2^53 only.
  std::string most_text() const {
    return fmt::format("at most {}", static_cast<std::int64_t>(key_.range->max));
  }

  void require_range(std::int64_t x, const RawValue& raw) const {
    if (!key_.range) return;
    const Interval& r = *key_.range;
    if (x > static_cast<std::int64_t>(r.max)) {
      const auto range = range_text(key_);
      out_of_range(std::to_string(x), r.max < 0x1p53 ? range : most_text(), raw);
    }
    if (x < static_cast<std::int64_t>(r.min))
      out_of_range(std::to_string(x), range_text(key_), raw);
  }

  bool flag(const RawValue& raw) const {
    const auto* x = std::get_if<bool>(&raw.data);
    if (!x) wrong_type(raw);
    return *x;
  }

  std::int64_t integer(const RawValue& raw) const {
    std::int64_t value = 0;
    if (const auto* whole = std::get_if<std::int64_t>(&raw.data)) {
      value = *whole;
    } else if (const auto* x = std::get_if<double>(&raw.data); !x || !whole_number(*x, value)) {
      if (x && *x >= 0x1p63 && std::isfinite(*x) && key_.range)
        out_of_range(number_text(*x), most_text(), raw);
      wrong_type(raw);
    }
    require_range(value, raw);
    return value;
  }

  double real(const RawValue& raw) const {
    double value = 0;
    if (const auto* whole = std::get_if<std::int64_t>(&raw.data)) {
      value = static_cast<double>(*whole);
    } else if (const auto* x = std::get_if<double>(&raw.data)) {
      value = *x;
    } else {
      wrong_type(raw);
    }
    require_range(value, raw);
    return value + 0.0;  // turns -0 into 0
  }

  double duration(const RawValue& raw) const {
    const auto* words = std::get_if<std::string>(&raw.data);
    if (!words) return real(raw);
    RawValue seconds = raw;
    try {
      seconds.data = parse_duration(text(raw));
    } catch (const Error& e) {
      throw BadValue(fmt::format("{}: {}", key_.path(), e.what()), raw.place);
    }
    return real(seconds);
  }

  std::string text(const RawValue& raw) const {
    const auto* words = std::get_if<std::string>(&raw.data);
    if (!words) wrong_type(raw);
    try {
      std::string value = key_.literal ? *words : expand_environment(*words);
      require(is_text(value), "the value must be UTF-8 text without zero bytes");
      return value;
    } catch (const Error& e) {
      throw BadValue(fmt::format("{}: {}", key_.path(), e.what()), raw.place);
    }
  }

  std::string path(const RawValue& raw) const { return path(text(raw), raw); }

  std::string path(const std::string& value, const RawValue& raw) const {
    if (value.empty()) return value;
    std::error_code failed;
    const auto whole = std::filesystem::absolute(value, failed).lexically_normal();
    if (failed) {
      throw BadValue(fmt::format("{}: cannot resolve the relative path '{}', because the working "
                                 "directory cannot be read: {}",
                                 key_.path(), value, failed.message()),
                     raw.place);
    }
    return whole.string();
  }

  std::string choice(const RawValue& raw) const {
    const std::string name = text(raw);
    const auto& known = key_.choices;
    if (!key_.prefix.empty() && name.starts_with(key_.prefix) && name != key_.prefix)
      return key_.prefix + path(name.substr(key_.prefix.size()), raw);
    if (std::find(known.begin(), known.end(), name) != known.end()) return name;
    const auto familiar = key_.familiar ? key_.familiar(name) : FamiliarChoice{};
    const bool is_ours =
        !familiar.ours.empty() && std::ranges::find(known, familiar.ours) != known.end();
    const std::string near = is_ours ? std::string(familiar.ours) : nearest_name(name, known);
    throw BadValue(fmt::format("{} = {} is not {}; it can be {}", key_.path(), to_toml(name),
                               familiar.unsupported ? "supported"
                               : near.empty()       ? "known"
                                              : fmt::format("known (did you mean \"{}\"?)", near),
                               range_text(key_)),
                   raw.place);
  }

  template <class T>
  std::vector<T> array(const RawValue& raw, T (Acceptor::*element)(const RawValue&) const) const {
    const auto* elements = std::get_if<std::vector<RawValue>>(&raw.data);
    if (!elements) wrong_type(raw);
    if (key_.count > 0 && elements->size() != key_.count) {
      throw BadValue(fmt::format("{} takes {}, not {} of them", key_.path(), kind_text(key_),
                                 elements->size()),
                     raw.place);
    }
    if (key_.ascending && elements->empty()) wrong_type(raw);
    std::vector<T> values;
    for (const auto& e : *elements) {
      values.push_back((this->*element)(e));
      if (const auto n = values.size(); key_.ascending && n > 1 && !(values[n - 1] > values[n - 2]))
        throw BadValue(fmt::format("{} must be in ascending order, but {} follows {}", key_.path(),
                                   to_toml(values[n - 1]), to_toml(values[n - 2])),
                       e.place);
    }
    return values;
  }

  std::vector<std::string> paths(const RawValue& raw) const {
    std::vector<std::string> values;
    if (std::holds_alternative<std::string>(raw.data)) {
      values.push_back(path(raw));
    } else {
      values = array<std::string>(raw, &Acceptor::path);
    }
    if (std::find(values.begin(), values.end(), "") != values.end()) {
      throw BadValue(fmt::format("{} contains an empty path; write the file's path, or [] for none",
                                 key_.path()),
                     raw.place);
    }
    return values;
  }

  const Key& key_;
};

}  // namespace

KeyValue accepted(const Key& key, const RawValue& raw) {
  return Acceptor(key).value(raw);
}

}  // namespace trireme
