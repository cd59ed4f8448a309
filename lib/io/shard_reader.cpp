#include "lib/io/shard_reader.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/limits.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/hdf5_handle.hpp"
#include "lib/io/shard_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

namespace {

std::vector<std::int64_t> attribute_of(hid_t object, const char* name, const fs::path& path) {
  Hdf5Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, "H5Aopen", path);
  Hdf5Handle space(H5Aget_space(attribute), H5Sclose, "H5Aget_space", path);
  const auto n = hdf5_ok(H5Sget_simple_extent_npoints(space), "H5Sget_simple_extent_npoints", path);
  require(n <= max_dims, "the attribute '{}' has {} values", name, n);
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  if (n > 0) hdf5_ok(H5Aread(attribute, H5T_NATIVE_INT64, values.data()), "H5Aread", path);
  return values;
}

std::string record_text(hid_t file, std::int64_t file_size, const fs::path& path) {
  const std::string name(shard_record_name);
  const auto exists = H5Lexists(file, name.c_str(), H5P_DEFAULT);
  require(exists > 0, "it has no {}: an older program wrote it", shard_record_name);
  Hdf5Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2", path);
  Hdf5Handle type(H5Dget_type(dataset), H5Tclose, "H5Dget_type", path);
  Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "H5Dget_space", path);
  const auto size = static_cast<std::int64_t>(H5Tget_size(type));
  require(H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
              H5Sget_simple_extent_npoints(space) == 1 && size <= file_size,
          "its {} is no text", shard_record_name);
  std::string text(static_cast<std::size_t>(size), '\0');
  hdf5_ok(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), "H5Dread", path);
  return text;
}

// Names, shape, dtype, places and elements as HDF5 gives them are those of the record.
void check_dataset(hid_t file, const SliceRecord& record, std::vector<std::byte>& buffer,
                   const fs::path& path) {
  const auto& s = record.slice;
  const auto name = s.array + "/" + s.name;
  Hdf5Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2", path);
  Hdf5Handle type(H5Dget_type(dataset), H5Tclose, "H5Dget_type", path);
  Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "H5Dget_space", path);
  const hid_t expected = s.dtype == DType::f32 ? H5T_IEEE_F32LE : H5T_IEEE_F64LE;
  std::vector<std::int64_t> shape;
  for (int d = 0; d < s.shape.dims(); ++d) shape.push_back(s.shape[d]);
  require(H5Tequal(type, expected) > 0 && H5Sget_simple_extent_ndims(space) == 1 &&
              H5Sget_simple_extent_npoints(space) == s.count &&
              attribute_of(dataset, "offset", path) == std::vector{s.begin} &&
              attribute_of(dataset, "shape", path) == shape,
          "{} is not what its {} says", escaped(name), shard_record_name);
  for (std::size_t i = 0; i < record.chunks.size(); ++i) {
    const hsize_t first = i * static_cast<hsize_t>(record.chunk_elements);
    const auto bytes = chunk_bytes(record, i);
    const auto n = static_cast<hsize_t>(bytes) / bytes_of(s.dtype);
    unsigned filters = 0;
    haddr_t at = 0;
    hsize_t stored = 0;
    hdf5_ok(H5Dget_chunk_info_by_coord(dataset, &first, &filters, &at, &stored),
            "H5Dget_chunk_info_by_coord", path);
    const auto memory = hdf5_space({&n, 1}, path);
    hdf5_ok(H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, nullptr, &n, nullptr),
            "H5Sselect_hyperslab", path);
    hdf5_ok(H5Dread(dataset, expected, memory, space, H5P_DEFAULT, buffer.data()), "H5Dread", path);
    require(static_cast<std::int64_t>(at) == record.chunks[i].at &&
                hash128(std::span(buffer).first(static_cast<std::size_t>(bytes))) ==
                    record.chunks[i].hash,
            "chunk {} of {} is not what its {} says", i, escaped(name), shard_record_name);
  }
}

std::pair<ShardRecord, FileRecord> read_checked(const fs::path& path) {
  const auto raw = PosixFile::open(path);
  FileRecord file;
  file.name = path.filename().string();
  file.size = raw.size();
  Hdf5Handle hdf5(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "H5Fopen", path);
  auto record =
      parse_shard_record(record_text(hdf5, file.size, path),
                         path.string() + "'s " + std::string(shard_record_name), file.size);
  const auto rank = attribute_of(hdf5, "rank", path);
  require(rank.size() == 1 && 0 <= rank[0] && rank[0] <= most_ranks &&
              file.name == shard_name(static_cast<int>(rank[0])),
          "it is that of rank {}", rank.empty() ? -1 : rank[0]);
  file.rank = static_cast<int>(rank[0]);
  std::vector<std::byte> buffer(static_cast<std::size_t>(max_chunk_bytes));
  for (const auto& slice : record.slices) check_dataset(hdf5, slice, buffer, path);
  file.slices = record.slices;
  file.hash = hash_around_chunks(raw, file.slices);
  return {std::move(record), std::move(file)};
}

}  // namespace

std::pair<ShardRecord, FileRecord> read_shard(const fs::path& path) {
  silence_hdf5();
  try {
    return read_checked(path);
  } catch (const Error& e) {
    fail("{} cannot be trusted: {}", path.string(), e.what());
  }
}

}  // namespace trireme
