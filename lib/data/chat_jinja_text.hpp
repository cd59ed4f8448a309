#pragma once
// Converts a chat template into a Jinja program, which other libraries can run.
#include <string>

#include "lib/data/chat_template.hpp"

namespace trireme {

// Returns a Jinja program equivalent to the template. If transformers' apply_chat_template runs the
// program, it produces the same text as write_chat, or as write_question with
// add_generation_prompt. The program also rejects the conversations that those functions reject.
// "{bos}" and "{eos}" become the Jinja variables bos_token and eos_token.
std::string jinja_text(const ChatTemplate&);

}  // namespace trireme
