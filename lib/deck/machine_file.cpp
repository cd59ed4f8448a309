#include "lib/deck/machine_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/base/nearest.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/deck/machine_table.hpp"
#include "lib/deck/toml_reader.hpp"

namespace trireme {
namespace {

template <class T>
std::vector<std::string> names_of(const std::vector<T>& all) {
  std::vector<std::string> names;
  for (const auto& x : all) names.push_back(x.name);
  return names;
}

// Of a count; of any number, whatever its unit.
constexpr double largest_count = 0x1p30, least_number = 1e-15, most_number = 1e21;

class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)) {}

  MachineModel read(std::string_view toml) {
    for (const auto& raw : read_toml(toml, source_)) read(raw);
    require(seen_.contains("machine"),
            "{}: there is no section [machine]: it says of what the "
            "numbers are",
            source_);
    auto& m = built_.machine;
    m.file = source_;
    return std::move(m);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(const SourceLocation& at, fmt::format_string<Args...> text,
                           Args&&... args) const {
    fail("{}:{}:{}: {}", source_, at.line, at.column,
         fmt::format(text, std::forward<Args>(args)...));
  }

  void read(const RawSection& raw) {
    if (raw.name.empty())
      refuse(raw.entries[0].place,
             "key '{}' stands in no section; a machine file begins with "
             "[machine]",
             raw.entries[0].key);
    const auto section = std::ranges::find(machine_sections(), raw.name, &MachineSection::name);
    if (section == machine_sections().end()) {
      const auto near = nearest_name(raw.name, names_of(machine_sections()));
      refuse(raw.place, "there is no section [{}]{}", raw.name,
             near.empty()
                 ? fmt::format("; sections: {}", fmt::join(names_of(machine_sections()), ", "))
                 : fmt::format("; did you mean [{}]?", near));
    }
    const bool many = section->times == Times::many;
    if (many != raw.repeated)
      refuse(raw.place, "section {0} is written {1}", raw.name,
             many ? "[[" + raw.name + "]]" : "[" + raw.name + "]");
    seen_.insert(raw.name);
    built_.product = {};
    built_.attention = {};
    built_.operation = {};
    std::set<std::string> given;
    for (const auto& entry : raw.entries) {
      assign(*section, entry);
      given.insert(entry.key);
    }
    for (const auto& key : section->keys)
      if (key.presence == Presence::required && !given.contains(key.name))
        refuse(raw.place, "{} has no '{}' ({})", raw.name, key.name, key.meaning);
    finish(raw);
  }

  void assign(const MachineSection& section, const RawEntry& entry) {
    const auto key = std::ranges::find(section.keys, entry.key, &MachineKey::name);
    if (key == section.keys.end()) {
      const auto near = nearest_name(entry.key, names_of(section.keys));
      refuse(entry.place, "there is no key '{}' in {}{}", entry.key, section.name,
             near.empty() ? fmt::format("; keys: {}", fmt::join(names_of(section.keys), ", "))
                          : fmt::format("; did you mean '{}'?", near));
    }
    const auto value = accepted(section, *key, entry);
    try {
      key->set(built_, value);
    } catch (const Error& e) {
      refuse(entry.value.place, "{}.{} {}", section.name, key->name, e.what());
    }
  }

  MachineValue accepted(const MachineSection& section, const MachineKey& key,
                        const RawEntry& entry) const {
    const auto& raw = entry.value;
    const auto wrong = [&]() {
      refuse(raw.place, "{}.{} is {}, not {}", section.name, key.name, kind_text(key.takes),
             spoken(raw));
    };
    if (key.takes == Takes::text) {
      if (const auto* s = std::get_if<std::string>(&raw.data)) return *s;
      wrong();
    }
    if (key.takes == Takes::flag) {
      if (const auto* f = std::get_if<bool>(&raw.data)) return *f ? 1.0 : 0.0;
      wrong();
    }
    if (key.takes == Takes::number || key.takes == Takes::count) return positive(section, key, raw);
    const auto* all = std::get_if<std::vector<RawValue>>(&raw.data);
    if (!all || all->empty()) wrong();
    std::vector<double> numbers;
    for (const auto& element : *all) {
      numbers.push_back(positive(section, key, element));
      const auto n = numbers.size();
      if (key.takes == Takes::ascending && n > 1 && numbers[n - 1] <= numbers[n - 2])
        refuse(element.place, "{}.{} does not ascend: {} follows {}", section.name, key.name,
               numbers[n - 1], numbers[n - 2]);
    }
    return numbers;
  }

  double positive(const MachineSection& section, const MachineKey& key, const RawValue& raw) const {
    double x = 0;
    if (const auto* i = std::get_if<std::int64_t>(&raw.data))
      x = static_cast<double>(*i);
    else if (const auto* d = std::get_if<double>(&raw.data))
      x = *d;
    else
      refuse(raw.place, "{}.{} is {}, not {}", section.name, key.name, kind_text(key.takes),
             spoken(raw));
    if (!(x > 0) || !std::isfinite(x))
      refuse(raw.place, "{}.{} = {} is not above 0", section.name, key.name, x);
    if (key.takes == Takes::count && (x != std::floor(x) || x > largest_count))
      refuse(raw.place, "{}.{} = {} is not a whole number up to 2^30", section.name, key.name, x);
    if (x < least_number || x > most_number)
      refuse(raw.place, "{}.{} = {} is of no machine: numbers lie between {} and {}", section.name,
             key.name, x, least_number, most_number);
    return x;
  }

  void same_length(const RawSection& raw, std::size_t wanted, std::size_t got,
                   std::string_view key) const {
    if (wanted != got)
      refuse(raw.place, "{}.{} has {} numbers where {} belong", raw.name, key, got, wanted);
  }

  void finish(const RawSection& raw) {
    auto& m = built_.machine;
    if (raw.name == "product") {
      auto& p = built_.product;
      same_length(raw, p.m.size() * p.n.size() * p.k.size(), p.flops.size(), "flops");
      for (const auto& other : m.products)
        if (other.dtype == p.dtype && other.lay == p.lay)
          refuse(raw.place, "there is a [[product]] of this dtype and layout already");
      m.products.push_back(std::move(p));
    } else if (raw.name == "attention") {
      auto& a = built_.attention;
      same_length(raw, a.tokens.size(), a.flops.size(), "flops");
      for (const auto& other : m.attention)
        if (other.dtype == a.dtype && other.direction == a.direction &&
            other.head_dim == a.head_dim)
          refuse(raw.place,
                 "there is an [[attention]] of this dtype, direction and head_dim already");
      m.attention.push_back(std::move(a));
    } else if (raw.name == "operation") {
      auto& o = built_.operation;
      same_length(raw, o.bytes.size(), o.seconds.size(), "seconds");
      for (const auto& other : m.operations)
        if (other.name == o.name && other.dtype == o.dtype)
          refuse(raw.place, "there is an [[operation]] of this name and dtype already");
      m.operations.push_back(std::move(o));
    }
  }

  std::string source_;
  MachineBuilder built_;
  std::set<std::string> seen_;
};

}  // namespace

MachineModel parse_machine(std::string_view text, const std::string& source_name) {
  return Reader(source_name).read(text);
}

MachineModel load_machine(const std::filesystem::path& path) {
  std::error_code unknown;
  require(std::filesystem::is_regular_file(path, unknown),
          "there is no machine file {}: `trireme calibrate` writes one of this machine",
          path.string());
  return parse_machine(read_text(path), path.string());
}

}  // namespace trireme
