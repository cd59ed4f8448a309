#include "lib/io/weights_file.hpp"

#include "lib/base/posix_file.hpp"
#include "lib/io/hdf5_attribute.hpp"
#include "lib/io/hdf5_sink.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Bytes [begin, end) of the file.
struct Extent {
  std::int64_t begin = 0, end = 0;
};

// A dataset whose elements lie in the file as they are; where they do.
Extent place_dataset(hid_t place, const std::string& name, hid_t type, const Shape& shape,
                     const fs::path& path) {
  hsize_t extent[max_dims];
  for (int d = 0; d < shape.dims(); ++d) extent[d] = static_cast<hsize_t>(shape[d]);
  const auto space = hdf5_space({extent, static_cast<std::size_t>(shape.dims())}, path);
  const Hdf5Handle plist(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate", path);
  hdf5_ok(H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time", path);
  hdf5_ok(H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER), "H5Pset_fill_time", path);
  const auto dataset = create_dataset(place, name, type, space, plist, path);
  const auto at = H5Dget_offset(dataset);
  require(at != HADDR_UNDEF, "HDF5 allocated no space for {} in {}", name, path.string());
  const auto bytes = shape.count() * static_cast<std::int64_t>(H5Tget_size(type));
  return {static_cast<std::int64_t>(at), static_cast<std::int64_t>(at) + bytes};
}

void set_settings(hid_t file, std::span<const Setting> settings, const fs::path& path) {
  for (const auto& [name, value] : settings) {
    const auto* key = name.c_str();
    if (const auto* text = std::get_if<std::string>(&value))
      set_attribute(file, key, *text, path);
    else if (const auto* real = std::get_if<double>(&value))
      set_number(file, key, *real, path);
    else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
      set_attribute(file, key, *list, path);
    else
      set_number(file, key, std::get<std::int64_t>(value), path);
  }
}

void fill(PosixFile& file, const Extent& extent, const WeightsDataset& dataset,
          const ElementSource& source) {
  auto at = extent.begin;
  source(dataset, [&](std::span<const std::byte> elements) {
    const auto n = static_cast<std::int64_t>(elements.size());
    require(n <= extent.end - at, "too many elements were given for {}", dataset.name);
    file.write_at(elements, at);
    at += n;
  });
  require(at == extent.end, "{} bytes of {} are missing", extent.end - at, dataset.name);
  file.start_writeback(extent.begin, extent.end - extent.begin);
}

}  // namespace

void write_weights_file(const fs::path& path, std::span<const WeightsDataset> datasets,
                        std::span<const Setting> settings, const std::string& tokenizer,
                        const ElementSource& source) {
  auto file = PosixFile::create(path);
  Hdf5Sink sink(file);
  std::vector<Extent> extents;
  try {
    auto hdf5 = sink.create();
    set_settings(hdf5, settings, path);
    auto group = create_group(hdf5, "weights", path);
    for (const auto& d : datasets) {
      const hid_t type = d.dtype == DType::f64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
      extents.push_back(place_dataset(group, d.name, type, d.shape, path));
    }
    Extent text;
    if (!tokenizer.empty())
      text = place_dataset(hdf5, "tokenizer", H5T_STD_U8LE,
                           {static_cast<std::int64_t>(tokenizer.size())}, path);
    group.close("H5Gclose", path);
    hdf5.close("H5Fclose", path);
    sink.finish();
    for (std::size_t i = 0; i < datasets.size(); ++i) fill(file, extents[i], datasets[i], source);
    file.write_at(std::as_bytes(std::span(tokenizer)), text.begin);
  } catch (const Error&) {
    sink.check();  // first, as a failed write is the cause of what HDF5 reports
    throw;
  }
  file.sync();
}

}  // namespace trireme
