// Two processes, each on a machine of its own as far as they can tell, take a free lock at once,
// and one of them writes slowly: they never have it both. Exits 0 then. Usage: late_lock [jobs]
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "lib/io/run_lock.hpp"
#include "tests/support/scratch.hpp"

using namespace std::chrono_literals;

static const char* host = "";
static bool jobs = false;  // is each of a job of its own?
static std::chrono::milliseconds writing{0};

// What the program calls is ours: names of hosts, a kernel's locks that others do not see, a file
// system that is slow.
extern "C" {
int gethostname(char* name, size_t size) {
  std::strncpy(name, host, size);
  return 0;
}
int flock(int, int) {
  return 0;
}
ssize_t pwrite(int file, const void* data, size_t size, off_t at) {
  std::this_thread::sleep_for(writing);
  return syscall(SYS_pwrite64, file, data, size, at);
}
}

// Counts in a pipe: whoever has the lock takes its one byte, and never finds it gone.
static int hold(const std::filesystem::path& folder, int in, int out) {
  if (writing == 0ms) std::this_thread::sleep_for(500ms);  // until the other has looked
  try {
    const trireme::RunLock lock(folder, std::filesystem::file_time_type::clock::now());
    char byte = 0;
    if (read(in, &byte, 1) != 1) return 3;  // another has it
    std::this_thread::sleep_for(12s);
    return write(out, &byte, 1) == 1 ? 0 : 4;
  } catch (const trireme::Error& e) {
    std::fprintf(stderr, "%s: %s\n", host, e.what());
    return 2;
  }
}

static pid_t start(const char* name, std::chrono::milliseconds slow,
                   const std::filesystem::path& folder, int in, int out) {
  const pid_t child = fork();
  if (child != 0) return child;
  host = name;
  if (jobs) setenv("SLURM_JOB_ID", name, 1);
  writing = slow;
  std::_Exit(hold(folder, in, out));
}

int main(int arguments, char**) {
  jobs = arguments > 1;
  const trireme::ScratchFolder folder;
  int ends[2];
  if (pipe2(ends, O_NONBLOCK) != 0 || write(ends[1], "x", 1) != 1) return 1;
  const pid_t quick = start("quick", 0ms, folder.path(), ends[0], ends[1]);
  const pid_t slow = start("slow", 1500ms, folder.path(), ends[0], ends[1]);
  int quick_end = 0, slow_end = 0;
  waitpid(quick, &quick_end, 0);
  // Ended by its heart, it put nothing back: what it held is free now.
  if (WEXITSTATUS(quick_end) == 1 && write(ends[1], "x", 1) != 1) return 1;
  waitpid(slow, &slow_end, 0);
  std::printf("quick ends with %d, slow with %d\n", WEXITSTATUS(quick_end), WEXITSTATUS(slow_end));
  return WEXITSTATUS(quick_end) == 1 && WEXITSTATUS(slow_end) == 0 ? 0 : 1;
}
