#pragma once
// A chat template as other programs read it: a program in Jinja.
#include <string>

#include "lib/data/chat_template.hpp"

namespace trireme {

// What transformers' apply_chat_template makes of it is the text of write_chat, with
// add_generation_prompt that of write_question; what these refuse it refuses. "{bos}" and "{eos}"
// become bos_token and eos_token.
std::string jinja_text(const ChatTemplate&);

}  // namespace trireme
