#pragma once
// Reads a TOML file according to a table of its keys. All problems are collected and reported
// together, each with its location in the file.
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/keys/key.hpp"
#include "lib/keys/toml_reader.hpp"

namespace trireme {

// Base class of the readers for decks and machine files.
class TableReader {
 public:
  // `what` describes the kind of file in messages, for example "a deck". `source` is the file's
  // name. The table must outlive the reader.
  TableReader(const std::vector<KeySection>& table, std::string what, std::string source);
  virtual ~TableReader() = default;

  // Reads the file. Throws Error if the text is not TOML. All other problems are collected until
  // throw_problems().
  void read(std::string_view text);

 protected:
  // A value that the file contains for a key.
  struct Given {
    Key key;
    std::size_t row;
    KeyValue value;
    std::string where;
    SourceLocation place;
  };

  // Checks a value and stores it for the key. If the value is not accepted, records the problem
  // instead.
  void assign(const Key&, std::size_t row, const RawValue&, const std::string& where);
  // Returns the value in the file for a key, or nullptr. `id` is the result of key_in_row().
  const Given* given(const std::string& id) const;
  void forget(const std::string& id) { given_.erase(id); }
  // Marks a key whose value was probably given but could not be read. Rules about this key are then
  // not checked.
  void doubt(std::string_view path) { failed_.emplace(path); }
  bool doubts(const std::string& path) const { return failed_.contains(path); }
  // Writes all values to a struct: first appends all entries of repeated sections, then sets the
  // values.
  void fill(AnyStruct<void>) const;

  std::string at(SourceLocation) const;
  void report(const std::string& where, const std::string& message, SourceLocation = {});
  void report(SourceLocation, const std::string& message);
  // Collects a problem of a value. If the pointer is null, the problem concerns the whole file.
  void report(const Given*, const std::string& message);
  bool sound() const { return problems_.empty(); }
  void throw_problems();

  // Functions that derived classes override for content that the table does not describe.
  // section_of() returns the declaration of a section, or null if the section was reported or
  // handled otherwise.
  virtual const KeySection* section_of(const RawSection&);
  // Returns the end of the message about an unknown section.
  virtual std::string hint_of_section(const RawSection&);
  // Returns the end of the message about a key outside all sections.
  virtual std::string home_of(const RawEntry&);
  // Returns the end of the message about an unknown key, or nullopt if the key was reported or
  // handled otherwise.
  virtual std::optional<std::string> hint_of_key(const KeySection&, const RawEntry&);
  // Called after the last key of a section.
  virtual void section_ends(const KeySection&, const RawSection&) {}

 private:
  struct Problem {
    SourceLocation place;  // line 0 sorts after all problems with a place
    std::string text;
  };
  void homeless(const RawEntry&);

  const std::vector<KeySection>& table_;
  std::string what_, source_;
  std::map<std::string, Given> given_;
  std::map<std::string, std::size_t> rows_;
  std::set<std::string> failed_;
  std::vector<Problem> problems_;
};

}  // namespace trireme
