#include "lib/base/taken.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>

#include <thread>

namespace trireme {

bool taken(int descriptor, std::chrono::milliseconds most) {
  struct stat s {};
  if (::fstat(descriptor, &s) != 0 || !S_ISFIFO(s.st_mode)) return true;
  const auto end = std::chrono::steady_clock::now() + most;
  for (int left = 0; ::ioctl(descriptor, FIONREAD, &left) == 0 && left > 0;) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace trireme
