// Conversion of text and overrides to a Deck. All problems of a deck are collected and thrown
// together.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/nearest.hpp"
#include "lib/deck/check.hpp"
#include "lib/deck/familiar.hpp"
#include "lib/deck/microbatch.hpp"
#include "lib/deck/own_names.hpp"
#include "lib/deck/preset.hpp"
#include "lib/deck/removed_keys.hpp"
#include "lib/deck/table.hpp"
#include "lib/keys/table_reader.hpp"

namespace trireme {
namespace {

// Returns the sections that have a key of this name, as "[a] or [b]".
std::string homes_of(std::string_view key) {
  std::string homes;
  for (const auto& section : deck_sections()) {
    if (!find_key(section, key)) continue;
    homes += (homes.empty() ? "" : " or ") + section.header();
  }
  return homes;
}

// A deck in a checkpoint names no other checkpoint, and obeys only the rules of its time.
enum class Origin : std::uint8_t { user, checkpoint };

class Loader final : public TableReader {
 public:
  explicit Loader(const std::string& source, Origin origin = Origin::user)
      : TableReader(deck_sections(), "a deck", source), origin_(origin) {
    deck_.name = std::filesystem::path(source).stem().string();
    deck_.model.max_context = 0;
  }

  // Continues with a deck, whose values apply unless overrides replace them.
  explicit Loader(Deck deck) : TableReader(deck_sections(), "a deck", deck.name) {
    deck_ = std::move(deck);
    if (deck_.model.max_context == deck_.data.context) deck_.model.max_context = 0;
    continues_ = true;
  }

  void override_with(const std::string& argument) {
    const std::string where = fmt::format("override '{}'", argument);
    const auto equals = argument.find('=');
    const std::string path = overridden_key(argument);
    const Key* key = find_key(path);
    if (const auto* removed = find_removed(path)) {
      report(where, fmt::format("{} {}", path, removed->says));
      return;
    }
    if (const auto* familiar = key ? nullptr : find_familiar(path)) {
      report(where, fmt::format("'{}' is not a key: {}", path, hinted(*familiar)));
      return;
    }
    if (!key || equals == std::string::npos) {
      const std::string near = key ? path : nearest_path(path);
      const bool of_that_form = path.find('.') != std::string::npos && equals != std::string::npos;
      report(where,
             fmt::format("{}{}{}", key ? "it has no '='" : fmt::format("unknown key '{}'", path),
                         of_that_form ? "" : "; write section.key=value",
                         !near.empty()  ? fmt::format(" (nearest key: {})", near)
                         : of_that_form ? "; `trireme deck` lists all keys"
                                        : ""));
      doubt(near);
      return;
    }
    if (find_section(key->section)->repeated) {
      report(where,
             fmt::format("[[{0}]] rules cannot be set on the command line; change them in the deck",
                         key->section));
      return;
    }
    assign(*key, 0, raw_from_text(*key, argument.substr(equals + 1)), where);
    // The length of the run has several keys. An override of one replaces the others in the deck.
    constexpr std::array<std::string_view, 3> lengths{"train.steps", "train.tokens",
                                                      "train.epochs"};
    if (std::ranges::find(lengths, path) != lengths.end())
      for (const auto other : lengths)
        if (other != path) forget_from_file(std::string(other));
  }

  // Returns the model of a text that has only the sections of a model.
  ModelDescription finish_model() {
    deck_ = deck_without_run({.model = {}, .context = 1}, DType::f32, deck_.name);
    deck_.model.max_context = 0;
    return description_of(finish());
  }

  Deck finish() {
    fill_deck();
    use_own_names(deck_);
    if (!knows_model_) remove_patterns();
    for (const auto& problem : check_deck(deck_))
      if (std::ranges::none_of(problem.keys, [&](const auto& key) { return doubts(key); }))
        report(first_given(problem), problem.message);
    throw_problems();
    return std::move(deck_);
  }

 private:
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

  std::string hinted(const FamiliarName& familiar) {
    doubt(familiar.key);
    return hint_of(familiar);
  }

  // Returns true if a removed key was given a value that had an effect. Returns nothing if the key
  // never had values of this type.
  static std::optional<bool> was_set(const RemovedKey& removed, const RawValue& raw) {
    const auto compared = [&](auto unset) -> std::optional<bool> {
      const auto* given = std::get_if<decltype(unset)>(&raw.data);
      return given ? std::optional(*given != unset) : std::nullopt;
    };
    return std::visit(compared, removed.unset);
  }

  std::string home_of(const RawEntry& entry) override {
    if (const auto homes = homes_of(entry.key); !homes.empty()) return "it belongs to " + homes;
    if (const auto* familiar = find_familiar(entry.key)) return hinted(*familiar);
    return TableReader::home_of(entry);
  }

  std::string hint_of_section(const RawSection& section) override {
    for (const auto& entry : section.entries)
      if (const auto* familiar = find_familiar(entry.key)) report(entry.place, hinted(*familiar));
    const auto* const familiar = find_familiar(section.name);
    if (!familiar) return TableReader::hint_of_section(section);
    doubt(familiar->key);
    return "; " + hint_of(*familiar);
  }

  std::optional<std::string> hint_of_key(const KeySection& section,
                                         const RawEntry& entry) override {
    const std::string path = section.name + "." + entry.key;
    if (const auto* removed = find_removed(path)) {
      const auto set = was_set(*removed, entry.value);
      if (!set)
        report(entry.place, fmt::format("{} {}", path, removed->says));
      else if (*set)
        log_warning("{}: {} {}", at(entry.place), path, removed->says);
      return {};
    }
    if (const auto homes = homes_of(entry.key); !homes.empty()) return "; it belongs to " + homes;
    if (const auto* familiar = find_familiar(entry.key)) return "; " + hinted(*familiar);
    return TableReader::hint_of_key(section, entry);
  }

  void forget_from_file(const std::string& path) {
    if (const auto* there = given(path); there && there->place.line > 0) forget(path);
  }

  // Replaces the model by a preset's. The number of positions follows the deck's context, except
  // that a checkpoint's model keeps its own.
  void start_from(ModelDescription preset) {
    deck_.model = std::move(preset.model);
    deck_.data.context = preset.context;
  }

  // Applies the preset, then the deck's keys, and then the values that follow from both.
  void fill_deck() {
    if (const auto* preset = given("model.preset")) {
      try {
        const auto& name = std::get<std::string>(preset->value);
        require(origin_ == Origin::user || !name.starts_with(checkpoint_preset),
                "a deck saved in a checkpoint cannot refer to another checkpoint: it was changed "
                "after it was saved");
        start_from(preset_named(name));
      } catch (const Error& e) {
        // Without a known model, no rule about the model can be checked.
        for (const auto& key : find_section("model")->keys) doubt(key.path());
        knows_model_ = false;
        report(preset, fmt::format("model.preset: {}", e.what()));
      }
    }
    fill(deck_);
    if (deck_.preset.starts_with(checkpoint_preset)) deck_.preset.clear();
    if (origin_ == Origin::checkpoint || !gives_number("model.max_context"))
      deck_.model.max_context = std::max(deck_.model.max_context, deck_.data.context);
    deck_.model = completed(deck_.model);
    const auto* const reduce = given("precision.reduce");
    if (reduce ? std::holds_alternative<Automatic>(reduce->value) : !continues_)
      deck_.precision.reduce = wide(deck_.precision.compute);
    decide_microbatch(deck_);
  }

  // Removes all patterns of parameter names, because they cannot be checked without the model.
  void remove_patterns() {
    deck_.adapter.patterns = AdapterConfig{}.patterns;
    deck_.adapter.also_train.clear();
    deck_.adapter.ranks.clear();
    deck_.optimizer.no_decay.clear();
    deck_.optimizer.adamw_patterns.clear();
    deck_.precision.fp8_except.clear();
    deck_.freeze.clear();
  }

  bool gives_number(const std::string& path) const {
    const auto* const there = given(path);
    return there && !std::holds_alternative<Automatic>(there->value);
  }

  // Returns the first of a rule's keys that an override gives, otherwise the first that the deck
  // gives, or null.
  const Given* first_given(const DeckProblem& problem) const {
    const Given* first = nullptr;
    for (const auto& key : problem.keys) {
      const auto* const there = given(key);
      if (there && there->place.line == 0) return there;
      if (!first) first = there;
    }
    return first;
  }

  Origin origin_ = Origin::user;
  bool continues_ = false, knows_model_ = true;
  Deck deck_;
};

}  // namespace

Deck parse_deck(std::string_view text, std::string source_name,
                std::span<const std::string> overrides) {
  Loader loader(source_name);
  loader.read(text);
  for (const auto& argument : overrides) loader.override_with(argument);
  return loader.finish();
}

Deck parse_dumped_deck(std::string_view text, std::string source_name) {
  Loader loader(source_name, Origin::checkpoint);
  loader.read(text);
  return loader.finish();
}

std::string overridden_key(const std::string& override_text) {
  const auto path = override_text.substr(0, override_text.find('='));
  const auto first = path.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return path.substr(first, path.find_last_not_of(" \t") - first + 1);
}

Deck with_overrides(Deck deck, std::span<const std::string> overrides) {
  Loader loader(std::move(deck));
  for (const auto& argument : overrides) loader.override_with(argument);
  return loader.finish();
}

Deck deck_without_run(const ModelDescription& d, DType compute, std::string name) {
  Deck deck;
  deck.name = std::move(name);
  deck.model = d.model;
  deck.adapter = d.adapter;
  deck.data.context = d.context;
  deck.init_from = d.init_from;
  deck.data.path = {"name-token-files-in-your-own-deck"};
  deck.train.steps = 1;
  deck.train.batch = deck.train.microbatch = 1;
  deck.schedule.warmup_steps = 0;
  deck.schedule.min_lr = 0;
  if (compute == DType::f64) {
    deck.precision.compute = deck.precision.reduce = DType::f64;
    deck.run.backend = "ref";
  }
  return deck;
}

ModelDescription parse_model(std::string_view text, std::string source_name) {
  Loader loader(source_name, Origin::checkpoint);
  loader.read(text);
  return loader.finish_model();
}

Deck load_deck(const std::filesystem::path& path, std::span<const std::string> overrides) {
  // A deck is a page or two, so a file of this size is not a deck.
  constexpr std::size_t most = 1 << 20;
  std::error_code unknown;
  require(!std::filesystem::is_directory(path, unknown), "{} is a directory, not a deck",
          path.string());
  // Opening a pipe would block until it has a writer.
  require(
      !std::filesystem::exists(path, unknown) || std::filesystem::is_regular_file(path, unknown),
      "{} is not a regular file: write the deck to a file, whose name becomes the name of the run",
      path.string());
  require(path.extension() != ".yaml" && path.extension() != ".yml" && path.extension() != ".json",
          "{} is not a deck: decks are TOML files. `trireme deck` prints one to start from",
          path.string());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "cannot open the deck {}: {}; `trireme deck` prints one to start from",
          path.string(), std::strerror(errno));
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  require(!file.bad(), "cannot read the deck {}: {}", path.string(), std::strerror(errno));
  require(text.size() <= most, "{} is not a deck: it is longer than 1 MiB", path.string());
  return parse_deck(text, path.string(), overrides);
}

}  // namespace trireme
