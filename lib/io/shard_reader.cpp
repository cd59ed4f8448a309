#include "lib/io/shard_reader.hpp"

#include <algorithm>
#include <array>
#include <optional>
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
  require(n <= max_dims, "the attribute '{}' has {} values, more than a tensor has dimensions",
          name, n);
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  if (n > 0) hdf5_ok(H5Aread(attribute, H5T_NATIVE_INT64, values.data()), "H5Aread", path);
  return values;
}

bool has_record(hid_t file) {
  return H5Lexists(file, std::string(shard_record_name).c_str(), H5P_DEFAULT) > 0;
}

std::string record_text(hid_t file, std::int64_t file_size, const fs::path& path) {
  const std::string name(shard_record_name);
  require(has_record(file), "it has no {}: an older version wrote it", shard_record_name);
  Hdf5Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2", path);
  Hdf5Handle type(H5Dget_type(dataset), H5Tclose, "H5Dget_type", path);
  Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "H5Dget_space", path);
  const auto size = static_cast<std::int64_t>(H5Tget_size(type));
  require(H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
              H5Sget_simple_extent_npoints(space) == 1 && size <= file_size,
          "its {} is not a text", shard_record_name);
  std::string text(static_cast<std::size_t>(size), '\0');
  hdf5_ok(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), "H5Dread", path);
  return text;
}

ShardRecord record_in(hid_t hdf5, std::int64_t size, const fs::path& path) {
  return parse_shard_record(record_text(hdf5, size, path),
                            path.string() + "'s " + std::string(shard_record_name), size);
}

struct OpenDataset {
  Hdf5Handle dataset, space;
  hid_t type;  // type in the record
};

// Opens the dataset of a record. Throws Error unless its name, shape, dtype and chunk positions
// match the record from `source`.
OpenDataset checked_dataset(hid_t file, const SliceRecord& record, std::string_view source,
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
          "{} does not match its description in {}", escaped(name), source);
  for (std::size_t i = 0; i < record.chunks.size(); ++i) {
    const hsize_t first = i * static_cast<hsize_t>(record.chunk_elements);
    unsigned filters = 0;
    haddr_t at = 0;
    hsize_t stored = 0;
    hdf5_ok(H5Dget_chunk_info_by_coord(dataset, &first, &filters, &at, &stored),
            "H5Dget_chunk_info_by_coord", path);
    require(static_cast<std::int64_t>(at) == record.chunks[i].at,
            "chunk {} of {} is not at the position given in {}", i, escaped(name), source);
  }
  return {std::move(dataset), std::move(space), expected};
}

void check_elements(hid_t file, const SliceRecord& record, std::vector<std::byte>& buffer,
                    const fs::path& path) {
  const auto opened = checked_dataset(file, record, shard_record_name, path);
  for (std::size_t i = 0; i < record.chunks.size(); ++i) {
    const hsize_t first = i * static_cast<hsize_t>(record.chunk_elements);
    const auto bytes = chunk_bytes(record, i);
    const auto n = static_cast<hsize_t>(bytes) / bytes_of(record.slice.dtype);
    const auto memory = hdf5_space({&n, 1}, path);
    hdf5_ok(H5Sselect_hyperslab(opened.space, H5S_SELECT_SET, &first, nullptr, &n, nullptr),
            "H5Sselect_hyperslab", path);
    hdf5_ok(H5Dread(opened.dataset, opened.type, memory, opened.space, H5P_DEFAULT, buffer.data()),
            "H5Dread", path);
    require(
        hash128(std::span(buffer).first(static_cast<std::size_t>(bytes))) == record.chunks[i].hash,
        "chunk {} of {}/{} does not match its hash in {}", i, record.slice.array,
        escaped(record.slice.name), shard_record_name);
  }
}

// Whether a shard's elements are read and compared with their hashes.
enum class Elements : std::uint8_t { trusted, compared };

std::pair<ShardRecord, FileRecord> read_checked(const fs::path& path, Elements elements) {
  const auto raw = PosixFile::open(path);
  FileRecord file;
  file.name = path.filename().string();
  file.size = raw.size();
  const auto hdf5 = open_hdf5(path);
  auto record = record_in(hdf5, file.size, path);
  const auto rank = attribute_of(hdf5, "rank", path);
  require(rank.size() == 1 && 0 <= rank[0] && rank[0] <= most_ranks &&
              file.name == shard_name(static_cast<int>(rank[0])),
          "its name belongs to another rank: the file is the shard of rank {}",
          rank.empty() ? -1 : rank[0]);
  file.rank = static_cast<int>(rank[0]);
  std::vector<std::byte> buffer(static_cast<std::size_t>(max_chunk_bytes));
  for (const auto& slice : record.slices)
    if (elements == Elements::compared) check_elements(hdf5, slice, buffer, path);
  file.slices = record.slices;
  file.hash = hash_around_chunks(raw, file.slices);
  return {std::move(record), std::move(file)};
}

// Returns the metadata that a shard and the manifest have in common. The tokenizer's bytes are in a
// separate file, and only rank 0 knows `extra`.
CheckpointMeta comparable(CheckpointMeta meta, int rank) {
  meta.tokenizer.clear();
  if (rank != 0) meta.extra = {};
  return meta;
}

std::string slice_text(const SliceRecord& r) {
  const auto& s = r.slice;
  return fmt::format("{}/{} {} of {}, elements {} to {}", s.array, escaped(s.name),
                     to_string(s.shape), name_of(s.dtype), s.begin, s.begin + s.count - 1);
}

Hash128 tokenizer_of(const Manifest& manifest) {
  const auto file = std::ranges::find(manifest.files, tokenizer_name, &FileRecord::name);
  return file == manifest.files.end() ? hash128(std::string_view()) : file->hash;
}

void require_same(const ShardRecord& own, const FileRecord& file, const Manifest& manifest) {
  require(file.name == shard_name(file.rank), "{} lists it as the shard of rank {}", manifest_name,
          file.rank);
  require(own.slices.size() == file.slices.size(),
          "it contains {} slices of parameters, but {} lists {}", own.slices.size(), manifest_name,
          file.slices.size());
  for (std::size_t i = 0; i < own.slices.size(); ++i) {
    if (own.slices[i] == file.slices[i]) continue;
    const auto here = slice_text(own.slices[i]), there = slice_text(file.slices[i]);
    fail("its slice {} (a part of a parameter) is {}, but {} lists {}", i, here, manifest_name,
         here == there ? "the same slice with other hashes or positions" : there);
  }
  const auto mine = comparable(own.meta, file.rank), given = comparable(manifest.meta, file.rank);
  require(mine == given, "it belongs to {}, not to the checkpoint of step {} in {}",
          mine.step == given.step ? "another checkpoint"
                                  : fmt::format("the checkpoint of step {}", mine.step),
          given.step, manifest_name);
  require(own.tokenizer == tokenizer_of(manifest),
          "its tokenizer differs from the tokenizer in {}, so the files belong to different "
          "checkpoints",
          manifest_name);
}

}  // namespace

std::string contradiction_in(const fs::path& path, const Manifest& manifest, const FileRecord& file,
                             Check check) {
  const auto hdf5 = open_hdf5(path);
  const bool has = has_record(hdf5);
  std::optional<ShardRecord> own;
  if (has) own = record_in(hdf5, file.size, path);
  try {
    if (own) require_same(*own, file, manifest);
    if (own && check != Check::hashes) return {};
    require(attribute_of(hdf5, "rank", path) == std::vector<std::int64_t>{file.rank} &&
                attribute_of(hdf5, "step", path) == std::vector{manifest.meta.step},
            "its rank or step differs from the rank and step in {}", manifest_name);
    for (const auto& slice : file.slices) checked_dataset(hdf5, slice, manifest_name, path);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

static std::pair<ShardRecord, FileRecord> read_trusted(const fs::path& path, Elements elements) {
  try {
    return read_checked(path, elements);
  } catch (const Error& e) {
    fail("{} cannot be trusted: {}", path.string(), e.what());
  }
}

std::pair<ShardRecord, FileRecord> read_shard(const fs::path& path) {
  return read_trusted(path, Elements::compared);
}

FileRecord record_of_shard(const fs::path& path) {
  return read_trusted(path, Elements::trusted).second;
}

}  // namespace trireme
