#pragma once
// Reads files with one item per line, such as prompts or questions.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"

namespace trireme {

// A line of a file, and its location.
struct FileLine {
  std::string text;
  std::string where;  // "FILE:LINE", for messages
};

// Returns the non-empty lines of `text`, without line ends. `file` is the file's name.
std::vector<FileLine> lines_of(std::string_view file, const std::string& text);

// Parses a line that contains a JSON object. Throws Error, with the reason and the required `form`
// of a line, if the line is invalid.
Json object_in(const FileLine&, std::string_view form);

}  // namespace trireme
