#pragma once
// Files that are no text: archives, arrays, token files of other programs.
#include <string>
#include <string_view>

namespace trireme {

// Throws Error when `beginning`, the first bytes of the file `name`, is not the beginning of a
// text: it says what the file is and what to do. Known from magic numbers, bytes that are zero,
// and the bytes that are no UTF-8; of tables and JSON, from the name and the first characters.
void require_text(std::string_view beginning, const std::string& name);

// Throws Error when a file of JSON lines begins as one array of all does.
void require_no_json_array(std::string_view beginning, const std::string& name);

}  // namespace trireme
