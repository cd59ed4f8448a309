#include "lib/base/process_space.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <fstream>

namespace trireme {

std::string this_process_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat s {};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &s) != 0) return "-";
  return fmt::format("{}.{}", boot, s.st_ino);
}

bool is_running(int process) {
  return process > 0 && (::kill(process, 0) == 0 || errno != ESRCH);
}

}  // namespace trireme
