#pragma once
// Memory of a simulated device: it lies in the process, and the program may not touch it. Work of
// the device may.
#include <cstddef>

namespace trireme::simulated {

class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

// Is all of it memory of the device, or pinned memory of the host?
bool on_device(const void*, std::size_t bytes);
bool pinned(const void*, std::size_t bytes);

}  // namespace trireme::simulated
