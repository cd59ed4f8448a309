#include "lib/base/early_settings.hpp"

#include <unistd.h>

#include <cstdlib>

namespace trireme {

void start_again_with(std::initializer_list<EarlySetting> settings, char** argv) {
  bool new_to_it = false;
  for (const auto& [name, value] : settings) {
    if (std::getenv(name)) continue;
    setenv(name, value, 1);
    new_to_it = true;
  }
  if (new_to_it) execv("/proc/self/exe", argv);
}

}  // namespace trireme
