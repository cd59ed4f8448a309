#include "lib/io/hdf5_handle.hpp"

namespace trireme {

static herr_t append_message(unsigned, const H5E_error2_t* e, void* text) {
  auto& all = *static_cast<std::string*>(text);
  const std::string_view message = e->desc ? e->desc : "";
  if (message.empty() || all.find(message) != std::string::npos) return 0;
  if (!all.empty()) all += "; ";
  all += message;
  return 0;
}

void fail_hdf5(std::string_view call, const std::filesystem::path& file) {
  std::string messages;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_message, &messages);
  H5Eclear2(H5E_DEFAULT);
  fail("{} failed on {}: {}", call, file.string(), messages.empty() ? "no message" : messages);
}

void silence_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Handle open_hdf5(const std::filesystem::path& file) {
  silence_hdf5();
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate", file);
  hdf5_ok(H5Pset_file_locking(access, false, true), "H5Pset_file_locking", file);
  return {H5Fopen(file.c_str(), H5F_ACC_RDONLY, access), H5Fclose, "H5Fopen", file};
}

Hdf5Handle hdf5_space(std::span<const hsize_t> extents, const std::filesystem::path& file) {
  if (extents.empty()) return {H5Screate(H5S_SCALAR), H5Sclose, "H5Screate", file};
  return {H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
          "H5Screate_simple", file};
}

Hdf5Handle create_group(hid_t place, const std::string& name, const std::filesystem::path& file) {
  return {H5Gcreate2(place, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
          "H5Gcreate2", file};
}

Hdf5Handle create_dataset(hid_t place, const std::string& name, hid_t type, hid_t space,
                          hid_t properties, const std::filesystem::path& file) {
  return {H5Dcreate2(place, name.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
          H5Dclose, "H5Dcreate2", file};
}

}  // namespace trireme
