#pragma once
// Files and directories through POSIX calls. Every failure throws Error with the path and the
// system's message.
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

// Throws Error with the message "cannot `what` PATH: REASON", where `code` is an errno value. For
// some codes the message also says what to do.
[[noreturn]] void fail_errno(const char* what, const std::filesystem::path&, int code);

// Owner of the file descriptor of a regular file. The destructor closes the file but does not
// report errors, so call sync() after writing.
class PosixFile {
 public:
  // Creates a file for reading and writing. Throws Error if the path exists.
  static PosixFile create(const std::filesystem::path&);
  // Opens an existing file for reading.
  static PosixFile open(const std::filesystem::path&);
  // Opens an existing file for reading and writing.
  static PosixFile open_to_write(const std::filesystem::path&);
  // Opens a file for reading and writing, without following a symbolic link. Returns nullopt if the
  // path does not exist.
  static std::optional<PosixFile> open_if_there(const std::filesystem::path&);
  PosixFile(PosixFile&&) noexcept;
  PosixFile& operator=(PosixFile&&) noexcept;
  ~PosixFile();

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  struct stat status() const;
  std::int64_t size() const { return status().st_size; }
  // Fills the whole span from the file. Throws Error if the file ends too early.
  void read_at(std::span<std::byte>, std::int64_t offset) const;
  void write_at(std::span<const std::byte>, std::int64_t offset);
  void resize(std::int64_t bytes);
  // Advises the kernel to read a range into memory because it will soon be needed.
  void start_readahead(std::int64_t offset, std::int64_t bytes) const noexcept;
  // Advises the kernel to start writing a range to disk. The final sync() then takes less time.
  void start_writeback(std::int64_t offset, std::int64_t bytes) noexcept;
  // Blocks until all data is on disk.
  void sync();

 private:
  PosixFile(std::filesystem::path, int descriptor);
  static PosixFile open_existing(const std::filesystem::path&, int flags, const char* what);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// Returns true if a file in a folder may have this name. The name must not be empty, "." or "..",
// and must not contain "/" or NUL.
bool is_plain_name(std::string_view);

std::string read_text(const std::filesystem::path&);
// Creates a file with this content and syncs it. Throws Error if the path exists.
void write_new(const std::filesystem::path&, std::string_view text);
// Replaces the content of a file atomically. Readers see either the old or the new content, even
// after a crash.
void replace_atomically(const std::filesystem::path&, std::string_view text);
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// Exchanges two paths atomically. Returns false if the file system does not support this.
bool exchange_paths(const std::filesystem::path& a, const std::filesystem::path& b);
// Returns the paths of a directory's entries, sorted.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& directory);
// Returns true if the path exists. A symbolic link exists even if its target does not. Throws Error
// if the file system does not answer.
bool is_there(const std::filesystem::path&);
// Returns the name under which a damaged file is kept: NAME.damaged, or NAME.damaged-2 and so on,
// so that earlier copies stay.
std::filesystem::path damaged_name(const std::filesystem::path&);
// Removes a file, a link or an empty directory. Does nothing if the path does not exist.
void remove_path(const std::filesystem::path&);
void remove_tree(const std::filesystem::path&);
// Creates a directory and its parents. An existing directory is not an error.
void make_directory(const std::filesystem::path&);
// Throws Error if the directory that would contain `path` does not exist.
void require_folder_of(const std::filesystem::path& path);
// Makes new names in a directory durable, so that they survive a crash.
void sync_directory(const std::filesystem::path&);

}  // namespace trireme
