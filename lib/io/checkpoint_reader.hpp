#pragma once
// Loads any slice of any parameter from a checkpoint, whatever the layout in which it was saved.
// Elements are read from the offsets in the manifest, and each chunk is checked against its hash. A
// damaged file therefore causes an Error that names it, and never wrong numbers.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

// A parameter in a checkpoint.
struct ParamInfo {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  // Names of its arrays of optimizer state, sorted.
  std::vector<std::string> arrays;
};

// A checkpoint that is open for reading. Only one thread at a time may use it.
class CheckpointReader {
 public:
  // Reads the manifest and checks the size of each file. Throws Error, naming the file, if one is
  // damaged or missing.
  explicit CheckpointReader(std::filesystem::path directory);

  const std::filesystem::path& directory() const { return directory_; }
  const CheckpointMeta& meta() const { return manifest_.meta; }
  const std::vector<FileRecord>& files() const { return manifest_.files; }
  // Returns all parameters, sorted by name.
  const std::vector<ParamInfo>& params() const { return params_; }
  // Returns the names of a parameter's arrays of optimizer state, sorted. Empty if it has none.
  std::vector<std::string> arrays_of(const std::string& name) const;

  // Returns a hash of the weights, computed from the hashes of their chunks. Copies of a checkpoint
  // have the same hash.
  Hash128 identity_of_weights() const;

  // Returns the first differences between the checkpoint's parameters and `model`, as text. Empty
  // if there are none.
  std::string model_differences(const std::vector<std::pair<std::string, Shape>>& model) const;
  // Throws Error, naming the first differences, unless the checkpoint has exactly these parameters.
  void require_model(const std::vector<std::pair<std::string, Shape>>& model) const;

  // Reads elements [begin, begin + count) of an array, flat in row-major order, in the data type in
  // which they were saved. A Sink receives them in order, at most one chunk at a time, with the
  // index `first` of its first element. Each chunk is read once.
  using Sink = std::function<void(std::int64_t first, std::span<const std::byte>)>;
  void read(const std::string& name, std::string_view array, std::int64_t begin, std::int64_t count,
            const Sink&);
  void read(const std::string& name, std::string_view array, std::int64_t begin, std::int64_t count,
            std::span<std::byte> out);
  // Asks the operating system to read ahead the beginning of a later read() with the same
  // arguments.
  void expect(const std::string& name, std::string_view array, std::int64_t begin,
              std::int64_t count);
  // Returns one line for each problem, or an empty list if the checkpoint is intact. Several
  // checkers can share the work: each reads every `of`-th file, beginning with file `index`.
  std::vector<std::string> verify(Check = Check::hashes, int index = 0, int of = 1) const;

  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  struct Place {
    std::size_t file, slice;
  };

  const std::vector<Place>& places_of(const std::string& name, std::string_view array) const;
  void read_slice(const Place&, std::int64_t begin, std::int64_t count, const Sink&);
  const PosixFile& open(std::size_t file);
  // Returns a difference between a shard's own record and the manifest, or an empty string.
  std::string contradiction(std::size_t file, Check) const;

  std::filesystem::path directory_;
  Manifest manifest_;
  std::vector<ParamInfo> params_;
  // By parameter and array, in ascending order of `begin`.
  std::map<std::pair<std::string, std::string>, std::vector<Place>> places_;
  std::map<std::size_t, PosixFile> opened_;
  // Files whose own records were compared with the manifest.
  std::set<std::size_t> compared_;
  std::vector<std::byte> chunk_;
  std::int64_t bytes_read_ = 0;
};

}  // namespace trireme
