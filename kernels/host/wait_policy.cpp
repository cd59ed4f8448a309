#include "kernels/host/wait_policy.hpp"

#include <cstdlib>

#include "lib/base/early_settings.hpp"

namespace trireme::host {

void reexec_with_wait_policy(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY")) return;
  start_again_with({{"GOMP_SPINCOUNT", "2000"}}, argv);
}

}  // namespace trireme::host
