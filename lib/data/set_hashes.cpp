#include "lib/data/set_hashes.hpp"

#include <fmt/format.h>

#include "lib/base/hash.hpp"
#include "lib/base/json.hpp"
#include "lib/data/same_files.hpp"

namespace trireme {

std::string hashes_of_sets(std::span<const ValidationData> sets) {
  auto hashes = Json::object();
  for (const auto& set : sets) {
    std::string tokens;
    for (const auto& [file, begin, end] : set.data.ranges())
      tokens += fmt::format("{}{} to {}\n", identity_lines(file), begin, end);
    hashes[set.name] = to_string(hash128(tokens));
  }
  return hashes.dump();
}

static Json sets_in(const std::string& text) {
  return parse_object(text, "validation_sets of the checkpoint");
}

std::vector<std::string> changed_sets(const std::string& before, const std::string& now) {
  const auto then = sets_in(before), here = sets_in(now);
  std::vector<std::string> names;
  for (const auto& [name, hash] : here.items())
    if (then.contains(name) && then.at(name) != hash) names.push_back(name);
  return names;
}

std::string with_former_sets(const std::string& now, const std::string& before) {
  if (before.empty()) return now;
  auto all = sets_in(before);
  all.update(sets_in(now));
  return all.dump();
}

}  // namespace trireme
