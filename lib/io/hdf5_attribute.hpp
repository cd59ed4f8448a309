#pragma once
// Writes attributes of HDF5 objects. `path` is the path of the file and is used in error messages.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "lib/io/hdf5_handle.hpp"

namespace trireme {

void set_attribute(hid_t object, const char* name, std::span<const std::int64_t>,
                   const std::filesystem::path& path);
void set_attribute(hid_t object, const char* name, const std::string& text,
                   const std::filesystem::path& path);
// Writes an attribute that holds a single number.
void set_number(hid_t object, const char* name, std::int64_t, const std::filesystem::path& path);
void set_number(hid_t object, const char* name, double, const std::filesystem::path& path);

}  // namespace trireme
