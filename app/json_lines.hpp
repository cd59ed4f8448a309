#pragma once
// Reads text files with one item per line, such as prompts or questions.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"

namespace trireme {

// A line of a file, and the location of this line.
struct FileLine {
  std::string text;
  std::string where;  // "FILE:LINE", for messages
};

// Returns the non-empty lines of `text`, without line ends. `file` is the name of the file that
// contains `text`, and becomes part of FileLine::where.
std::vector<FileLine> lines_of(std::string_view file, const std::string& text);

// Parses a line that contains a JSON object. `form` describes a valid line, for error messages.
// Throws Error, with the reason and `form`, if the line is invalid.
Json object_in(const FileLine&, std::string_view form);

}  // namespace trireme
