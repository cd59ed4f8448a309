#pragma once
// The chat template that a model was trained with, among its tokenizer's files.
#include <string_view>

#include "lib/interchange/tokenizer_files.hpp"

namespace trireme {

// Where the spec has a chat template, it becomes chat_template of tokenizer_config.json, in Jinja;
// the tokenizer's own stays where it is that template. What ends an answer is among the ids that
// end a text then. `where` names the checkpoint in messages. Error where the template is damaged.
void add_chat_template(TokenizerFiles&, const TokenizerSpec&, std::string_view where);

}  // namespace trireme
