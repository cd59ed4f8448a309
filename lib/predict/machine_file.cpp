#include "lib/predict/machine_file.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/base/posix_file.hpp"
#include "lib/keys/table_reader.hpp"
#include "lib/predict/machine_table.hpp"

namespace trireme {
namespace {

class Reader final : public TableReader {
 public:
  explicit Reader(const std::string& source)
      : TableReader(machine_sections(), "a machine file", source) {
    machine_.file = source;
  }

  MachineModel finish() {
    if (!places_.contains("machine"))
      report(nullptr, "there is no section [machine], which describes the machine");
    throw_problems();
    fill(machine_);
    check();
    throw_problems();
    return std::move(machine_);
  }

 private:
  void section_ends(const KeySection& section, const RawSection& raw) override {
    places_[section.name].push_back(raw.place);
    for (const auto& key : section.keys)
      if (key.required &&
          std::ranges::find(raw.entries, key.name, &RawEntry::key) == raw.entries.end())
        report(raw.place, fmt::format("{} has no '{}' ({})", section.name, key.name, key.meaning));
  }

  void same_length(const std::string& section, std::size_t row, std::string_view key,
                   std::size_t wanted, std::size_t got) {
    if (wanted != got)
      report(places_[section][row],
             fmt::format("{}.{} must have {} numbers, but has {}", section, key, wanted, got));
  }

  // Reports entries that have the same of(entry).
  template <class Entry, class Of>
  void once(const std::string& section, const std::vector<Entry>& all, Of of,
            std::string_view text) {
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (of(all[i]) == of(all[j])) report(places_[section][i], std::string(text));
  }

  void check() {
    const auto& products = machine_.products;
    const auto& attention = machine_.attention;
    const auto& operations = machine_.operations;
    for (std::size_t i = 0; i < products.size(); ++i) {
      const auto& p = products[i];
      same_length("product", i, "flops", p.m.size() * p.n.size() * p.k.size(), p.flops.size());
    }
    for (std::size_t i = 0; i < attention.size(); ++i)
      same_length("attention", i, "flops", attention[i].tokens.size(), attention[i].flops.size());
    for (std::size_t i = 0; i < operations.size(); ++i)
      same_length("operation", i, "seconds", operations[i].bytes.size(),
                  operations[i].seconds.size());
    once(
        "product", products, [](const auto& p) { return std::tuple(p.dtype, p.layout); },
        "there is already a [[product]] with this dtype and layout");
    once(
        "attention", attention,
        [](const auto& a) { return std::tuple(a.dtype, a.direction, a.head_dim, a.span); },
        "there is already an [[attention]] with this dtype, direction, head_dim and span");
    once(
        "operation", operations, [](const auto& o) { return std::tuple(o.name, o.dtype); },
        "there is already an [[operation]] with this name and dtype");
  }

  MachineModel machine_;
  std::map<std::string, std::vector<SourceLocation>> places_;
};

std::string text_of(double x) {
  return x == std::round(x) && x < 1e9 ? fmt::format("{}", static_cast<std::int64_t>(x))
                                       : fmt::format("{:.4g}", x);
}

std::string text_of(const std::vector<double>& all) {
  std::string out = "[";
  std::size_t line = 0;
  for (const auto x : all) {
    if (out.size() > 1) out += ",";
    if (out.size() - line > 92) {
      line = out.size();
      out += "\n  ";
    } else if (out.size() > 1) {
      out += " ";
    }
    out += text_of(x);
  }
  return out + "]";
}

std::string text_of(const KeyValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return text_of(*number);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) return text_of(*numbers);
  return to_toml(value);
}

}  // namespace

MachineModel parse_machine(std::string_view text, const std::string& source_name) {
  Reader reader(source_name);
  reader.read(text);
  return reader.finish();
}

MachineModel load_machine(const std::filesystem::path& path) {
  std::error_code unknown;
  require(std::filesystem::is_regular_file(path, unknown),
          "the machine file {} does not exist. `trireme calibrate` writes one for this machine",
          path.string());
  return parse_machine(read_text(path), path.string());
}

std::string machine_text(const MachineModel& m) {
  const MachineModel plain;
  std::string out;
  for (const auto& section : machine_sections())
    for (std::size_t row = 0; row < section.rows(m); ++row) {
      std::string lines;
      for (const auto& key : section.keys) {
        const auto value = key.access.get(m, row);
        const bool same = !section.repeated && value == key.access.get(plain, 0);
        if (std::holds_alternative<Automatic>(value) || (same && !key.required)) continue;
        lines += fmt::format("{} = {}\n", key.name, text_of(value));
      }
      if (lines.empty()) continue;
      out += fmt::format("{}{}\n{}", out.empty() ? "" : "\n", section.header(), lines);
    }
  return out;
}

std::string machine_reference() {
  std::string out = "| key | value | meaning |\n|---|---|---|\n";
  for (const auto& s : machine_sections())
    for (const auto& k : s.keys)
      out += fmt::format("| `{}{}.{}` | {} | {}{} |\n", s.name, s.repeated ? "[]" : "", k.name,
                         kind_text(k), k.meaning, k.required ? "; required" : "");
  return out;
}

}  // namespace trireme
