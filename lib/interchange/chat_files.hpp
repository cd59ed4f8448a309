#pragma once
// Adds the chat template with which a model was trained to the files of its exported tokenizer.
#include <string_view>

#include "lib/interchange/tokenizer_files.hpp"

namespace trireme {

// If the spec contains a chat template, adds it to tokenizer_config.json as the Jinja program
// `chat_template`. If the tokenizer's own template is the same, it remains unchanged. Also adds the
// token that ends an answer to the end-of-text ids. `where` is the name of the checkpoint in
// messages. Throws Error if the template is damaged.
void add_chat_template(TokenizerFiles&, const TokenizerSpec&, std::string_view where);

}  // namespace trireme
