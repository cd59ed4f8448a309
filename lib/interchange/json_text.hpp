#pragma once
// JSON of other programs.
#include <filesystem>
#include <string_view>

#include "lib/io/json_fields.hpp"

namespace trireme {

// The object that a text is. Error naming `where` when it is none: wrong syntax, a name given
// twice, nested beyond any file of a model.
Json parse_object(std::string_view text, std::string_view where);
// The same of a file.
Json read_object(const std::filesystem::path&);
// The object without the values of its members but for those of `member`: a tokenizer's
// vocabulary takes many times its text's memory.
Json parse_member(std::string_view text, std::string_view member, std::string_view where);

// As Hugging Face's programs write it: two spaces a level, a line end at the end.
std::string to_lines(const Json&);

}  // namespace trireme
