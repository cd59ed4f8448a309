#pragma once
// Reads a TOML file by a table of its keys. All that is wrong is collected, each with its place.
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

class TableReader {
 public:
  // `what`: "a deck", for messages. The table outlives the reader.
  TableReader(const std::vector<KeySection>& table, std::string what, std::string source);
  virtual ~TableReader() = default;

  // Throws Error for text that is no TOML; every other problem waits for throw_problems.
  void read(std::string_view text);

 protected:
  struct Given {
    Key key;
    std::size_t row;
    KeyValue value;
    std::string where;
    SourceLocation place;
  };

  void assign(const Key&, std::size_t row, const RawValue&, const std::string& where);
  const Given* given(const std::string& id) const;  // "section.key", of later rows with "#row"
  void forget(const std::string& id) { given_.erase(id); }
  // A key that probably has a value, though none that could be taken: rules of it are not checked.
  void doubt(std::string_view path) { failed_.emplace(path); }
  bool doubts(const std::string& path) const { return failed_.contains(path); }
  // All entries of repeated sections, then all values that are given.
  void fill(AnyStruct<void>) const;

  std::string at(SourceLocation) const;
  void report(const std::string& where, const std::string& message, SourceLocation = {});
  void report(SourceLocation, const std::string& message);
  void report(const Given*, const std::string& message);  // of the whole file where it is null
  bool sound() const { return problems_.empty(); }
  void throw_problems();

  // What a file of this kind has beside its table. A section that is reported, or taken otherwise,
  // is null.
  virtual const KeySection* section_of(const RawSection&);
  virtual std::string hint_of_section(const RawSection&);
  virtual std::string home_of(const RawEntry&);
  // None: the entry is taken otherwise, or reported.
  virtual std::optional<std::string> hint_of_key(const KeySection&, const RawEntry&);
  virtual void section_ends(const KeySection&, const RawSection&) {}

 private:
  struct Problem {
    SourceLocation place;  // line 0: after all that have one
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
