#include "kernels/address_range.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "kernels/open/open.hpp"
#include "lib/base/error.hpp"

namespace trireme {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

// Runs f in a process of its own that may promise `more` bytes beyond what it has: the kernel
// counts private writable mappings against this limit as it does against CommitLimit.
template <class F>
int with_data_limit(std::size_t more, const F& f) {
  const pid_t child = fork();
  if (child == 0) {
    rlimit limit{};
    std::size_t pages = 0, ignored = 0;
    FILE* statm = std::fopen("/proc/self/statm", "r");
    const bool read = statm && std::fscanf(statm, "%zu %zu %zu %zu %zu %zu", &ignored, &ignored,
                                           &ignored, &ignored, &ignored, &pages) == 6;
    limit.rlim_cur = limit.rlim_max =
        pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + more;
    if (!read || setrlimit(RLIMIT_DATA, &limit) != 0) _exit(99);
    try {
      _exit(f());
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      _exit(98);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}

TEST(AddressRange, WhatIsClosedIsNotPromised) {
  EXPECT_EQ(with_data_limit(256 * MiB,
                            [] {
                              AddressRange range(4096 * MiB);
                              range.open_to(100 * MiB);
                              std::memset(range.begin(), 1, 100 * MiB);
                              return 0;
                            }),
            0);
}

TEST(AddressRange, WhatTheSystemRefusesIsAnErrorThatNamesTheLimits) {
  EXPECT_EQ(with_data_limit(256 * MiB,
                            [] {
                              AddressRange range(4096 * MiB);
                              range.open_to(64 * MiB);
                              try {
                                range.open_to(1000 * MiB);
                              } catch (const Error& e) {
                                const std::string said = e.what();
                                range.begin()[64 * MiB - 1] = std::byte{1};
                                return said.find("overcommit_memory") != std::string::npos &&
                                               said.find("ulimit -d") != std::string::npos
                                           ? 0
                                           : 1;
                              }
                              return 2;
                            }),
            0);
}

// Near the limit no more is asked for than is needed.
TEST(AddressRange, ALastStepMayBeSmall) {
  EXPECT_EQ(with_data_limit(48 * MiB,
                            [] {
                              AddressRange range(4096 * MiB);
                              range.open_to(33 * MiB);
                              std::memset(range.begin(), 1, 33 * MiB);
                              return 0;
                            }),
            0);
}

// A machine whose kernel promises no more than it has runs every backend that uses host memory.
TEST(AddressRange, ABackendPromisesWhatItUses) {
  for (const char* name : {"host", "ref"})
    EXPECT_EQ(with_data_limit(512 * MiB,
                              [name] {
                                const auto b = open_backend({.name = name});
                                const auto block = b->take(10 * MiB, MemoryKind::transient,
                                                           Queue::compute, Memory::device);
                                std::memset(block.data, 0, block.bytes);
                                b->give(block, {});
                                return 0;
                              }),
              0)
        << name;
}

}  // namespace
}  // namespace trireme
