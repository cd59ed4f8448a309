#pragma once
// JSON as Python's json.dumps writes it, which is what chat templates make of calls of tools.
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Names of members and numbers of elements, from the outermost.
using JsonPlace = std::vector<std::string>;

// Of a text that parse_json takes: the values at the places that are asked for, each written as
// json.dumps(value, ensure_ascii=False) does, members in their order.
std::map<JsonPlace, std::string> python_json(std::string_view text,
                                             const std::function<bool(const JsonPlace&)>& asked);

// json.dumps(text, ensure_ascii=False).
std::string python_json_text(std::string_view text);
// What json.dumps(.., indent=spaces) makes of a value that python_json wrote.
std::string indented_json(std::string_view json, std::size_t spaces);

}  // namespace trireme
