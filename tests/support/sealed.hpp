#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/hash.hpp"

namespace trireme::test {

// The text of a manifest of this content, whose hash is right.
inline std::string sealed(const nlohmann::json& content) {
  return nlohmann::json{{"content", content}, {"xxh3_128", to_string(hash128(content.dump()))}}
      .dump();
}

}  // namespace trireme::test
