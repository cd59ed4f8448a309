#include "lib/keys/table_reader.hpp"

#include <algorithm>
#include <climits>

#include "lib/base/nearest.hpp"

namespace trireme {

template <class T>
static std::vector<std::string> names_of(const std::vector<T>& declared) {
  std::vector<std::string> names;
  for (const auto& d : declared) names.push_back(d.name);
  return names;
}

TableReader::TableReader(const std::vector<KeySection>& table, std::string what, std::string source)
    : table_(table), what_(std::move(what)), source_(std::move(source)) {}

void TableReader::read(std::string_view text) {
  for (const auto& raw : read_toml(text, source_)) {
    const auto* section = section_of(raw);
    if (!section) continue;
    const std::size_t row = section->repeated ? rows_[section->name]++ : 0;
    for (const auto& entry : raw.entries) {
      if (const Key* key = find_key(*section, entry.key))
        assign(*key, row, entry.value, at(entry.value.place));
      else if (const auto hint = hint_of_key(*section, entry))
        report(entry.place, fmt::format("there is no key '{}' in {}{}", entry.key,
                                        section->name.empty() ? what_ : section->header(), *hint));
    }
    section_ends(*section, raw);
  }
}

const KeySection* TableReader::section_of(const RawSection& raw) {
  if (raw.name.empty()) {
    for (const auto& entry : raw.entries) homeless(entry);
    return nullptr;
  }
  const KeySection* known = find_section(table_, raw.name);
  if (known && known->repeated == raw.repeated) return known;
  report(raw.place,
         known ? fmt::format("section {} must be written {}", known->name, known->header())
               : fmt::format("there is no section [{}]{}", raw.name, hint_of_section(raw)));
  return nullptr;
}

std::string TableReader::hint_of_section(const RawSection& raw) {
  auto near = nearest_name(raw.name, names_of(table_));
  for (const auto& section : table_)
    if (std::ranges::find(section.other_names, raw.name) != section.other_names.end())
      near = section.name;
  if (near.empty()) return fmt::format("; sections: {}", fmt::join(names_of(table_), ", "));
  // What the misspelt section would have set is unknown, so rules about its keys are not checked.
  const auto& section = *find_section(table_, near);
  for (const auto& key : section.keys) doubt(key.path());
  return fmt::format("; did you mean {}?", section.header());
}

void TableReader::homeless(const RawEntry& entry) {
  if (const auto* section = find_section(table_, entry.key))
    report(entry.place, fmt::format("{} is a section; write {} above its keys", section->name,
                                    section->header()));
  else
    report(entry.place,
           fmt::format("key '{}' is not in any section; {}", entry.key, home_of(entry)));
}

std::string TableReader::home_of(const RawEntry&) {
  return fmt::format("{} starts with a section, such as {}", what_, table_.front().header());
}

std::optional<std::string> TableReader::hint_of_key(const KeySection& section,
                                                    const RawEntry& entry) {
  const auto near = nearest_name(entry.key, names_of(section.keys));
  if (near.empty()) return fmt::format("; keys: {}", fmt::join(names_of(section.keys), ", "));
  doubt(section.name + "." + near);
  return fmt::format("; did you mean '{}'?", near);
}

void TableReader::assign(const Key& key, std::size_t row, const RawValue& raw,
                         const std::string& where) {
  try {
    given_.insert_or_assign(key_in_row(key.path(), row),
                            Given{key, row, accepted(key, raw), where, raw.place});
  } catch (const BadValue& e) {
    doubt(key.path());
    report(e.place.line > 0 ? at(e.place) : where, e.message, e.place);
  }
}

const TableReader::Given* TableReader::given(const std::string& id) const {
  const auto it = given_.find(id);
  return it == given_.end() ? nullptr : &it->second;
}

void TableReader::fill(AnyStruct<void> all) const {
  for (const auto& [name, rows] : rows_)
    for (std::size_t i = 0; i < rows; ++i) find_section(table_, name)->append(all);
  for (const auto& [id, given] : given_) given.key.access.set(all, given.row, given.value);
}

std::string TableReader::at(SourceLocation place) const {
  return place.line == 0 ? source_ : fmt::format("{}:{}:{}", source_, place.line, place.column);
}

void TableReader::report(const std::string& where, const std::string& message,
                         SourceLocation place) {
  problems_.push_back({place, where + ": " + message});
}

void TableReader::report(SourceLocation place, const std::string& message) {
  report(at(place), message, place);
}

void TableReader::report(const Given* given, const std::string& message) {
  if (given)
    report(given->where, message, given->place);
  else
    report(source_, message);
}

void TableReader::throw_problems() {
  if (sound()) return;
  const auto line = [](const Problem& p) { return p.place.line == 0 ? INT_MAX : p.place.line; };
  std::ranges::stable_sort(problems_, {}, line);
  std::string text;
  for (const auto& p : problems_) text += (text.empty() ? "" : "\n") + p.text;
  throw_error(text);
}

}  // namespace trireme
