#pragma once
// A chat template in TOML, as docs/finetune.md describes it.
#include <string>

#include "lib/data/chat_template.hpp"

namespace trireme {

// Throws Error "file:line:column: ..." for what is no TOML, unknown, missing or of another type.
ChatTemplate read_chat_template(const std::string& file);

}  // namespace trireme
