#pragma once
// Runs the program under test as a user would, with a time limit, and keeps what it says.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace trireme::test {

struct Finished {
  int code = 0;  // 128 + signal when a signal ended it; 124 when its time was over
  std::string out, err;
};

inline std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void put(const std::filesystem::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary) << text;
}

// A folder of this test's own, gone with the object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "trireme-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// `command` as typed into a shell in `where`; $TRIREME is the program. No ' in it.
Finished run(const std::filesystem::path& where, const std::string& command,
             int limit_seconds = 60);

}  // namespace trireme::test
