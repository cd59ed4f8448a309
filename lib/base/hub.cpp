#include "lib/base/hub.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

std::string hub_advice(const std::filesystem::path& path) {
  const auto name = path.string();
  const bool plain = std::ranges::all_of(name, [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  });
  const bool owned = std::ranges::count(name, '/') <= 1 && !name.starts_with('/') &&
                     !name.starts_with('.') && !name.ends_with('/');
  if (name.empty() || !plain || !owned) return {};
  return fmt::format(
      ". Trireme does not download models from the Hugging Face Hub: run hf download {} "
      "--local-dir DIR, and give DIR instead",
      name);
}

}  // namespace trireme
