#include "lib/io/rescue_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string_view>

#include "lib/base/error.hpp"

namespace trireme {

std::string claims_text(std::span<const CopyClaim> claims) {
  std::string text;
  for (const auto& c : claims) text += fmt::format("{} {}\n", c.step, to_string(c.record));
  return text;
}

std::vector<CopyClaim> parse_claims(const std::string& text) {
  std::vector<CopyClaim> claims;
  std::istringstream in(text);
  std::int64_t step = 0;
  std::string hash;
  while (in >> step >> hash) {
    const auto record = parse_hash(hash);
    require(record.has_value(), "a process sent an invalid list of memory copies");
    claims.push_back({step, *record});
  }
  return claims;
}

std::vector<CopyCandidate> candidates_of(std::span<const std::vector<CopyClaim>> claims) {
  std::vector<CopyCandidate> all;
  for (std::size_t p = 0; p < claims.size(); ++p)
    for (const auto& copy : claims[p])
      if (std::ranges::find(all, copy, &CopyCandidate::copy) == all.end())
        all.push_back({copy, static_cast<int>(p)});
  std::ranges::stable_sort(all,
                           [](const auto& a, const auto& b) { return a.copy.step > b.copy.step; });
  return all;
}

std::vector<int> writers_of(std::span<const std::string> present,
                            std::span<const std::int64_t> bytes) {
  std::vector<std::int64_t> work(present.size(), 0);
  std::vector<int> writers;
  for (std::size_t file = 0; file < bytes.size(); ++file) {
    int writer = -1;
    for (std::size_t p = 0; p < present.size(); ++p) {
      const bool has = file < present[p].size() && present[p][file] == '1';
      if (has && (writer < 0 || work[p] < work[static_cast<std::size_t>(writer)]))
        writer = static_cast<int>(p);
    }
    writers.push_back(writer);
    if (writer >= 0) work[static_cast<std::size_t>(writer)] += bytes[file];
  }
  return writers;
}

}  // namespace trireme
