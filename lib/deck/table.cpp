#include "lib/deck/table.hpp"

#include "lib/deck/familiar.hpp"
#include "lib/deck/sections.hpp"

namespace trireme {
const std::vector<KeySection>& deck_sections() {
  static const auto sections = [] {
    auto all = table_of({model_section(), adapter_section(), adapter_rank_section(), data_section(),
                         phase_section(), validation_section(), train_section(), distill_section(),
                         optimizer_section(), schedule_section(), precision_section(),
                         parallel_section(), zero_section(), freeze_section(), evaluate_section(),
                         checkpoint_section(), run_section()});
    for (auto& section : all)
      for (auto& key : section.keys) key.familiar = familiar_choice;
    return all;
  }();
  return sections;
}

const KeySection* find_section(std::string_view name) {
  return find_section(deck_sections(), name);
}

const Key* find_key(std::string_view path) {
  const auto dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const KeySection* section = find_section(path.substr(0, dot));
  return section ? find_key(*section, path.substr(dot + 1)) : nullptr;
}

std::string default_text(const Key& key) {
  static const Deck plain = [] {
    Deck d;
    d.freeze.resize(1);
    d.adapter.ranks.resize(1);
    d.data.phases.resize(1);
    d.data.sets.resize(1);
    return d;
  }();
  if (key.required || key.zero_is_unset) return {};
  // The getter of these keys cannot distinguish "auto" from a given value.
  if (key.kind == ValueKind::choice && !key.automatic.empty()) return to_toml(Automatic{});
  return to_toml(key.access.get(plain, 0));
}

const std::vector<std::string>& deck_key_paths() {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> all;
    for (const auto& section : deck_sections()) {
      for (const auto& key : section.keys) all.push_back(key.path());
    }
    return all;
  }();
  return paths;
}

}  // namespace trireme
