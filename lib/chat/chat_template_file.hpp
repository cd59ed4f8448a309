#pragma once
// Chat templates in TOML files. docs/conversations.md describes the format.
#include <cstddef>
#include <string>
#include <string_view>

#include "lib/chat/chat_template.hpp"

namespace trireme {

// Limits on a template's size in bytes and on its number of special and plain texts. The time to
// encode a conversation is proportional to the product of the two.
inline constexpr std::size_t longest_chat_template = std::size_t{1} << 18;
inline constexpr std::size_t most_chat_tokens = 1024;

// Reads a chat template. The template's name is the file name. Throws Error "file:line:column: ..."
// if the file is not valid TOML, or if a key is unknown, missing or of the wrong type.
ChatTemplate read_chat_template(const std::string& file);
// Parses the text of a chat template file. `source` is its name.
ChatTemplate parse_chat_template(std::string_view text, const std::string& source);

// Returns the text of a file that describes the template. Comments explain the keys. Rarely used
// keys are omitted if they have their default values. Parsing the text returns an equal template,
// except for its name.
std::string chat_template_text(const ChatTemplate&);

}  // namespace trireme
