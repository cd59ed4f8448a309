#include "lib/base/early_settings.hpp"

#include <sys/auxv.h>
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
  if (!new_to_it) return;
  execv("/proc/self/exe", argv);
  // Where there is no /proc, as it was started.
  if (const auto path = getauxval(AT_EXECFN)) execv(reinterpret_cast<const char*>(path), argv);
}

}  // namespace trireme
