#pragma once
// Files by descriptor, so that every failure is an Error with the path and the system's message.
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// "cannot WHAT PATH: ...", of an errno, and what to do.
[[noreturn]] void fail_errno(const char* what, const std::filesystem::path&, int code);

// Owns a descriptor of a regular file. Closing does not report errors: after writing, call sync()
// first.
class PosixFile {
 public:
  static PosixFile create(const std::filesystem::path&);  // must not exist yet; read and write
  static PosixFile open(const std::filesystem::path&);    // to read
  static PosixFile open_to_write(const std::filesystem::path&);  // must exist
  // To read and write, never through a link; none where there is no such name.
  static std::optional<PosixFile> open_if_there(const std::filesystem::path&);
  PosixFile(PosixFile&&) noexcept;
  PosixFile& operator=(PosixFile&&) noexcept;
  ~PosixFile();

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  struct stat status() const;
  std::int64_t size() const { return status().st_size; }
  void read_at(std::span<std::byte>, std::int64_t offset) const;  // all of it, or Error
  void write_at(std::span<const std::byte>, std::int64_t offset);
  void resize(std::int64_t bytes);
  // Asks the kernel to fetch a range that will be read soon.
  void start_readahead(std::int64_t offset, std::int64_t bytes) const noexcept;
  // Asks the kernel to start writing a range back, so that the final sync() has less to wait for.
  void start_writeback(std::int64_t offset, std::int64_t bytes) noexcept;
  void sync();

 private:
  PosixFile(std::filesystem::path, int descriptor);
  static PosixFile open_existing(const std::filesystem::path&, int flags, const char* what);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

std::string read_text(const std::filesystem::path&);
// Creates a file that must not exist and syncs it.
void write_new(const std::filesystem::path&, std::string_view text);
// Readers see the old content or the new one, also after a crash.
void replace_atomically(const std::filesystem::path&, std::string_view text);
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// Exchanges two names atomically; false where the file system cannot do that.
bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b);
// What lies in a directory, by name.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& directory);
// False only when there is no such name: a file system that does not answer is an Error.
bool is_there(const std::filesystem::path&);
void remove_tree(const std::filesystem::path&);
void make_directory(const std::filesystem::path&);  // parents too; fine if it exists
// Makes the names in a directory durable.
void sync_directory(const std::filesystem::path&);

}  // namespace trireme
