#include "lib/deck/table.hpp"

#include "lib/deck/sections.hpp"

namespace trireme {
namespace {

std::vector<DeckSection> all_sections() {
  std::vector<DeckSection> all = {model_section(),     data_section(),       train_section(),
                                  optimizer_section(), schedule_section(),   precision_section(),
                                  parallel_section(),  zero_section(),       freeze_section(),
                                  evaluate_section(),  checkpoint_section(), run_section()};
  for (auto& section : all) {
    for (auto& key : section.keys) key.section = section.name;
  }
  return all;
}

}  // namespace

const std::vector<DeckSection>& deck_sections() {
  static const std::vector<DeckSection> sections = all_sections();
  return sections;
}

const DeckSection* find_section(std::string_view name) {
  for (const auto& section : deck_sections()) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const DeckKey* find_key(const DeckSection& section, std::string_view name) {
  for (const auto& key : section.keys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

const DeckKey* find_key(std::string_view path) {
  const auto dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const DeckSection* section = find_section(path.substr(0, dot));
  return section ? find_key(*section, path.substr(dot + 1)) : nullptr;
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
