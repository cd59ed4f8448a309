#pragma once
// Converts a chat template into a Jinja program, which other libraries can run.
#include <string>

#include "lib/chat/chat_template.hpp"

namespace trireme {

// Returns a Jinja program that is equivalent to the template. With transformers'
// apply_chat_template, the program produces the same text as write_chat() or, with
// add_generation_prompt, as write_question(). It also rejects the conversations that those
// functions reject. "{bos}" and "{eos}" become the Jinja variables bos_token and eos_token.
std::string jinja_text(const ChatTemplate&);

}  // namespace trireme
