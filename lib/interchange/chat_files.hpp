#pragma once
// Exports the chat template with which a model was trained, among the files of its tokenizer.
#include <string_view>

#include "lib/interchange/tokenizer_files.hpp"

namespace trireme {

// Adds the spec's chat template, if there is one, to tokenizer_config.json as the Jinja program
// `chat_template`. If the tokenizer's own template is the same, it remains unchanged. The token
// that ends an answer is added to the end-of-text ids. `where` names the checkpoint in messages.
// Throws Error if the template is damaged.
void add_chat_template(TokenizerFiles&, const TokenizerSpec&, std::string_view where);

}  // namespace trireme
