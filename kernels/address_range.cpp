#include "kernels/address_range.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/error.hpp"

namespace trireme {

// Number of bytes that one call to mprotect makes accessible. A step covers many huge pages, so
// calls are rare and few huge pages straddle two steps.
static constexpr std::size_t step = std::size_t{32} << 20;

AddressRange::AddressRange(std::size_t bytes) : bytes_(bytes) {
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(p != MAP_FAILED, "cannot reserve {} bytes of address space: {}; raise `ulimit -v`", bytes,
          std::strerror(errno));
  madvise(p, bytes, MADV_HUGEPAGE);  // a failure costs only speed
  begin_ = static_cast<std::byte*>(p);
}

AddressRange::~AddressRange() {
  munmap(begin_, bytes_);
}

void AddressRange::open_to(std::size_t end) {
  expect(end <= bytes_, "only what is reserved can be opened");
  if (end <= open_) return;
  const auto open = [&](std::size_t to) {
    if (mprotect(begin_ + open_, to - open_, PROT_READ | PROT_WRITE) != 0) return false;
    open_ = to;
    return true;
  };
  const auto rounded = [&](std::size_t to) { return std::min(bytes_, (end + to - 1) / to * to); };
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (open(rounded(step)) || open(rounded(page))) return;
  fail(
      "the system grants {} bytes of memory instead of the requested {}: {}. Check `ulimit -d` "
      "and, if /proc/sys/vm/overcommit_memory is 2, CommitLimit in /proc/meminfo "
      "(vm.overcommit_ratio)",
      open_, end, std::strerror(errno));
}

}  // namespace trireme
