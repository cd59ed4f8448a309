#pragma once
// Reads compressed files through the programs that unpack them: gzip, zstd, and Python with pyarrow
// for Parquet, whose rows become JSON lines.
#include <sys/types.h>

#include <memory>
#include <string>

namespace trireme {

// A program that writes the contents of a file to a pipe.
class Unpacker {
 public:
  // Starts the program for an open regular file whose offset is 0. Does not take ownership of the
  // descriptor. Returns null if the file is not compressed. Throws Error if the program is missing.
  static std::unique_ptr<Unpacker> start(int file, const std::string& path);
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;
  ~Unpacker();

  // Returns the descriptor from which the contents are read. The Unpacker owns it.
  int descriptor() const { return contents_; }
  // Must be called at the end of the contents. Throws Error if the program failed because the file
  // is damaged or Python lacks pyarrow.
  void finish();

 private:
  Unpacker() = default;

  std::string path_, program_;
  int contents_ = -1;
  pid_t process_ = 0;
};

// Returns the name of a file without the ending of its compression, as in "a.jsonl" for
// "a.jsonl.gz".
std::string unpacked_name(const std::string& path);

}  // namespace trireme
