#include "lib/io/shard_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/finite.hpp"
#include "lib/io/fletcher32.hpp"
#include "lib/io/hdf5_attribute.hpp"
#include "lib/io/hdf5_sink.hpp"

namespace trireme {

static_assert(std::endian::native == std::endian::little,
              "chunks are written as they lie in memory");

namespace fs = std::filesystem;

std::string shard_name(int rank) {
  return fmt::format("rank-{:05}.h5", rank);
}

std::int64_t chunk_bytes(const SliceRecord& r, std::size_t i) {
  const auto first = static_cast<std::int64_t>(i) * r.chunk_elements;
  return std::min(r.chunk_elements, r.slice.count - first) *
         static_cast<std::int64_t>(bytes_of(r.slice.dtype));
}

namespace {

constexpr std::size_t checksum_bytes = 4;

// Throws NotFinite for an element, which is counted from the slice's start.
[[noreturn]] void refuse_element(const ParamSlice& s, std::int64_t element) {
  throw NotFinite(
      fmt::format("element {} of {}/{} is infinite or NaN", s.begin + element, s.array, s.name));
}

// Completes a chunk in the form in which HDF5 stores it: elements, zeros up to the chunk's size,
// and a checksum. `stored` begins with `elements` bytes of the slice's elements, the first of which
// is number `first`. Returns the hash of the elements. Checksum, hash and the check for NaN process
// the same small piece while it is in the cache.
Hash128 pack_chunk(const ParamSlice& s, std::int64_t first, std::size_t elements,
                   std::span<std::byte> stored) {
  constexpr std::size_t piece = 64 << 10;
  Hasher hasher;
  Fletcher32 checksum;
  for (std::size_t at = 0; at < elements; at += piece) {
    const auto part = stored.subspan(at, std::min(piece, elements - at));
    if (const auto bad = first_not_finite(part, s.dtype))
      refuse_element(s, first + static_cast<std::int64_t>(at / bytes_of(s.dtype) + *bad));
    hasher.update(part);
    checksum.update(part);
  }
  const auto padding = stored.subspan(elements, stored.size() - checksum_bytes - elements);
  std::fill(padding.begin(), padding.end(), std::byte{0});
  checksum.update(padding);
  const auto sum = checksum.digest();
  std::memcpy(stored.data() + stored.size() - checksum_bytes, &sum, checksum_bytes);
  return hasher.digest();
}

void check_slice(const ParamSlice& s) {
  require(s.dtype == DType::f32 || s.dtype == DType::f64,
          "a checkpoint can contain only f32 and f64, but {} is {}", s.name, name_of(s.dtype));
  require(is_dataset_name(s.name), "\"{}\" cannot be a name in an HDF5 group", escaped(s.name));
  require(s.begin >= 0 && s.count > 0 && s.begin + s.count <= s.shape.count(),
          "the slice [{}, {}) of {} is not within {}", s.begin, s.begin + s.count, s.name,
          to_string(s.shape));
}

// Properties of a dataset without the time at which it is written, so that equal states have equal
// bytes.
Hdf5Handle properties_without_times(const fs::path& path) {
  Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate", path);
  hdf5_ok(H5Pset_obj_track_times(properties, false), "H5Pset_obj_track_times", path);
  return properties;
}

SliceRecord write_slice(hid_t group, const ParamSlice& s, const SliceSource& source, Hdf5Sink& sink,
                        const fs::path& path) {
  check_slice(s);
  const auto bytes = static_cast<std::int64_t>(bytes_of(s.dtype));
  // All chunks have equal sizes, because HDF5 pads a short last chunk to a whole one.
  const auto most = max_chunk_bytes / bytes;
  const auto chunks = (s.count + most - 1) / most;
  SliceRecord record{s, (s.count + chunks - 1) / chunks, {}};

  const hsize_t extent = static_cast<hsize_t>(s.count);
  const hsize_t chunk = static_cast<hsize_t>(record.chunk_elements);
  const auto space = hdf5_space({&extent, 1}, path);
  const auto plist = properties_without_times(path);
  hdf5_ok(H5Pset_chunk(plist, 1, &chunk), "H5Pset_chunk", path);
  hdf5_ok(H5Pset_fletcher32(plist), "H5Pset_fletcher32", path);
  hdf5_ok(H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER), "H5Pset_fill_time", path);
  const hid_t type = s.dtype == DType::f32 ? H5T_IEEE_F32LE : H5T_IEEE_F64LE;
  const auto dataset = create_dataset(group, s.name, type, space, plist, path);
  std::int64_t shape[max_dims];
  for (int d = 0; d < s.shape.dims(); ++d) shape[d] = s.shape[d];
  set_attribute(dataset, "shape", {shape, static_cast<std::size_t>(s.shape.dims())}, path);
  set_attribute(dataset, "offset", {&s.begin, 1}, path);

  for (std::int64_t first = 0; first < s.count; first += record.chunk_elements) {
    const auto stored =
        sink.staging(static_cast<std::size_t>(record.chunk_elements * bytes) + checksum_bytes);
    const auto elements =
        static_cast<std::size_t>(std::min(record.chunk_elements, s.count - first) * bytes);
    source(s, first, stored.first(elements));
    record.chunks.push_back({0, pack_chunk(s, first, elements, stored)});
    const hsize_t at = static_cast<hsize_t>(first);
    hdf5_ok(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &at, stored.size(), stored.data()),
            "H5Dwrite_chunk", path);
    sink.check();
  }
  for (std::size_t i = 0; i < record.chunks.size(); ++i) {
    const hsize_t first = i * chunk;
    unsigned filters;
    haddr_t at;
    hsize_t size;
    hdf5_ok(H5Dget_chunk_info_by_coord(dataset, &first, &filters, &at, &size),
            "H5Dget_chunk_info_by_coord", path);
    record.chunks[i].at = static_cast<std::int64_t>(at);
  }
  return record;
}

void write_record(hid_t file, const std::string& text, const fs::path& path) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "H5Tcopy", path);
  hdf5_ok(H5Tset_size(type, text.size()), "H5Tset_size", path);
  hdf5_ok(H5Tset_strpad(type, H5T_STR_NULLPAD), "H5Tset_strpad", path);
  hdf5_ok(H5Tset_cset(type, H5T_CSET_UTF8), "H5Tset_cset", path);
  const auto dataset = create_dataset(file, std::string(shard_record_name), type,
                                      hdf5_space({}, path), properties_without_times(path), path);
  hdf5_ok(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), "H5Dwrite", path);
}

struct Region {
  std::int64_t at, bytes;
  const Hash128* expected;
  const SliceRecord* slice;
  std::size_t chunk;
};

std::vector<Region> regions_of(std::span<const SliceRecord> slices) {
  std::vector<Region> regions;
  for (const auto& s : slices) {
    for (std::size_t i = 0; i < s.chunks.size(); ++i) {
      regions.push_back({s.chunks[i].at, chunk_bytes(s, i), &s.chunks[i].hash, &s, i});
    }
  }
  std::sort(regions.begin(), regions.end(), [](auto& a, auto& b) { return a.at < b.at; });
  return regions;
}

std::array<std::byte, 16> canonical(Hash128 h) {
  std::array<std::byte, 16> bytes;
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(h.high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<std::byte>(h.low >> (56 - 8 * i));
  }
  return bytes;
}

// Reads the file once and returns its hash, in which hash_of(region) replaces the bytes of each
// region.
template <class HashOf>
Hash128 hash_file(const PosixFile& file, const std::vector<Region>& regions, HashOf hash_of) {
  std::vector<std::byte> piece(
      static_cast<std::size_t>(std::clamp<std::int64_t>(file.size(), 1, 64 << 10)));
  Hasher hasher;
  std::int64_t at = 0;
  const auto take_plain = [&](std::int64_t end) {
    while (at < end) {
      const auto n = std::min<std::int64_t>(end - at, static_cast<std::int64_t>(piece.size()));
      const auto part = std::span(piece).first(static_cast<std::size_t>(n));
      file.read_at(part, at);
      hasher.update(part);
      at += n;
    }
  };
  for (const auto& r : regions) {
    require(r.at >= at, "two chunks of {} overlap", file.path().string());
    take_plain(r.at);
    hasher.update(canonical(hash_of(r)));
    at += r.bytes;
  }
  take_plain(file.size());
  return hasher.digest();
}

}  // namespace

Hash128 hash_around_chunks(const PosixFile& file, std::span<const SliceRecord> slices) {
  return hash_file(file, regions_of(slices), [](const Region& r) { return *r.expected; });
}

FileRecord write_shard(const fs::path& directory, int rank, const CheckpointMeta& meta,
                       std::span<const ParamSlice> slices, const SliceSource& source) {
  auto file = PosixFile::create(directory / shard_name(rank));
  std::vector<ByteRange> unchanged;
  return rewrite_shard(file, rank, meta, slices, source, {}, unchanged);
}

FileRecord rewrite_shard(PosixFile& file, int rank, const CheckpointMeta& meta,
                         std::span<const ParamSlice> slices, const SliceSource& source,
                         std::span<const std::byte> old, std::vector<ByteRange>& unchanged) {
  FileRecord record;
  record.name = shard_name(rank);
  record.rank = rank;
  const auto& path = file.path();
  {  // other threads may use HDF5 while the disk is written
    Hdf5Sink sink(file, old);
    try {
      auto hdf5 = sink.create();
      const std::int64_t number = rank;
      set_attribute(hdf5, "rank", {&number, 1}, path);
      set_attribute(hdf5, "step", {&meta.step, 1}, path);
      set_attribute(hdf5, "run", meta.run, path);
      std::map<std::string, Hdf5Handle> groups;
      for (const auto& s : slices) {
        if (!groups.contains(s.array)) groups.emplace(s.array, create_group(hdf5, s.array, path));
        record.slices.push_back(write_slice(groups.at(s.array), s, source, sink, path));
      }
      groups.clear();
      write_record(hdf5, to_text(ShardRecord{meta, hash128(meta.tokenizer), record.slices}), path);
      hdf5.close("H5Fclose", path);
    } catch (const Error&) {
      sink.finish();  // throws a failed write, which causes the errors of HDF5
      throw;
    }
    sink.finish();
    unchanged.insert(unchanged.end(), sink.unchanged().begin(), sink.unchanged().end());
  }
  record.size = file.size();
  record.hash = hash_around_chunks(file, record.slices);
  file.sync();
  return record;
}

std::vector<std::string> verify_file(const fs::path& directory, const FileRecord& record,
                                     Check check) {
  std::vector<std::string> problems;
  const auto name = escaped(record.name);
  try {
    const auto file = PosixFile::open(directory / record.name);
    if (file.size() != record.size) {
      return {fmt::format("{} has {} bytes instead of {}", name, file.size(), record.size)};
    }
    if (check == Check::sizes) return {};
    std::vector<std::byte> chunk;
    const auto whole = hash_file(file, regions_of(record.slices), [&](const Region& r) {
      if (check == Check::metadata) return *r.expected;
      chunk.resize(std::max(chunk.size(), static_cast<std::size_t>(r.bytes)));
      const auto elements = std::span(chunk).first(static_cast<std::size_t>(r.bytes));
      file.read_at(elements, r.at);
      const auto found = hash128(elements);
      if (found != *r.expected) {
        problems.push_back(fmt::format("{}: chunk {} of {}/{} does not match its hash", name,
                                       r.chunk, r.slice->slice.array,
                                       escaped(r.slice->slice.name)));
      }
      return found;
    });
    if (whole != record.hash && problems.empty()) {
      problems.push_back(fmt::format("{} does not match its hash", name));
    }
  } catch (const Error& e) {
    problems.push_back(e.what());
  }
  return problems;
}

}  // namespace trireme
