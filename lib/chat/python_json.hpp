#pragma once
// Writes JSON exactly as Python's json.dumps does, because chat templates write tool calls in that
// form.
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Path of a value in a JSON text: member names and element indices, outermost first.
using JsonPlace = std::vector<std::string>;

// Parses `text` and returns the values at all paths for which `asked` returns true. Each value is
// written as by json.dumps(value, ensure_ascii=False), with members in their original order.
std::map<JsonPlace, std::string> python_json(std::string_view text,
                                             const std::function<bool(const JsonPlace&)>& asked);

// Returns json.dumps(text, ensure_ascii=False).
std::string python_json_text(std::string_view text);
// Reformats a value from python_json() as json.dumps(.., indent=spaces) would write it.
std::string indented_json(std::string_view json, std::size_t spaces);

}  // namespace trireme
