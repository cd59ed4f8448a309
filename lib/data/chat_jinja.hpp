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
// tokenizer_config.json. Throws Error when it brings none, or one that is not known; then it says
// what it looks like.
ChatTemplate chat_template_of(const Tokenizer&);

// The name of the template whose Jinja text this is to the letter, as a model's repository has it
// or jinja_text writes it; empty: of none.
std::string known_jinja(std::string_view text);
// The name of one that writes the tokens and texts that this one mentions; empty: none.
std::string_view similar_jinja(std::string_view text);

}  // namespace trireme
