#pragma once
// The chat templates that are known by name, for tokenizers without a template of their own.
#include <string_view>
#include <vector>

namespace trireme {

struct NamedChat {
  std::string_view name, jinja;
};
std::vector<NamedChat> named_chat_templates();

}  // namespace trireme
