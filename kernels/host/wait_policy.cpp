#include "kernels/host/wait_policy.hpp"

#include <unistd.h>

#include <cstdlib>

namespace trireme::host {

void settle_wait_policy(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "2000", 1);
  execv("/proc/self/exe", argv);
}

}  // namespace trireme::host
