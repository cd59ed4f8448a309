#include "kernels/cgroup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace trireme {

namespace fs = std::filesystem;

static std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the limit that the file states. Returns SIZE_MAX if the file does not exist or states
// "max".
static std::size_t limit_in(const fs::path& file) {
  const auto text = text_of(file);
  std::size_t bytes = SIZE_MAX;
  std::from_chars(text.data(), text.data() + text.size(), bytes);
  return bytes;
}

// Returns the lowest limit of the group and all its ancestors. In a container, the group's path may
// exist only on the host. The limit of the root directory then applies.
static std::size_t least_limit(const fs::path& root, fs::path group, const char* file) {
  std::size_t least = limit_in(root / file);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path())
    least = std::min(least, limit_in(root / group / file));
  return least;
}

std::size_t cgroup_limit(std::string_view own, const fs::path& mounted) {
  std::size_t least = SIZE_MAX;
  std::istringstream lines{std::string(own)};
  for (std::string line; std::getline(lines, line);) {  // 0::/group or 4:cpu,memory:/group
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,")
      least = std::min(least, least_limit(mounted, group, "memory.max"));
    else if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, least_limit(mounted / "memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

std::size_t cgroup_limit() {
  return cgroup_limit(text_of("/proc/self/cgroup"), "/sys/fs/cgroup");
}

}  // namespace trireme
