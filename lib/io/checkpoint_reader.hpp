#pragma once
// Loading: any slice of any parameter, whatever layout it was saved from. Elements are read
// directly from the offsets in the manifest and each chunk is checked against its hash, so a
// damaged file is an Error that names it and never a wrong number.
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

struct ParamInfo {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  std::vector<std::string> arrays;  // beside the weights, in order of their names
};

class CheckpointReader {
 public:
  // Reads the manifest and checks every file's size; Error names what is damaged or missing.
  explicit CheckpointReader(std::filesystem::path directory);

  const std::filesystem::path& directory() const { return directory_; }
  const CheckpointMeta& meta() const { return manifest_.meta; }
  const std::vector<FileRecord>& files() const { return manifest_.files; }
  const std::vector<ParamInfo>& params() const { return params_; }  // in order of their names
  // Names of the optimizer's arrays of a parameter, sorted; none: it has none.
  std::vector<std::string> arrays_of(const std::string& name) const;

  // Of its weights, by their chunks' hashes: copies of a checkpoint have the same.
  Hash128 identity_of_weights() const;

  // The first differences between the checkpoint's parameters and these, `here`; empty: none.
  std::string model_differences(const std::vector<std::pair<std::string, Shape>>& model) const;
  // Error naming the first differences unless these are exactly the parameters of the checkpoint.
  void require_model(const std::vector<std::pair<std::string, Shape>>& model) const;

  // Elements [begin, begin + count), flat in row-major order, in the dtype they were saved in. They
  // are handed over in order, at most a chunk at a time; each chunk is read once.
  using Sink = std::function<void(std::int64_t first, std::span<const std::byte>)>;
  void read(const std::string& name, std::string_view array, std::int64_t begin, std::int64_t count,
            const Sink&);
  void read(const std::string& name, std::string_view array, std::int64_t begin, std::int64_t count,
            std::span<std::byte> out);
  // Asks the disk for what the beginning of such a read needs.
  void expect(const std::string& name, std::string_view array, std::int64_t begin,
              std::int64_t count);
  // One line for each thing that is wrong, none when the checkpoint is intact. Several checkers
  // share the work: `index` reads every `of`-th file.
  std::vector<std::string> verify(Check = Check::hashes, int index = 0, int of = 1) const;

  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  struct Place {
    std::size_t file, slice;
  };

  const std::vector<Place>& places_of(const std::string& name, std::string_view array) const;
  void read_slice(const Place&, std::int64_t begin, std::int64_t count, const Sink&);
  const PosixFile& open(std::size_t file);
  // What a shard says of itself otherwise than the manifest; empty: nothing.
  std::string contradiction(std::size_t file, Check) const;

  std::filesystem::path directory_;
  Manifest manifest_;
  std::vector<ParamInfo> params_;
  // By parameter and array, in order of begin.
  std::map<std::pair<std::string, std::string>, std::vector<Place>> places_;
  std::map<std::size_t, PosixFile> opened_;
  std::set<std::size_t> compared_;  // with what they say of themselves
  std::vector<std::byte> chunk_;
  std::int64_t bytes_read_ = 0;
};

}  // namespace trireme
