#pragma once
// Which chat template it is that a tokenizer brings along: that is a program in Jinja, which is not
// run here.
#include <optional>
#include <string>
#include <string_view>

#include "lib/data/chat_template.hpp"

namespace trireme {

// A tokenizer's own one, in chat_template.jinja or tokenizer_config.json; none: it brings none.
std::optional<std::string> own_jinja(const Tokenizer&);

// The template that a tokenizer's chat_template is, in chat_template.jinja or
// tokenizer_config.json: a known one, or what exported_jinja says. Throws Error when it brings
// none, or one that is not known; then it says what it looks like.
ChatTemplate chat_template_of(const Tokenizer&);

// jinja_text; of a template without a known name behind a comment that holds its file, so that
// chat_template_of finds it again.
std::string exported_jinja(const ChatTemplate&);

// The name of the template whose Jinja text this is to the letter, as a model's repository has it
// or jinja_text writes it; empty: of none.
std::string known_jinja(std::string_view text);
// The name of one that writes the tokens and texts that this one mentions; empty: none.
std::string_view similar_jinja(std::string_view text);

}  // namespace trireme
