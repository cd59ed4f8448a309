#include "lib/io/master_file.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "lib/io/hdf5_attribute.hpp"
#include "lib/io/hdf5_sink.hpp"
#include "lib/io/shard_file.hpp"

namespace trireme {

namespace {

// Appends boxes that cover elements [begin, end) of one block of a row-major array. The block has
// the first `dim` coordinates of `outer`.
void append_boxes(const Shape& shape, int dim, Box outer, std::int64_t begin, std::int64_t end,
                  std::vector<Box>& boxes) {
  if (begin == end) return;
  const auto d = static_cast<std::size_t>(dim);
  std::int64_t inner = 1;
  for (int i = dim + 1; i < shape.dims(); ++i) inner *= shape[i];
  const auto part_of_row = [&](std::int64_t row, std::int64_t from, std::int64_t to) {
    auto box = outer;
    box.start[d] = row;
    box.count[d] = 1;
    append_boxes(shape, dim + 1, box, from, to, boxes);
  };
  if (begin % inner != 0) {
    const auto stop = std::min(end, (begin / inner + 1) * inner);
    part_of_row(begin / inner, begin % inner, stop - begin / inner * inner);
    begin = stop;
  }
  if (const auto rows = (end - begin) / inner; rows > 0) {
    auto box = outer;
    box.start[d] = begin / inner;
    box.count[d] = rows;
    for (int i = dim + 1; i < shape.dims(); ++i) {
      box.start[static_cast<std::size_t>(i)] = 0;
      box.count[static_cast<std::size_t>(i)] = shape[i];
    }
    boxes.push_back(box);
    begin += rows * inner;
  }
  if (begin < end) part_of_row(begin / inner, 0, end - begin);
}

using Extents = std::array<hsize_t, max_dims>;

Extents as_extents(const std::array<std::int64_t, max_dims>& a) {
  Extents e;
  std::copy(a.begin(), a.end(), e.begin());
  return e;
}

struct Source {
  const FileRecord* file;
  const ParamSlice* slice;
};

void write_virtual(hid_t group, const std::vector<Source>& sources,
                   const std::filesystem::path& path) {
  const ParamSlice& any = *sources.front().slice;
  // A scalar is shown as one row.
  const Shape shape = any.shape.dims() == 0 ? Shape{1} : any.shape;
  Extents extents{};
  for (int d = 0; d < shape.dims(); ++d) {
    extents[static_cast<std::size_t>(d)] = static_cast<hsize_t>(shape[d]);
  }
  Hdf5Handle plist(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate", path);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  hdf5_ok(H5Pset_fill_value(plist, H5T_NATIVE_DOUBLE, &nan), "H5Pset_fill_value", path);
  const auto whole =
      hdf5_space(std::span(extents).first(static_cast<std::size_t>(shape.dims())), path);
  for (const auto& [file, slice] : sources) {
    const hsize_t held = static_cast<hsize_t>(slice->count);
    const auto part = hdf5_space({&held, 1}, path);
    const auto dataset = slice->array + "/" + slice->name;
    hsize_t at = 0;
    for (const auto& box : boxes_of(shape, slice->begin, slice->count)) {
      const auto start = as_extents(box.start), count = as_extents(box.count);
      hsize_t n = 1;
      for (int d = 0; d < shape.dims(); ++d) n *= count[static_cast<std::size_t>(d)];
      hdf5_ok(
          H5Sselect_hyperslab(whole, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
          "H5Sselect_hyperslab", path);
      hdf5_ok(H5Sselect_hyperslab(part, H5S_SELECT_SET, &at, nullptr, &n, nullptr),
              "H5Sselect_hyperslab", path);
      hdf5_ok(H5Pset_virtual(plist, whole, file->name.c_str(), dataset.c_str(), part),
              "H5Pset_virtual", path);
      at += n;
    }
  }
  hdf5_ok(H5Sselect_all(whole), "H5Sselect_all", path);
  const hid_t type = any.dtype == DType::f32 ? H5T_IEEE_F32LE : H5T_IEEE_F64LE;
  create_dataset(group, any.name, type, whole, plist, path);
}

}  // namespace

std::vector<Box> boxes_of(const Shape& shape, std::int64_t begin, std::int64_t count) {
  std::vector<Box> boxes;
  append_boxes(shape, 0, Box{}, begin, begin + count, boxes);
  return boxes;
}

FileRecord write_master(const std::filesystem::path& directory, std::int64_t step,
                        std::span<const FileRecord> shards) {
  std::map<std::string, std::map<std::string, std::vector<Source>>> parameters;
  for (const auto& file : shards) {
    for (const auto& s : file.slices) {
      parameters[s.slice.array][s.slice.name].push_back({&file, &s.slice});
    }
  }
  FileRecord record;
  record.name = master_name;
  const auto path = directory / record.name;
  auto file = PosixFile::create(path);
  {  // other threads may use HDF5 while the disk is written
    Hdf5Sink sink(file);
    try {
      auto hdf5 = sink.create();
      set_number(hdf5, "step", step, path);
      for (const auto& [name, names] : parameters) {
        const auto group = create_group(hdf5, name, path);
        for (const auto& [parameter, sources] : names) write_virtual(group, sources, path);
      }
      hdf5.close("H5Fclose", path);
    } catch (const Error&) {
      sink.check();
      throw;
    }
    sink.check();
  }
  record.size = file.size();
  record.hash = hash_around_chunks(file, {});
  file.sync();
  return record;
}

}  // namespace trireme
