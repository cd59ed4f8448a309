#include "app/json_lines.hpp"

#include <sstream>

#include "lib/base/error.hpp"
#include "lib/base/utf8_bytes.hpp"

namespace trireme {

std::vector<FileLine> lines_of(std::string_view file, const std::string& text) {
  std::vector<FileLine> all;
  std::istringstream in(text);
  std::string line;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    if (number == 1 && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) all.push_back({line, fmt::format("{}:{}", file, number)});
  }
  return all;
}

Json object_in(const FileLine& line, std::string_view form) {
  try {
    auto object = parse_json(line.text);
    require(object.is_object(), "its type is {}", object.type_name());
    return object;
  } catch (const Error& e) {
    fail("{} is not a JSON object ({}). Each line must look like {}", line.where, e.what(), form);
  }
}

}  // namespace trireme
