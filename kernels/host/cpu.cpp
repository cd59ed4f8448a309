// This file is compiled for any x86-64 CPU. It must not call inline functions of libraries: the
// linker may have kept the copy from another file, which contains vector instructions.
#include "kernels/host/cpu.hpp"

#include <unistd.h>

namespace trireme {

const char* missing_cpu_feature() noexcept {
#include "cpu_features.inc"
  return nullptr;
}

const char* build_architecture() noexcept {
  return TRIREME_ARCH;
}

namespace {

void say(const char* text) {
  unsigned long n = 0;
  while (text[n] != '\0') ++n;
  if (write(STDERR_FILENO, text, n) < 0) _exit(1);
}

// Ends the process with a message if the CPU lacks a feature. Priority 101 is the first that
// programs may use. Constructors of static objects, which may use vector instructions, run later.
__attribute__((constructor(101))) void require_cpu() {
  __builtin_cpu_init();
  const char* missing = missing_cpu_feature();
  if (missing == nullptr) return;
  say("trireme: this build uses ");
  say(missing);
  say(", which this CPU does not have: it was built for another kind of CPU (" TRIREME_ARCH
      ").\n"
      "Build again on this machine with `make build`, or for every CPU with AVX2 with\n"
      "`make build ARCH=x86-64-v3` (cmake -B build -DTRIREME_ARCH=x86-64-v3).\n");
  _exit(1);
}

}  // namespace
}  // namespace trireme
