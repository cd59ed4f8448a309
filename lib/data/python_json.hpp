#pragma once
// JSON exactly as Python's json.dumps writes it, because chat templates write tool calls that way.
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The path of a value in a JSON text: member names and element indices, outermost first.
using JsonPlace = std::vector<std::string>;

// Parses `text` and returns the values at the paths for which `asked` returns true. Each value is
// written as json.dumps(value, ensure_ascii=False) does, with members in their original order.
std::map<JsonPlace, std::string> python_json(std::string_view text,
                                             const std::function<bool(const JsonPlace&)>& asked);

// Returns json.dumps(text, ensure_ascii=False).
std::string python_json_text(std::string_view text);
// Reformats a value that python_json wrote, as json.dumps(.., indent=spaces) does.
std::string indented_json(std::string_view json, std::size_t spaces);

}  // namespace trireme
