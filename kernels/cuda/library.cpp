#include "kernels/cuda/library.hpp"

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "lib/base/error.hpp"
#include "lib/base/version.hpp"

namespace trireme::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "libtrireme_cuda.so";

// Returns the folders in which the library may be: those around the program, and that of the object
// that contains this code. In a test, this object is libtrireme.so.
std::vector<fs::path> folders() {
  std::error_code none;
  const auto program = fs::read_symlink("/proc/self/exe", none).parent_path();
  std::vector<fs::path> all{program, program / "lib", program / "../lib",
                            program / "../lib/trireme"};
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&library), &here) && here.dli_fname)
    all.push_back(fs::path(here.dli_fname).parent_path());
  return all;
}

struct Opened {
  void* handle = nullptr;
  const Library* library = nullptr;
  std::string why;
};

// Returns true if the file ends before the end of its section table. Loading such a file would end
// the process.
bool cut_off(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr head{};
  if (!in.read(reinterpret_cast<char*>(&head), sizeof head))
    return false;  // dlopen reports the error
  std::error_code none;
  const auto bytes = fs::file_size(file, none);
  return !none && std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
         head.e_shoff + std::uint64_t{head.e_shnum} * head.e_shentsize > bytes;
}

Opened open(const fs::path& file, std::string_view build) {
  Opened o;
  if (cut_off(file)) {
    o.why = fmt::format("{} is truncated: install it again", file.string());
    return o;
  }
  // The library's symbols are not visible to other objects. The program provides the symbols that
  // the library lacks.
  o.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!o.handle) {
    o.why = fmt::format(
        "{} does not load: {}. It must come from the same build as this program, and the dynamic "
        "linker must find the CUDA libraries, for example through LD_LIBRARY_PATH",
        file.string(), dlerror());
    return o;
  }
  using Entry = const Library*();
  const auto entry = reinterpret_cast<Entry*>(dlsym(o.handle, "trireme_cuda"));
  const auto* const found = entry ? entry() : nullptr;
  if (found && found->build == build)
    o.library = found;
  else
    o.why =
        fmt::format("{} comes from {}, but this program from {}: install both from the same build",
                    file.string(), found ? found->build : "an unknown build", build);
  return o;
}

const Opened& opened() {
  static const Opened once = []() -> Opened {
    try {
      return open(library_file(),
                  fmt::format("{}, commit {}, {}", version(), commit(), compiler()));
    } catch (const Error& e) {
      return {.why = e.what()};
    }
  }();
  return once;
}

}  // namespace

std::string library_file() {
  std::error_code none;
  for (const auto& folder : folders())
    if (fs::exists(folder / file_name, none)) return folder / file_name;
  fail(
      "{} is missing next to this program in {}: install both again, or set run.backend = \"host\"",
      file_name, folders().front().string());
}

const Library* library(std::string* why) {
  const auto& o = opened();
  if (!o.library) *why = o.why;
  return o.library;
}

const Library* open_library(const std::string& file, std::string_view build, std::string* why) {
  auto o = open(file, build);
  *why = std::move(o.why);
  return o.library;
}

void* library_symbol(const char* name) {
  const auto& o = opened();
  return o.library ? dlsym(o.handle, name) : nullptr;
}

}  // namespace trireme::cuda
