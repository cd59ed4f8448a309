#include "lib/base/terminal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace trireme {

namespace fs = std::filesystem;

static std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<ProcessView> process_view(int id) {
  const auto folder = fs::path("/proc") / std::to_string(id);
  // "12 (name) S 11 ...": a name may hold anything, so what follows its last parenthesis is read.
  const auto stat = text_of(folder / "stat");
  const auto open = stat.find('('), close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return {};
  ProcessView p;
  std::istringstream rest(stat.substr(close + 1));
  std::string state;
  rest >> state >> p.parent;
  std::istringstream line(text_of(folder / "cmdline"));
  for (std::string word; std::getline(line, word, '\0');) p.arguments.push_back(word);
  p.name = stat.substr(open + 1, close - open - 1);
  return p;
}

bool is_launcher(std::string_view program) {
  constexpr std::array<std::string_view, 7> names = {"mpiexec", "mpirun", "orterun",      "prterun",
                                                     "prun",    "srun",   "mpiexec.hydra"};
  // Debian's alternatives: mpiexec.mpich, mpirun.openmpi.
  return std::ranges::any_of(names, [&](auto n) {
    return program == n || (program.starts_with(n) && program[n.size()] == '.');
  });
}

bool changes_output(const ProcessView& p) {
  // Also as --option=value; the short ones of srun also with their value behind them.
  constexpr std::array<std::string_view, 18> options = {"outfile-pattern",
                                                        "errfile-pattern",
                                                        "outfile",
                                                        "errfile",
                                                        "prepend-rank",
                                                        "prepend-pattern",
                                                        "output-filename",
                                                        "tag-output",
                                                        "output",
                                                        "error",
                                                        "label",
                                                        "timestamp-output",
                                                        "stream-output",
                                                        "xml",
                                                        "l",
                                                        "o",
                                                        "e",
                                                        "unbuffered-label"};
  const bool srun = p.name == "srun";
  for (std::size_t i = 1; i < p.arguments.size(); ++i) {
    std::string_view a = p.arguments[i];
    if (!a.starts_with("-")) continue;
    a.remove_prefix(a.starts_with("--") ? 2 : 1);
    const auto name = a.substr(0, a.find('='));
    if (std::ranges::find(options, name) != options.end()) return true;
    if (srun && !p.arguments[i].starts_with("--") && !a.empty() &&
        (a[0] == 'o' || a[0] == 'e' || a[0] == 'l'))
      return true;
  }
  return false;
}

static std::string link(const fs::path& p) {
  std::error_code e;
  return fs::read_symlink(p, e).string();
}

static bool holds(int process, const std::string& what) {
  std::error_code e;
  const auto folder = fs::path("/proc") / std::to_string(process) / "fd";
  for (fs::directory_iterator it(folder, e), end; !e && it != end; it.increment(e))
    if (link(it->path()) == what) return true;
  return false;
}

// Is stderr of that process a terminal? Asked of the device that it has open, without becoming its
// controlling process.
static bool has_terminal(int process) {
  const auto path = fs::path("/proc") / std::to_string(process) / "fd/2";
  const int fd = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool terminal = ::isatty(fd) == 1;
  ::close(fd);
  return terminal;
}

static bool passes_on(int process, const ProcessView& p) {
  return !changes_output(p) && has_terminal(process);
}

// The processes above this one: the first that holds the pipe's other end is a launcher, or the
// proxy of one above it.
static bool ancestor_passes_on(const std::string& pipe) {
  bool held = false;
  auto id = ::getppid();
  for (int depth = 0; depth < 32 && id > 1; ++depth) {
    const auto p = process_view(id);
    if (!p) return false;
    held = held || holds(id, pipe);
    // A shell or tee between holds it, and is no launcher: `mpiexec sh -c "trireme 2>&1 | tee
    // log"`.
    const bool proxy =
        p->name.starts_with("hydra_pmi_proxy") || p->name == "orted" || p->name == "prted";
    if (is_launcher(p->name)) return held && passes_on(id, *p);
    if (held && !proxy) return false;
    id = p->parent;
  }
  return false;
}

// The inode of the socket that listens on a TCP port of this host.
static std::string listening_socket(int port) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(text_of(table));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, skip, inode;
      words >> number >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      const auto colon = local.rfind(':');
      if (state != "0A" || colon == std::string::npos) continue;  // LISTEN
      if (std::strtol(local.c_str() + colon + 1, nullptr, 16) == port)
        return "socket:[" + inode + "]";
    }
  }
  return {};
}

// Is stderr as Slurm's daemon gave it? What it holds may not be ours to see; a rank that it started
// itself has no shell between that could have made another pipe.
static bool is_from_slurm(const std::string& pipe) {
  auto id = ::getppid();
  for (int depth = 0; depth < 32 && id > 1; ++depth) {
    const auto p = process_view(id);
    if (!p) return false;
    if (p->name.starts_with("slurmstepd")) return depth == 0 || holds(id, pipe);
    id = p->parent;
  }
  return false;
}

// Slurm's daemons start ranks, so srun is none of their ancestors; it is known by the port that it
// listens on.
static bool srun_passes_on(const std::string& pipe) {
  if (!is_from_slurm(pipe)) return false;
  const char* given = std::getenv("SLURM_SRUN_COMM_PORT");
  if (!given) given = std::getenv("SLURM_STEP_LAUNCHER_PORT");
  if (!given) return false;
  const auto socket = listening_socket(std::atoi(given));
  if (socket.empty()) return false;
  std::error_code e;
  for (fs::directory_iterator it("/proc", e), end; !e && it != end; it.increment(e)) {
    const auto name = it->path().filename().string();
    int id = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), id);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size()) continue;
    const auto p = process_view(id);
    if (p && p->name == "srun" && holds(id, socket)) return passes_on(id, *p);
  }
  return false;
}

bool stderr_ends_at_terminal() {
  if (::isatty(STDERR_FILENO) == 1) return true;
  struct stat about {};
  if (::fstat(STDERR_FILENO, &about) != 0) return false;
  if (!S_ISFIFO(about.st_mode) && !S_ISSOCK(about.st_mode)) return false;
  const auto pipe = link("/proc/self/fd/2");
  return ancestor_passes_on(pipe) || srun_passes_on(pipe);
}

}  // namespace trireme
