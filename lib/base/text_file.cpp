#include "lib/base/text_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "lib/base/error.hpp"

namespace trireme {

std::string read_file(const std::filesystem::path& path) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  require(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
          "cannot read {}: it is {}", path.string(),
          std::filesystem::is_directory(status) ? "a directory" : "no regular file");
  std::ifstream in(path, std::ios::binary);
  require(in.is_open(), "cannot read {}: {}", path.string(), std::strerror(errno));
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  require(!in.bad(), "cannot read {}: {}", path.string(), std::strerror(errno));
  return bytes;
}

}  // namespace trireme
