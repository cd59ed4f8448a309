#include "lib/base/random_id.hpp"

#include <fmt/format.h>

#include <random>

namespace trireme {

std::string random_id() {
  std::random_device bits;
  std::string id;
  while (id.size() < random_id_digits) id += fmt::format("{:08x}", bits());
  return id;
}

}  // namespace trireme
