#include "lib/comm/engine/label.hpp"

#include <fmt/format.h>

namespace trireme::engine {

std::string to_string(const Label& l) {
  auto text = fmt::format("{}", name_of(l.doing));
  if (!l.unit.empty()) text += fmt::format(" of {}", l.unit);
  if (l.microbatch >= 0) text += fmt::format(", microbatch {}", l.microbatch);
  return text;
}

}  // namespace trireme::engine
