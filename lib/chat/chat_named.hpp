#pragma once
// Chat templates of well-known models, as data.
#include <vector>

#include "lib/chat/chat_template.hpp"

namespace trireme {

std::vector<ChatTemplate> named_chat_templates();

}  // namespace trireme
