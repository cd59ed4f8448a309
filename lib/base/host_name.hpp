#pragma once
// The name of this machine, for messages.
#include <unistd.h>

#include <string>

namespace trireme {

inline std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace trireme
