#pragma once
// Files with an item a line: prompts, questions.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"

namespace trireme {

struct FileLine {
  std::string text;
  std::string where;  // "FILE:LINE", for messages
};

// Those that are not empty, without their ends.
std::vector<FileLine> lines_of(std::string_view file, const std::string& text);

// The object that a line is. Error that says what is wrong and what each line is to be, as `form`.
Json object_in(const FileLine&, std::string_view form);

}  // namespace trireme
