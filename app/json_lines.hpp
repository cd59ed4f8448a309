#pragma once
// Reads files with one item per line, such as prompts or questions.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"

namespace trireme {

// A line of a file, and where it is.
struct FileLine {
  std::string text;
  std::string where;  // "FILE:LINE", for messages
};

// Returns the lines of `text` that are not empty, without line ends. `file` is its name.
std::vector<FileLine> lines_of(std::string_view file, const std::string& text);

// Parses a line that contains a JSON object. Throws Error, saying what is wrong and that each line
// must have the given `form`.
Json object_in(const FileLine&, std::string_view form);

}  // namespace trireme
