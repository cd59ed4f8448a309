#include "lib/pipe/program.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

bool computes(Do what) {
  using enum Do;
  return what == forward || what == backward || what == input_gradients || what == weight_gradients;
}

Do backward_of(const Program& p) {
  const bool halves = std::ranges::find(p, Do::input_gradients, &Instruction::what) != p.end();
  return halves ? Do::input_gradients : Do::backward;
}

std::string_view name_of(Do what) {
  constexpr std::string_view names[] = {"receive_activation", "forward",         "send_activation",
                                        "receive_gradient",   "backward",        "send_gradient",
                                        "input_gradients",    "weight_gradients"};
  return names[static_cast<int>(what)];
}

std::string describe(const Instruction& i) {
  return i.chunk == 0 ? fmt::format("{} {}", name_of(i.what), i.microbatch)
                      : fmt::format("{} {} of chunk {}", name_of(i.what), i.microbatch, i.chunk);
}

}  // namespace trireme
