// A job whose ranks come to MPI_Finalize one after another, the first or the last rank first: it
// ends, over TCP (UCX_TLS) too. Usage: late_end first|last. Ends with 77 where UCX has no TCP.
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <thread>

#include "lib/launch/mpi_job.hpp"

static int turn = 0;

// MPI's interface for tools: what the program calls is ours, which calls MPI's own.
int MPI_Finalize() {
  std::this_thread::sleep_for(std::chrono::milliseconds(100) * turn);
  return PMPI_Finalize();
}

// What UCX looks for: a directory of interfaces, and one that is up with an address.
static const char* why_no_tcp() {
  if (!std::filesystem::exists("/sys/class/net")) return "there is no /sys/class/net";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "network interfaces cannot be listed";
  bool found = false;
  for (const auto* i = all; i; i = i->ifa_next)
    found = found || ((i->ifa_flags & IFF_UP) && i->ifa_addr && i->ifa_addr->sa_family == AF_INET);
  freeifaddrs(all);
  return found ? nullptr : "no network interface is up";
}

int main(int, char** arguments) {
  if (const char* why = why_no_tcp()) {
    std::printf("late_end: skipped: UCX has no TCP here: %s\n", why);
    return 77;
  }
  const trireme::launch::MpiJob job(60);
  const auto& world = job.world();
  const bool first = arguments[1] == std::string_view("first");
  turn = first ? world.rank() : world.size() - 1 - world.rank();
  return 0;
}
