#include "app/json_lines.hpp"

#include <sstream>

#include "lib/base/error.hpp"

namespace trireme {

std::vector<FileLine> lines_of(std::string_view file, const std::string& text) {
  std::vector<FileLine> all;
  std::istringstream in(text);
  std::string line;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) all.push_back({line, fmt::format("{}:{}", file, number)});
  }
  return all;
}

nlohmann::json object_in(const FileLine& line, std::string_view form) {
  auto object = nlohmann::json::parse(line.text, nullptr, false);
  require(object.is_object(), "{} is no JSON object: each line is {}", line.where, form);
  return object;
}

}  // namespace trireme
