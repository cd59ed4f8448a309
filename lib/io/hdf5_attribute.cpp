#include "lib/io/hdf5_attribute.hpp"

namespace trireme {

static void write(hid_t object, const char* name, hid_t stored, hid_t memory,
                  std::span<const hsize_t> extents, const void* value,
                  const std::filesystem::path& path) {
  const auto space = hdf5_space(extents, path);
  Hdf5Handle attribute(H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                       "H5Acreate2", path);
  hdf5_ok(H5Awrite(attribute, memory, value), "H5Awrite", path);
}

void set_attribute(hid_t object, const char* name, std::span<const std::int64_t> values,
                   const std::filesystem::path& path) {
  const hsize_t n = values.size();
  constexpr std::int64_t nothing = 0;  // HDF5 rejects a null pointer even for zero values
  write(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, {&n, 1}, n == 0 ? &nothing : values.data(),
        path);
}

void set_attribute(hid_t object, const char* name, const std::string& text,
                   const std::filesystem::path& path) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "H5Tcopy", path);
  hdf5_ok(H5Tset_size(type, text.size() + 1), "H5Tset_size", path);
  hdf5_ok(H5Tset_cset(type, H5T_CSET_UTF8), "H5Tset_cset", path);
  write(object, name, type, type, {}, text.c_str(), path);
}

void set_number(hid_t object, const char* name, std::int64_t value,
                const std::filesystem::path& path) {
  write(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, {}, &value, path);
}

void set_number(hid_t object, const char* name, double value, const std::filesystem::path& path) {
  write(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {}, &value, path);
}

}  // namespace trireme
