// Text and overrides -> Deck. All problems of a deck are collected and thrown together.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/nearest.hpp"
#include "lib/deck/check.hpp"
#include "lib/deck/familiar.hpp"
#include "lib/deck/former.hpp"
#include "lib/deck/preset.hpp"
#include "lib/deck/table.hpp"
#include "lib/deck/toml_reader.hpp"

namespace trireme {
namespace {

template <class T>
std::vector<std::string> names_of(const std::vector<T>& declared) {
  std::vector<std::string> names;
  for (const auto& d : declared) names.push_back(d.name);
  return names;
}

// Sections that have a key of that name, as "[a] or [b]".
std::string homes_of(std::string_view key) {
  std::string homes;
  for (const auto& section : deck_sections()) {
    if (!find_key(section, key)) continue;
    homes += (homes.empty() ? "" : " or ") + section.header();
  }
  return homes;
}

enum class Presets : std::uint8_t { of_this_program, of_checkpoints_too };

class Loader {
 public:
  explicit Loader(std::string source, Presets presets = Presets::of_checkpoints_too)
      : source_(std::move(source)), presets_(presets) {
    deck_.name = std::filesystem::path(source_).stem().string();
  }

  void read(std::string_view text) {
    for (const auto& section : read_toml(text, source_)) {
      if (section.name.empty()) {
        for (const auto& entry : section.entries) homeless(entry);
      } else if (const DeckSection* known = section_named(section)) {
        entries(*known, section);
      }
    }
  }

  void override_with(const std::string& argument) {
    const std::string where = fmt::format("override '{}'", argument);
    const auto equals = argument.find('=');
    const std::string path = trimmed(argument.substr(0, equals));
    const DeckKey* key = find_key(path);
    if (const auto* former = find_former(path)) {
      report(where, fmt::format("{} {}", path, former->says));
      return;
    }
    if (const auto* familiar = key ? nullptr : find_familiar(path)) {
      report(where, fmt::format("'{}' is not a key: {}", path, hinted(*familiar)));
      return;
    }
    if (!key || equals == std::string::npos) {
      const std::string near = key ? path : nearest_path(path);
      report(where, fmt::format("{}; write section.key=value{}",
                                key ? "it has no '='" : fmt::format("'{}' is not a key", path),
                                near.empty() ? "" : fmt::format(" (nearest key: {})", near)));
      failed_.insert(near);
      return;
    }
    if (find_section(key->section)->repeated) {
      report(where, fmt::format("[[{0}]] is a list of rules; change it in the deck", key->section));
      return;
    }
    assign(*key, 0, raw_from_text(*key, argument.substr(equals + 1)), where);
    // The length of the run has two names: an override of one replaces the other in the deck.
    if (path == "train.steps") forget_from_file("train.tokens");
    if (path == "train.tokens") forget_from_file("train.steps");
  }

  Deck finish() {
    fill();
    for (const auto& problem : check_deck(deck_)) {
      const bool known = std::any_of(problem.keys.begin(), problem.keys.end(),
                                     [&](const auto& key) { return failed_.contains(key); });
      if (!known) report(place_of(problem), problem.message);
    }
    if (!problems_.empty()) throw Error(everything_wrong());
    return std::move(deck_);
  }

 private:
  struct Given {
    const DeckKey* key;
    std::size_t row;
    DeckValue value;
    std::string where;
    SourceLocation place;
  };
  struct Report {
    SourceLocation place;  // line 0: after all that have one
    std::string text;
  };

  static std::string trimmed(const std::string& text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
  }

  static std::string nearest_path(const std::string& wrong) {
    // A key without its section, or in another one, is the most common mistake.
    std::vector<std::string> of_that_name;
    const auto last = wrong.substr(wrong.rfind('.') + 1);
    for (const auto& path : deck_key_paths())
      if (path.substr(path.find('.') + 1) == last) of_that_name.push_back(path);
    if (of_that_name.empty()) return nearest_name(wrong, deck_key_paths());
    const auto near = nearest_name(wrong, of_that_name);
    return near.empty() ? of_that_name[0] : near;
  }

  // A hint to a key that probably has that value: rules about it are not checked.
  std::string hinted(const FamiliarName& familiar) {
    failed_.insert(std::string(familiar.key));
    return hint_of(familiar);
  }

  // None: no value that the key ever had.
  static std::optional<bool> was_set(const FormerKey& former, const RawValue& raw) {
    const auto compared = [&](auto unset) -> std::optional<bool> {
      const auto* given = std::get_if<decltype(unset)>(&raw.data);
      return given ? std::optional(*given != unset) : std::nullopt;
    };
    return std::visit(compared, former.unset);
  }

  std::string at(SourceLocation place) const {
    return place.line == 0 ? source_ : fmt::format("{}:{}:{}", source_, place.line, place.column);
  }

  void report(const std::string& where, const std::string& message, SourceLocation place = {}) {
    problems_.push_back({place, where + ": " + message});
  }
  void report(SourceLocation place, const std::string& message) {
    report(at(place), message, place);
  }
  void report(const Given* given, const std::string& message) {
    if (given) {
      report(given->where, message, given->place);
    } else {
      report(source_, message);
    }
  }

  void homeless(const RawEntry& entry) {
    if (const DeckSection* section = find_section(entry.key)) {
      report(entry.place, fmt::format("{} is a section; write {} above its keys", section->name,
                                      section->header()));
      return;
    }
    const std::string homes = homes_of(entry.key);
    const auto* familiar = find_familiar(entry.key);
    report(entry.place, fmt::format("key '{}' stands in no section; {}", entry.key,
                                    !homes.empty() ? "it belongs to " + homes
                                    : familiar     ? hinted(*familiar)
                                                   : "a deck starts with one, such as [model]"));
  }

  const DeckSection* section_named(const RawSection& section) {
    const DeckSection* known = find_section(section.name);
    if (!known) {
      const auto* const absent = find_familiar(section.name);
      const bool none = absent && absent->key.empty();
      const std::string near =
          none ? std::string() : nearest_name(section.name, names_of(deck_sections()));
      report(section.place,
             fmt::format("there is no section [{}]{}", section.name,
                         none           ? "; " + hint_of(*absent)
                         : near.empty() ? fmt::format("; sections: {}",
                                                      fmt::join(names_of(deck_sections()), ", "))
                                        : fmt::format("; did you mean [{}]?", near)));
      for (const auto& entry : section.entries)
        if (const auto* familiar = find_familiar(entry.key)) report(entry.place, hinted(*familiar));
      // What a misspelt section would have set is unknown, so rules about it are not checked.
      if (const DeckSection* meant = find_section(near)) {
        for (const auto& key : meant->keys) failed_.insert(key.path());
      }
      return nullptr;
    }
    if (known->repeated != section.repeated) {
      report(section.place,
             fmt::format("section {0} is written {1}", known->name, known->header()));
      return nullptr;
    }
    return known;
  }

  void entries(const DeckSection& section, const RawSection& raw) {
    const std::size_t row = section.repeated ? rows_[section.name]++ : 0;
    if (section.name == "freeze") deck_.freeze.resize(row + 1);
    for (const auto& entry : raw.entries) {
      if (const DeckKey* key = find_key(section, entry.key)) {
        assign(*key, row, entry.value, at(entry.value.place));
        continue;
      }
      const std::string path = section.name + "." + entry.key;
      if (const auto* former = find_former(path)) {
        const auto set = was_set(*former, entry.value);
        if (!set)
          report(entry.place, fmt::format("{} {}", path, former->says));
        else if (*set)
          log_warning("{}: {} {}", at(entry.place), path, former->says);
        continue;
      }
      const std::string near = nearest_name(entry.key, names_of(section.keys));
      const std::string homes = homes_of(entry.key);
      std::string hint;
      if (!homes.empty()) {
        hint = fmt::format("; it belongs to {}", homes);
      } else if (const auto* familiar = find_familiar(entry.key)) {
        hint = "; " + hinted(*familiar);
      } else if (!near.empty()) {
        hint = fmt::format("; did you mean '{}'?", near);
        failed_.insert(section.name + "." + near);
      } else {
        hint = fmt::format("; keys: {}", fmt::join(names_of(section.keys), ", "));
      }
      report(entry.place,
             fmt::format("there is no key '{}' in {}{}", entry.key, section.header(), hint));
    }
  }

  void assign(const DeckKey& key, std::size_t row, const RawValue& raw, const std::string& where) {
    const std::string id = row == 0 ? key.path() : fmt::format("{}#{}", key.path(), row);
    try {
      given_.insert_or_assign(id, Given{&key, row, accepted(key, raw), where, raw.place});
    } catch (const BadValue& e) {
      failed_.insert(key.path());
      report(e.place.line > 0 ? at(e.place) : where, e.message, e.place);
    }
  }

  void forget_from_file(const std::string& path) {
    const auto it = given_.find(path);
    if (it != given_.end() && it->second.place.line > 0) given_.erase(it);
  }

  // A preset first, then the deck's keys, then what follows from both.
  void fill() {
    const auto preset = given_.find("model.preset");
    if (preset != given_.end()) {
      try {
        const auto& name = std::get<std::string>(preset->second.value);
        require(presets_ == Presets::of_checkpoints_too || !name.starts_with(checkpoint_preset),
                "the deck of a checkpoint does not refer to another one: no program wrote this");
        deck_.model = preset_named(name);
      } catch (const Error& e) {
        failed_.insert("model.preset");
        report(&preset->second, fmt::format("model.preset: {}", e.what()));
      }
    }
    for (const auto& [id, given] : given_) given.key->access.set(deck_, given.row, given.value);
    if (deck_.model.preset.starts_with(checkpoint_preset)) deck_.model.preset.clear();
    deck_.model = resolved(deck_.model);
    const auto reduce = given_.find("precision.reduce");
    if (reduce == given_.end() || std::holds_alternative<Automatic>(reduce->second.value)) {
      deck_.precision.reduce = wide(deck_.precision.compute);
    }
    decide_microbatch(deck_);
  }

  // The first of a rule's keys that the deck gives.
  const Given* place_of(const DeckProblem& problem) const {
    for (const auto& key : problem.keys) {
      if (const auto it = given_.find(key); it != given_.end()) return &it->second;
    }
    return nullptr;
  }

  std::string everything_wrong() {
    const auto line = [](const Report& r) { return r.place.line == 0 ? INT32_MAX : r.place.line; };
    std::stable_sort(problems_.begin(), problems_.end(),
                     [&](const Report& a, const Report& b) { return line(a) < line(b); });
    std::string text;
    for (const auto& p : problems_) text += (text.empty() ? "" : "\n") + p.text;
    return text;
  }

  std::string source_;
  Presets presets_;
  Deck deck_;
  std::map<std::string, Given> given_;  // by "section.key", later rows with "#row"
  std::map<std::string, std::size_t> rows_;
  std::set<std::string> failed_;
  std::vector<Report> problems_;
};

}  // namespace

Deck parse_deck(std::string_view text, std::string source_name,
                std::span<const std::string> overrides) {
  Loader loader(std::move(source_name));
  loader.read(text);
  for (const auto& argument : overrides) loader.override_with(argument);
  return loader.finish();
}

Deck parse_dumped_deck(std::string_view text, std::string source_name) {
  Loader loader(std::move(source_name), Presets::of_this_program);
  loader.read(text);
  return loader.finish();
}

Deck load_deck(const std::filesystem::path& path, std::span<const std::string> overrides) {
  // A deck is a page or two; anything this long is not one.
  constexpr std::size_t most = 1 << 20;
  std::error_code unknown;
  require(!std::filesystem::is_directory(path, unknown), "{} is a directory, not a deck",
          path.string());
  // Opening a pipe would block until it has a writer.
  require(
      !std::filesystem::exists(path, unknown) || std::filesystem::is_regular_file(path, unknown),
      "{} is not a regular file: write the deck to one, whose name also names the run",
      path.string());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "cannot open the deck {}: {}; `trireme deck` prints one to start from",
          path.string(), std::strerror(errno));
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  require(!file.bad(), "cannot read the deck {}: {}", path.string(), std::strerror(errno));
  require(text.size() <= most, "{} is longer than 1 MiB, which no deck is", path.string());
  return parse_deck(text, path.string(), overrides);
}

}  // namespace trireme
