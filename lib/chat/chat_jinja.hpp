#pragma once
// Recognizes the chat template that a tokenizer contains. Such a template is a Jinja program.
// Trireme does not run Jinja, so the program is compared with the programs of known templates.
#include <optional>
#include <string>
#include <string_view>

#include "lib/chat/chat_template.hpp"

namespace trireme {

// Returns the tokenizer's Jinja chat template, from chat_template.jinja or tokenizer_config.json.
// Returns nullopt if the tokenizer has none.
std::optional<std::string> own_jinja(const Tokenizer&);

// Returns the chat template that corresponds to the tokenizer's Jinja template: a template known by
// name, or the one that exported_jinja embedded. Throws Error if the tokenizer has no template or
// an unknown one. If an unknown template resembles a known one, the error names the known template.
ChatTemplate chat_template_of(const Tokenizer&);

// Returns the Jinja program to store in an exported model: jinja_text(t). If the template is not
// known by name, the program begins with a Jinja comment that contains the template's file, so that
// chat_template_of() can restore the template.
std::string exported_jinja(const ChatTemplate&);

// Returns the name of the chat template whose Jinja program is exactly `text`, except for white
// space at both ends. Both the program in the model's repository and the output of jinja_text() are
// recognized. Returns an empty string if no template matches.
std::string known_jinja(std::string_view text);
// Returns the name of a known template whose characteristic tokens and texts all occur in `text`,
// or an empty string.
std::string_view similar_jinja(std::string_view text);

}  // namespace trireme
