#pragma once
// A chat template in TOML, as docs/finetune.md describes it.
#include <cstddef>
#include <string>
#include <string_view>

#include "lib/data/chat_template.hpp"

namespace trireme {

// Time is linear in the text for each token that it names, so both are bounded.
inline constexpr std::size_t longest_chat_template = std::size_t{1} << 18;
inline constexpr std::size_t most_chat_tokens = 1024;

// Throws Error "file:line:column: ..." for what is no TOML, unknown, missing or of another type.
// The template has the file's name.
ChatTemplate read_chat_template(const std::string& file);
// The same of a file's text, of which `source` is the name.
ChatTemplate parse_chat_template(std::string_view text, const std::string& source);

// The file of a template, with all keys and what they mean: read back it is the same but for its
// name.
std::string chat_template_text(const ChatTemplate&);

}  // namespace trireme
