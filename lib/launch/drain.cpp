#include "lib/launch/drain.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>

#include <thread>

namespace trireme {

bool wait_until_read(int pipe, std::chrono::milliseconds most) {
  struct stat s {};
  if (::fstat(pipe, &s) != 0 || !S_ISFIFO(s.st_mode)) return true;
  const auto end = std::chrono::steady_clock::now() + most;
  for (int left = 0; ::ioctl(pipe, FIONREAD, &left) == 0 && left > 0;) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace trireme
