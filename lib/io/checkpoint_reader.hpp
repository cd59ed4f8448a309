#pragma once
// Loads any slice of any parameter from a checkpoint, independently of the layout in which the
// checkpoint was saved. Elements are read at the offsets in the manifest, and each chunk is checked
// against its hash. A damaged file therefore causes an Error that names the file, and never wrong
// numbers.
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
  // Names of the parameter's arrays of optimizer state, sorted.
  std::vector<std::string> arrays;
};

// Returns a message that says why a path, which has no manifest, is not a checkpoint: there is no
// such path, or it is a model of another program.
std::string not_a_checkpoint(const std::filesystem::path&);

// Whether reads of a parameter's weights return the trained weights or the averaged weights
// (average_array). A parameter without averages was not being trained, and its average is its
// weights.
enum class WeightsRead : std::uint8_t { trained, averaged };

// A checkpoint that is open for reading. Only one thread at a time may use it.
class CheckpointReader {
 public:
  // Reads the manifest and checks the size of each file. Throws Error, naming the file, if a file
  // is damaged or missing. Throws Error if averages are to be read and there are none at all.
  explicit CheckpointReader(std::filesystem::path directory, WeightsRead = WeightsRead::trained);

  const std::filesystem::path& directory() const { return directory_; }
  const CheckpointMeta& meta() const { return manifest_.meta; }
  const std::vector<FileRecord>& files() const { return manifest_.files; }
  // Returns all parameters, sorted by name.
  const std::vector<ParamInfo>& params() const { return params_; }
  // Returns the names of a parameter's arrays of optimizer state, sorted. Returns an empty vector
  // if there are none.
  std::vector<std::string> arrays_of(const std::string& name) const;
  // Returns the shape of a parameter's array. Throws Error if the checkpoint does not contain it.
  Shape shape_of(const std::string& name, std::string_view array) const;

  // Returns true if any parameter has averaged weights.
  bool has_averages() const;
  // Returns true if reads of weights return averaged weights.
  bool uses_averages() const { return weights_read_ == WeightsRead::averaged; }

  // Returns a hash of the weights, computed from the hashes of their chunks. Copies of a checkpoint
  // have the same hash.
  Hash128 identity_of_weights() const;

  // Returns text that describes the first differences between the checkpoint's parameters and
  // `model`. Returns an empty string if there are none.
  std::string model_differences(const std::vector<std::pair<std::string, Shape>>& model) const;
  // Throws Error, naming the first differences, unless the checkpoint has exactly these parameters.
  void require_model(const std::vector<std::pair<std::string, Shape>>& model) const;

  // Reads elements [begin, begin + count) of an array, flat in row-major order, in the data type in
  // which they were saved. A Sink receives the elements in order, at most one chunk at a time.
  // `first` is the index of the first element that it receives. Each chunk is read once.
  using Sink = std::function<void(std::int64_t first, std::span<const std::byte>)>;
  void read(const std::string& name, std::string_view array, std::int64_t begin, std::int64_t count,
            const Sink&);
  void read(const std::string& name, std::string_view array, std::int64_t begin, std::int64_t count,
            std::span<std::byte> out);
  // Requests that the operating system read ahead the beginning of a later read() with the same
  // arguments.
  void expect(const std::string& name, std::string_view array, std::int64_t begin,
              std::int64_t count);
  // Checks the files and returns one line for each problem. Returns an empty list if the checkpoint
  // is intact. Several checkers can divide the work: each reads every `of`-th file, beginning with
  // file `index`.
  std::vector<std::string> verify(Check = Check::hashes, int index = 0, int of = 1) const;

  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  struct Place {
    std::size_t file, slice;
  };

  const std::vector<Place>& places_of(const std::string& name, std::string_view array) const;
  void read_slice(const Place&, std::int64_t begin, std::int64_t count, const Sink&);
  const PosixFile& open(std::size_t file);
  // Compares a shard's own record with the manifest. Returns the first difference, or an empty
  // string if there is none.
  std::string contradiction(std::size_t file, Check) const;

  std::filesystem::path directory_;
  Manifest manifest_;
  std::vector<ParamInfo> params_;
  WeightsRead weights_read_;
  // Locations of chunks by parameter and array, in ascending order of `begin`.
  std::map<std::pair<std::string, std::string>, std::vector<Place>> places_;
  std::map<std::size_t, PosixFile> opened_;
  // Indices of files whose own records have been compared with the manifest.
  std::set<std::size_t> compared_;
  std::vector<std::byte> chunk_;
  std::int64_t bytes_read_ = 0;
};

}  // namespace trireme
