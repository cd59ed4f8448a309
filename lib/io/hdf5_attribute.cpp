#include "lib/io/hdf5_attribute.hpp"

namespace trireme {

void set_attribute(hid_t object, const char* name, std::span<const std::int64_t> values,
                   const std::filesystem::path& path) {
  const hsize_t n = values.size();
  Hdf5Handle space(H5Screate_simple(1, &n, nullptr), H5Sclose, "H5Screate_simple", path);
  Hdf5Handle attribute(H5Acreate2(object, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT),
                       H5Aclose, "H5Acreate2", path);
  hdf5_ok(H5Awrite(attribute, H5T_NATIVE_INT64, values.data()), "H5Awrite", path);
}

void set_attribute(hid_t object, const char* name, const std::string& text,
                   const std::filesystem::path& path) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "H5Tcopy", path);
  hdf5_ok(H5Tset_size(type, text.size() + 1), "H5Tset_size", path);
  hdf5_ok(H5Tset_cset(type, H5T_CSET_UTF8), "H5Tset_cset", path);
  Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose, "H5Screate", path);
  Hdf5Handle attribute(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                       "H5Acreate2", path);
  hdf5_ok(H5Awrite(attribute, type, text.c_str()), "H5Awrite", path);
}

template <class T>
static void set_scalar(hid_t object, const char* name, hid_t stored, hid_t native, T value,
                       const std::filesystem::path& path) {
  Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose, "H5Screate", path);
  Hdf5Handle attribute(H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                       "H5Acreate2", path);
  hdf5_ok(H5Awrite(attribute, native, &value), "H5Awrite", path);
}

void set_number(hid_t object, const char* name, std::int64_t value,
                const std::filesystem::path& path) {
  set_scalar(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, value, path);
}

void set_number(hid_t object, const char* name, double value, const std::filesystem::path& path) {
  set_scalar(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, value, path);
}

}  // namespace trireme
